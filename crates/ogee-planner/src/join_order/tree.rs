//! Join trees.

#[cfg(test)]
use super::relation_set::RelationSet;

/// An order of joins.
#[derive(Clone, Debug)]
pub(super) enum JoinTree {
    Relation(usize),
    /// The side that is built and the one that probes it.
    Join(Box<JoinTree>, Box<JoinTree>),
}

#[cfg(test)]
impl JoinTree {
    /// The relations in it.
    pub(super) fn relations(&self) -> RelationSet {
        match self {
            Self::Relation(relation) => RelationSet::single(*relation),
            Self::Join(build, probe) => build.relations().union(probe.relations()),
        }
    }
}
