//! Sets of relations as bits of a word.

/// At most so many relations take part in one ordering.
pub(super) const RELATIONS_MAX: usize = 64;

/// A set of relations, each a number below [`RELATIONS_MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RelationSet(u64);

impl RelationSet {
    pub(super) const EMPTY: Self = Self(0);

    pub(super) fn single(relation: usize) -> Self {
        debug_assert!(relation < RELATIONS_MAX);
        Self(1 << relation)
    }

    /// All relations below `count`.
    pub(super) fn below(count: usize) -> Self {
        debug_assert!(count <= RELATIONS_MAX);
        if count == RELATIONS_MAX { Self(u64::MAX) } else { Self((1 << count) - 1) }
    }

    /// Member `i` as bit `i`.
    pub(super) fn bits(self) -> u64 {
        self.0
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(super) fn contains(self, relation: usize) -> bool {
        self.0 >> relation & 1 == 1
    }

    pub(super) fn is_subset(self, of: Self) -> bool {
        self.0 & !of.0 == 0
    }

    pub(super) fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The smallest member.
    ///
    /// # Panics
    /// If the set is empty.
    pub(super) fn first(self) -> usize {
        assert!(self.0 != 0, "an empty set has no first member");
        self.0.trailing_zeros() as usize
    }

    /// The only member, if there is exactly one.
    pub(super) fn only(self) -> Option<usize> {
        (self.len() == 1).then(|| self.first())
    }

    /// The members, smallest first.
    pub(super) fn iter(self) -> Members {
        Members(self.0)
    }

    /// All subsets but the empty one, the set itself last.
    pub(super) fn subsets(self) -> impl Iterator<Item = Self> {
        let mut subset = 0_u64;
        std::iter::from_fn(move || {
            // Counts in the bits of the set only (Vance and Maier, SIGMOD 1996).
            subset = subset.wrapping_sub(self.0) & self.0;
            (subset != 0).then_some(Self(subset))
        })
    }
}

/// The members of a set that are left, at one step each: enumeration walks sets some hundred thousand times.
pub(super) struct Members(u64);

impl Iterator for Members {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let first = (self.0 != 0).then(|| self.0.trailing_zeros() as usize)?;
        self.0 &= self.0 - 1;
        Some(first)
    }
}

impl DoubleEndedIterator for Members {
    fn next_back(&mut self) -> Option<usize> {
        let last = (self.0 != 0).then(|| (u64::BITS - 1 - self.0.leading_zeros()) as usize)?;
        self.0 &= !(1 << last);
        Some(last)
    }
}

impl FromIterator<usize> for RelationSet {
    fn from_iter<I: IntoIterator<Item = usize>>(relations: I) -> Self {
        relations.into_iter().fold(Self::EMPTY, |set, relation| set.union(Self::single(relation)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets_are_all_and_each_once() {
        let set: RelationSet = [1, 4, 6, 63].into_iter().collect();
        let subsets: Vec<_> = set.subsets().collect();
        assert_eq!(subsets.len(), 15);
        assert_eq!(subsets.last(), Some(&set));
        assert!(subsets.iter().all(|subset| subset.is_subset(set) && !subset.is_empty()));
        assert!(subsets.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(RelationSet::EMPTY.subsets().count(), 0);
        assert_eq!(RelationSet::below(RELATIONS_MAX).len(), 64);
    }

    #[test]
    fn members_come_in_order_from_both_ends() {
        for members in [vec![], vec![0], vec![63], vec![1, 4, 6, 63], (0..RELATIONS_MAX).collect()] {
            let set: RelationSet = members.iter().copied().collect();
            assert_eq!(set.iter().collect::<Vec<_>>(), members);
            assert!(set.iter().rev().eq(members.iter().rev().copied()));
        }
    }
}
