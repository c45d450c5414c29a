//! What there is to order: relations, what connects them, how many rows a set of them has when joined.
//!
//! Rows are a property of the set, not of the order in which it was joined, so that plans of one set compare by what leads there.
//!
//! Not here: expressions, plans, statistics (`region`, `estimate`).

use super::relation_set::RelationSet;

/// A graph whose vertices are relations.
#[derive(Clone, Debug, Default)]
pub(super) struct JoinGraph {
    pub(super) vertices: Vec<Vertex>,
    pub(super) edges: Vec<Edge>,
    /// Equalities, each between two relations; those of one class are transitive, and all pairs of the class are there.
    pub(super) equalities: Vec<Equality>,
    /// Pairs of relations that are equal in several classes: how selective these are together.
    pub(super) composites: Vec<Composite>,
    pub(super) predicates: Vec<Predicate>,
    pub(super) classes: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Vertex {
    pub(super) rows: f64,
    /// Bytes of a row, as far as joins read it.
    pub(super) width: f64,
    pub(super) dependent: Option<Dependent>,
}

/// A relation that is not joined freely: the inner side of an outer, semi, anti or mark join.
///
/// Such a join commutes with the inner joins of its outer side, so it may happen at any time once the relations of that side that its
/// condition names are there. It never comes first, and it adds just this relation.
#[derive(Clone, Debug)]
pub(super) struct Dependent {
    /// What must be there before.
    pub(super) needs: RelationSet,
    /// Rows after the join for each row before.
    pub(super) factor: f64,
    /// Whether the join has equalities to hash by.
    pub(super) hashes: bool,
    /// Whether this side can be the one that is built.
    pub(super) may_build: bool,
}

/// What allows a join without a cross product: one side holds `left`, the other `right`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) left: RelationSet,
    pub(super) right: RelationSet,
    /// Whether rows can be found by hash.
    pub(super) hashes: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Equality {
    pub(super) left: usize,
    pub(super) right: usize,
    pub(super) class: usize,
    pub(super) selectivity: f64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Composite {
    pub(super) left: usize,
    pub(super) right: usize,
    pub(super) selectivity: f64,
}

/// A predicate that is no equality of two relations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Predicate {
    pub(super) needs: RelationSet,
    pub(super) selectivity: f64,
}

impl JoinGraph {
    /// All relations.
    pub(super) fn all(&self) -> RelationSet {
        RelationSet::below(self.vertices.len())
    }

    /// The dependent relation that is all of `set`, if it is.
    pub(super) fn lone_dependent(&self, set: RelationSet) -> Option<&Dependent> {
        self.vertices[set.only()?].dependent.as_ref()
    }

    /// Whether `left` and `right` may be joined, be it as a cross product.
    pub(super) fn may_join(&self, left: RelationSet, right: RelationSet) -> bool {
        match (self.lone_dependent(left), self.lone_dependent(right)) {
            (None, None) => true,
            (Some(dependent), None) => dependent.needs.is_subset(right),
            (None, Some(dependent)) => dependent.needs.is_subset(left),
            (Some(_), Some(_)) => false,
        }
    }

    /// Estimated rows of `set` when all that can be said about it has been applied; never less than a fraction of one row.
    ///
    /// Equalities of a class are transitive, so of those within the set only a spanning tree counts: the least selective one, which for
    /// selectivities of one over the larger number of distinct values is all numbers but the smallest. Pairs of relations that are equal
    /// in several columns come first, since their columns are seldom independent.
    pub(super) fn rows(&self, set: RelationSet) -> f64 {
        self.rows_with(set, &mut self.joined())
    }

    /// What [`Self::rows_with`] needs, any number of times.
    pub(super) fn joined(&self) -> Joined {
        Joined::new(self.vertices.len(), self.classes)
    }

    /// [`Self::rows`], with what [`Self::joined`] gave: some ten thousand sets are looked at.
    pub(super) fn rows_with(&self, set: RelationSet, joined: &mut Joined) -> f64 {
        let mut rows = 1.0;
        for relation in set.iter() {
            let vertex = &self.vertices[relation];
            rows *= match &vertex.dependent {
                Some(dependent) if set.len() > 1 => dependent.factor,
                _ => vertex.rows,
            };
        }
        joined.clear();
        let inside = |left: usize, right: usize| set.contains(left) && set.contains(right);
        for composite in self.composites.iter().filter(|c| inside(c.left, c.right)) {
            let of_pair = self.equalities.iter().filter(|e| (e.left, e.right) == (composite.left, composite.right));
            let mut single = 1.0;
            let mut merged = 0;
            for equality in of_pair {
                if joined.merge(equality) {
                    single *= equality.selectivity;
                    merged += 1;
                }
            }
            rows *= if merged > 1 { composite.selectivity } else { single };
        }
        for equality in self.equalities.iter().filter(|e| inside(e.left, e.right)) {
            if joined.merge(equality) {
                rows *= equality.selectivity;
            }
        }
        for predicate in self.predicates.iter().filter(|p| p.needs.is_subset(set)) {
            rows *= predicate.selectivity;
        }
        rows.max(1e-3)
    }

    /// Bytes of a row of `set`; columns that only joins within the set read count too.
    pub(super) fn width(&self, set: RelationSet) -> f64 {
        set.iter().map(|relation| self.vertices[relation].width).sum()
    }

    /// Brings equalities and composites into the order that [`Self::rows`] wants: least selective first.
    pub(super) fn sort(&mut self) {
        for equality in &mut self.equalities {
            if equality.left > equality.right {
                std::mem::swap(&mut equality.left, &mut equality.right);
            }
        }
        for composite in &mut self.composites {
            if composite.left > composite.right {
                std::mem::swap(&mut composite.left, &mut composite.right);
            }
        }
        self.equalities.sort_by(|a, b| b.selectivity.total_cmp(&a.selectivity));
        self.composites.sort_by(|a, b| b.selectivity.total_cmp(&a.selectivity));
    }

    /// Connects what would otherwise stay apart: single rows with everything, and parts with each other as wholes, so that a cross
    /// product comes as late as possible.
    pub(super) fn connect(&mut self) {
        let components = self.components();
        for (i, &left) in components.iter().enumerate() {
            for &right in &components[i + 1..] {
                self.edges.push(Edge { left, right, hashes: false });
                for (one, others) in [(left, right), (right, left)] {
                    let Some(relation) = one.only() else { continue };
                    if self.vertices[relation].rows <= 1.0 && self.vertices[relation].dependent.is_none() {
                        let free = others.iter().filter(|&other| self.vertices[other].dependent.is_none());
                        let edges: Vec<_> = free
                            .map(|other| Edge { left: one, right: RelationSet::single(other), hashes: false })
                            .collect();
                        self.edges.extend(edges);
                    }
                }
            }
        }
    }

    /// Sets of relations that edges connect.
    fn components(&self) -> Vec<RelationSet> {
        let mut components: Vec<RelationSet> = (0..self.vertices.len()).map(RelationSet::single).collect();
        let edges = self.edges.iter().map(|edge| edge.left.union(edge.right));
        let dependents = self.vertices.iter().enumerate().filter_map(|(relation, vertex)| {
            Some(vertex.dependent.as_ref()?.needs.union(RelationSet::single(relation)))
        });
        for connected in edges.chain(dependents) {
            let (inside, outside): (Vec<_>, Vec<_>) =
                components.into_iter().partition(|component| component.intersects(connected));
            components = outside;
            components.push(inside.into_iter().fold(RelationSet::EMPTY, RelationSet::union));
        }
        components
    }
}

/// Which relations are equal already, in each class: union-find.
pub(super) struct Joined {
    parents: Vec<u8>,
    relations: usize,
    /// The parents while nothing is equal.
    alone: Vec<u8>,
}

impl Joined {
    fn new(relations: usize, classes: usize) -> Self {
        let alone: Vec<u8> = (0..relations * classes).map(|i| (i % relations) as u8).collect();
        Self { parents: alone.clone(), relations, alone }
    }

    fn clear(&mut self) {
        self.parents.copy_from_slice(&self.alone);
    }

    fn root(&self, class: usize, mut relation: usize) -> usize {
        loop {
            let parent = usize::from(self.parents[class * self.relations + relation]);
            if parent == relation {
                return relation;
            }
            relation = parent;
        }
    }

    /// Whether the two relations were not equal before.
    fn merge(&mut self, equality: &Equality) -> bool {
        let (left, right) = (self.root(equality.class, equality.left), self.root(equality.class, equality.right));
        self.parents[equality.class * self.relations + left] = right as u8;
        left != right
    }
}
