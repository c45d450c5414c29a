//! The best known way to join each set of relations, which enumeration and the greedy order fill.

use datafusion::common::HashMap;

use super::{
    cost,
    graph::{JoinGraph, Joined},
    relation_set::RelationSet,
    tree::JoinTree,
};

/// Relations up to which each set has its place: four bytes for each of a quarter of a million sets.
const PLACED_MAX: usize = 18;

/// Ways to join sets of the relations of a graph.
pub(super) struct Plans<'g> {
    graph: &'g JoinGraph,
    /// Per relation, those that an edge between just the two connects it with; the second kind of edges hashes.
    neighbours: Vec<RelationSet>,
    hashed: Vec<RelationSet>,
    /// Edges with more than one relation at an end.
    hyperedges: Vec<super::graph::Edge>,
    /// Where each set that can be joined is in `best`.
    places: Places,
    best: Vec<Best>,
    joined: Joined,
}

/// Numbers of sets.
enum Places {
    /// By the bits of the set: one more than its number, or nothing.
    Direct(Vec<u32>),
    Hashed(HashMap<RelationSet, u32>),
}

impl Places {
    fn get(&self, set: RelationSet) -> Option<usize> {
        let place = match self {
            Self::Direct(places) => places[set.bits() as usize],
            Self::Hashed(places) => places.get(&set).copied().unwrap_or(0),
        };
        place.checked_sub(1).map(|place| place as usize)
    }

    fn put(&mut self, set: RelationSet, place: usize) {
        let place = u32::try_from(place + 1).expect("fewer sets than are ever looked at");
        match self {
            Self::Direct(places) => places[set.bits() as usize] = place,
            Self::Hashed(places) => drop(places.insert(set, place)),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Best {
    cost: f64,
    rows: f64,
    /// What is built and what probes it; `None` for single relations.
    sides: Option<(RelationSet, RelationSet)>,
}

impl<'g> Plans<'g> {
    /// Knows the single relations only.
    pub(super) fn new(graph: &'g JoinGraph) -> Self {
        let count = graph.vertices.len();
        let mut neighbours = vec![RelationSet::EMPTY; count];
        let mut hashed = neighbours.clone();
        let mut hyperedges = Vec::new();
        for edge in &graph.edges {
            match (edge.left.only(), edge.right.only()) {
                (Some(left), Some(right)) => {
                    for (one, other) in [(left, edge.right), (right, edge.left)] {
                        neighbours[one] = neighbours[one].union(other);
                        if edge.hashes {
                            hashed[one] = hashed[one].union(other);
                        }
                    }
                }
                _ => hyperedges.push(*edge),
            }
        }
        let places =
            if count <= PLACED_MAX { Places::Direct(vec![0; 1 << count]) } else { Places::Hashed(HashMap::default()) };
        let joined = graph.joined();
        let mut plans = Self { graph, neighbours, hashed, hyperedges, places, best: Vec::new(), joined };
        for (relation, vertex) in graph.vertices.iter().enumerate() {
            plans.put(RelationSet::single(relation), Best { cost: 0.0, rows: vertex.rows, sides: None });
        }
        plans
    }

    fn get(&self, set: RelationSet) -> Option<&Best> {
        self.places.get(set).map(|place| &self.best[place])
    }

    /// Learns about a set that was not known.
    fn put(&mut self, set: RelationSet, best: Best) {
        self.places.put(set, self.best.len());
        self.best.push(best);
    }

    pub(super) fn graph(&self) -> &'g JoinGraph {
        self.graph
    }

    /// Whether there is a way to join `set`.
    pub(super) fn has(&self, set: RelationSet) -> bool {
        self.places.get(set).is_some()
    }

    /// The cost of the best way to join `set`.
    #[cfg(test)]
    pub(super) fn cost(&self, set: RelationSet) -> Option<f64> {
        self.get(set).map(|best| best.cost)
    }

    /// Relations outside of `set` and `without` that an edge leads to; of a hyperedge's end only the smallest.
    pub(super) fn neighbourhood(&self, set: RelationSet, without: RelationSet) -> RelationSet {
        let outside = set.union(without);
        let near = set.iter().fold(RelationSet::EMPTY, |near, relation| near.union(self.neighbours[relation]));
        let mut near = near.minus(outside);
        for edge in &self.hyperedges {
            for (from, to) in [(edge.left, edge.right), (edge.right, edge.left)] {
                if from.is_subset(set) && !to.intersects(outside) && !to.intersects(near) {
                    near = near.union(RelationSet::single(to.first()));
                }
            }
        }
        near
    }

    /// Whether `left` and `right` can be joined without a cross product: `None` if not, else whether by hash.
    pub(super) fn connection(&self, left: RelationSet, right: RelationSet) -> Option<bool> {
        if !self.graph.may_join(left, right) {
            return None;
        }
        if let Some(dependent) = self.graph.lone_dependent(left).or_else(|| self.graph.lone_dependent(right)) {
            return Some(dependent.hashes);
        }
        let (few, many) = if left.len() < right.len() { (left, right) } else { (right, left) };
        let reaches = |adjacent: &[RelationSet]| few.iter().any(|relation| adjacent[relation].intersects(many));
        if reaches(&self.hashed) {
            return Some(true);
        }
        let crossing = |edge: &&super::graph::Edge| {
            (edge.left.is_subset(left) && edge.right.is_subset(right))
                || (edge.left.is_subset(right) && edge.right.is_subset(left))
        };
        let over = self.hyperedges.iter().filter(crossing).map(|edge| edge.hashes).reduce(|a, b| a || b);
        over.or_else(|| reaches(&self.neighbours).then_some(false))
    }

    /// Takes note of joining `left` and `right`, whichever of them is built. Both are known; `hashes` is their connection.
    pub(super) fn consider(&mut self, left: RelationSet, right: RelationSet, hashes: bool) {
        let set = left.union(right);
        let known = |plans: &Self, set| *plans.get(set).expect("both sides can be joined");
        let (l, r) = (known(self, left), known(self, right));
        let place = self.places.get(set);
        let rows = match place {
            Some(place) => self.best[place].rows,
            None => self.graph.rows_with(set, &mut self.joined),
        };
        let mut best = place.map(|place| self.best[place]);
        let may_build = |set| self.graph.lone_dependent(set).is_none_or(|dependent| dependent.may_build);
        for (build, probe, inputs) in [(left, right, (l, r)), (right, left, (r, l))] {
            if !may_build(build) {
                continue;
            }
            let cost = inputs.0.cost + inputs.1.cost + cost::join(inputs.0.rows, inputs.1.rows, rows, hashes);
            if best.is_none_or(|best| cost < best.cost) {
                let of = |set, rows| (rows, self.graph.width(set));
                let other =
                    hashes && may_build(probe) && cost::is_wider(of(build, inputs.0.rows), of(probe, inputs.1.rows));
                let sides = if other { (probe, build) } else { (build, probe) };
                best = Some(Best { cost, rows, sides: Some(sides) });
            }
        }
        let best = best.expect("one of the sides can always be built");
        match place {
            Some(place) => self.best[place] = best,
            None => self.put(set, best),
        }
    }

    /// The best way to join `set`, which has one.
    pub(super) fn tree(&self, set: RelationSet) -> JoinTree {
        match self.get(set).expect("it can be joined").sides {
            None => JoinTree::Relation(set.first()),
            Some((build, probe)) => JoinTree::Join(Box::new(self.tree(build)), Box::new(self.tree(probe))),
        }
    }
}
