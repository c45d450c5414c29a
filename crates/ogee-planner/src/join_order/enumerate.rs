//! All orders without needless cross products, by dynamic programming over connected subgraphs.
//!
//! DPhyp of Moerkotte and Neumann, "Dynamic programming strikes back", SIGMOD 2008: each pair of connected sets with an edge between them is
//! met exactly once, also where edges have several relations at an end.

use super::{plans::Plans, relation_set::RelationSet};

/// Pairs that are looked at before enumeration is given up: a clique of ten relations, a star of thirteen, a chain of sixty. Ten milliseconds at
/// most.
pub(super) const PAIRS_MAX: usize = 50_000;

/// Too many pairs.
struct Exhausted;

struct Enumeration<'p, 'g> {
    plans: &'p mut Plans<'g>,
    pairs: usize,
}

/// Fills `plans`; false if there are more than `pairs_max` pairs, or no order without a cross product.
pub(super) fn enumerate(plans: &mut Plans<'_>, pairs_max: usize) -> bool {
    let all = plans.graph().all();
    let mut enumeration = Enumeration { plans, pairs: pairs_max };
    for relation in all.iter().rev() {
        let set = RelationSet::single(relation);
        let smaller_or_equal = RelationSet::below(relation + 1);
        let grown = enumeration.pairs_with(set).and_then(|()| enumeration.grow(set, smaller_or_equal));
        if grown.is_err() {
            return false;
        }
    }
    plans.has(all)
}

impl Enumeration<'_, '_> {
    /// Meets all connected sets that contain `set` and nothing of `without`.
    fn grow(&mut self, set: RelationSet, without: RelationSet) -> Result<(), Exhausted> {
        let near = self.plans.neighbourhood(set, without);
        for more in near.subsets() {
            let larger = set.union(more);
            if self.plans.has(larger) {
                self.pairs_with(larger)?;
            }
        }
        for more in near.subsets() {
            self.grow(set.union(more), without.union(near))?;
        }
        Ok(())
    }

    /// Meets all partners of `set` whose smallest relation is larger than that of `set`.
    fn pairs_with(&mut self, set: RelationSet) -> Result<(), Exhausted> {
        let without = set.union(RelationSet::below(set.first() + 1));
        let near = self.plans.neighbourhood(set, without);
        for relation in near.iter().rev() {
            let partner = RelationSet::single(relation);
            self.pair(set, partner)?;
            let met = near.intersection(RelationSet::below(relation + 1));
            self.grow_partner(set, partner, without.union(met))?;
        }
        Ok(())
    }

    fn grow_partner(&mut self, set: RelationSet, partner: RelationSet, without: RelationSet) -> Result<(), Exhausted> {
        let near = self.plans.neighbourhood(partner, without);
        for more in near.subsets() {
            let larger = partner.union(more);
            if self.plans.has(larger) {
                self.pair(set, larger)?;
            }
        }
        for more in near.subsets() {
            self.grow_partner(set, partner.union(more), without.union(near))?;
        }
        Ok(())
    }

    fn pair(&mut self, left: RelationSet, right: RelationSet) -> Result<(), Exhausted> {
        // Sets that cannot be joined cost time too.
        self.pairs = self.pairs.checked_sub(1).ok_or(Exhausted)?;
        if let Some(hashes) = self.plans.connection(left, right) {
            self.plans.consider(left, right, hashes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{
        super::{
            cost,
            graph::{Dependent, Edge, Equality, JoinGraph, Predicate, Vertex},
            greedy::greedy,
        },
        *,
    };

    /// splitmix64.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }

        fn below(&mut self, end: u64) -> u64 {
            self.next() % end
        }

        fn rows(&mut self) -> f64 {
            (10.0_f64).powf(self.below(600) as f64 / 100.0).round()
        }
    }

    fn graph(rows: Vec<f64>) -> JoinGraph {
        let vertices = rows.into_iter().map(|rows| Vertex { rows, width: 8.0, dependent: None }).collect();
        JoinGraph { vertices, ..JoinGraph::default() }
    }

    fn equal(graph: &mut JoinGraph, left: usize, right: usize, selectivity: f64) {
        let class = graph.classes;
        graph.classes += 1;
        graph.equalities.push(Equality { left, right, class, selectivity });
        let (left, right) = (RelationSet::single(left), RelationSet::single(right));
        graph.edges.push(Edge { left, right, hashes: true });
    }

    fn random_equality(graph: &mut JoinGraph, left: usize, right: usize, random: &mut Random) {
        let distinct = graph.vertices[left].rows.max(graph.vertices[right].rows);
        let selectivity = (1.0 / distinct * (1 + random.below(100)) as f64).min(1.0);
        equal(graph, left, right, selectivity);
    }

    /// The least cost over all trees whose joins are connected, by trying all splits of all sets.
    fn exhaustive(plans: &Plans<'_>, set: RelationSet, known: &mut HashMap<RelationSet, Option<f64>>) -> Option<f64> {
        if set.len() == 1 {
            return Some(0.0);
        }
        if let Some(cost) = known.get(&set) {
            return *cost;
        }
        let graph = plans.graph();
        let rows = |set: RelationSet| match set.only() {
            Some(relation) => graph.vertices[relation].rows,
            None => graph.rows(set),
        };
        let mut best: Option<f64> = None;
        for build in set.subsets().filter(|&subset| subset != set) {
            let probe = set.minus(build);
            let Some(hashes) = plans.connection(build, probe) else { continue };
            if graph.lone_dependent(build).is_some_and(|dependent| !dependent.may_build) {
                continue;
            }
            let (Some(left), Some(right)) = (exhaustive(plans, build, known), exhaustive(plans, probe, known)) else {
                continue;
            };
            let cost = left + right + cost::join(rows(build), rows(probe), rows(set), hashes);
            best = Some(best.map_or(cost, |best| best.min(cost)));
        }
        known.insert(set, best);
        best
    }

    fn check(graph: &JoinGraph, what: &str) {
        let mut plans = Plans::new(graph);
        let found = enumerate(&mut plans, usize::MAX);
        let expected = exhaustive(&plans, graph.all(), &mut HashMap::new());
        assert_eq!(found, expected.is_some(), "{what}: {graph:?}");
        let Some(expected) = expected else { return };
        let cost = plans.cost(graph.all()).expect("all are joined");
        assert!((cost - expected).abs() <= 1e-9 * expected, "{what}: {cost}, not {expected}: {graph:?}");
        assert_eq!(plans.tree(graph.all()).relations(), graph.all());

        let mut plans = Plans::new(graph);
        greedy(&mut plans);
        let greedy = plans.cost(graph.all()).expect("all are joined");
        assert!(greedy >= expected * (1.0 - 1e-9), "{what}: greedy {greedy} beats {expected}: {graph:?}");
    }

    #[test]
    fn chains_stars_and_cliques_are_optimal() {
        for seed in 0..60 {
            let random = &mut Random(seed);
            let count = 2 + random.below(5) as usize;
            let rows: Vec<f64> = (0..count).map(|_| random.rows()).collect();
            let mut chain = graph(rows.clone());
            let mut star = chain.clone();
            let mut clique = chain.clone();
            for relation in 1..count {
                random_equality(&mut chain, relation - 1, relation, random);
                random_equality(&mut star, 0, relation, random);
                for other in 0..relation {
                    random_equality(&mut clique, other, relation, random);
                }
            }
            for (mut graph, what) in [(chain, "chain"), (star, "star"), (clique, "clique")] {
                graph.sort();
                check(&graph, what);
            }
        }
    }

    #[test]
    fn random_graphs_with_hyperedges_and_dependents_are_optimal() {
        for seed in 0..400 {
            let random = &mut Random(1000 + seed);
            let core = 2 + random.below(4) as usize;
            let mut graph = graph((0..core).map(|_| random.rows()).collect());
            for relation in 1..core {
                let other = random.below(relation as u64) as usize;
                random_equality(&mut graph, other, relation, random);
            }
            if core > 2 && random.below(2) == 0 {
                let needs = RelationSet::below(core - 1);
                let right = RelationSet::single(core - 1);
                graph.edges.push(Edge { left: needs, right, hashes: random.below(2) == 0 });
                graph.predicates.push(Predicate { needs: needs.union(right), selectivity: 0.1 });
            }
            for _ in 0..random.below(3) {
                let relation = graph.vertices.len();
                // Of a dependent relation's needs its own needs are a part.
                let mut needs = RelationSet::single(random.below(relation as u64) as usize);
                if random.below(3) == 0 {
                    needs = needs.union(RelationSet::single(random.below(relation as u64) as usize));
                }
                for other in needs.iter() {
                    if let Some(dependent) = &graph.vertices[other].dependent {
                        needs = needs.union(dependent.needs);
                    }
                }
                let hashes = random.below(4) > 0;
                let dependent = Dependent {
                    needs,
                    factor: (1 + random.below(150)) as f64 / 100.0,
                    hashes,
                    may_build: random.below(3) > 0,
                };
                graph.vertices.push(Vertex { rows: random.rows(), width: 8.0, dependent: Some(dependent) });
                graph.edges.push(Edge { left: needs, right: RelationSet::single(relation), hashes });
            }
            graph.sort();
            check(&graph, "random");
        }
    }

    #[test]
    fn of_sides_of_about_as_many_rows_the_narrower_one_is_built() {
        let built = |left: (f64, f64), right: (f64, f64)| {
            let mut graph = graph(vec![left.0, right.0]);
            (graph.vertices[0].width, graph.vertices[1].width) = (left.1, right.1);
            equal(&mut graph, 0, 1, 1e-6);
            let mut plans = Plans::new(&graph);
            assert!(enumerate(&mut plans, usize::MAX));
            match plans.tree(graph.all()) {
                super::super::tree::JoinTree::Join(build, _) => build.relations().first(),
                super::super::tree::JoinTree::Relation(_) => panic!("two relations"),
            }
        };
        assert_eq!(built((1e6, 8.0), (1e6, 200.0)), 0);
        assert_eq!(built((1e6, 200.0), (1e6, 8.0)), 1);
        assert_eq!(built((1e6, 200.0), (2e6, 8.0)), 1, "half as many rows, but ten times as wide");
        assert_eq!(built((1e6, 32.0), (2e6, 8.0)), 0);
        assert_eq!(built((1e6, 9e3), (5e6, 8.0)), 0, "far fewer rows");
    }

    #[test]
    fn transitive_equalities_count_once() {
        // One class over three relations of 10, 100 and 1000 distinct values, as many rows each.
        let mut graph = graph(vec![10.0, 100.0, 1000.0]);
        for (left, right, distinct) in [(0, 1, 100.0), (1, 2, 1000.0), (0, 2, 1000.0)] {
            let equality = Equality { left, right, class: 0, selectivity: 1.0 / distinct };
            graph.equalities.push(equality);
        }
        graph.classes = 1;
        graph.sort();
        assert!((graph.rows(graph.all()) - 10.0).abs() < 1e-9);
    }

    #[test]
    fn parts_without_an_edge_meet_in_one_cross_product() {
        let mut graph = graph(vec![100.0, 1000.0, 10.0, 500.0]);
        equal(&mut graph, 0, 1, 0.01);
        equal(&mut graph, 2, 3, 0.1);
        graph.connect();
        let mut plans = Plans::new(&graph);
        assert!(enumerate(&mut plans, usize::MAX));
        let super::super::tree::JoinTree::Join(build, probe) = plans.tree(graph.all()) else {
            panic!("four relations")
        };
        let parts = [RelationSet::from_iter([0, 1]), RelationSet::from_iter([2, 3])];
        assert!(parts.contains(&build.relations()) && parts.contains(&probe.relations()));
    }

    #[test]
    fn many_relations_are_ordered_greedily() {
        for seed in 0..20 {
            let random = &mut Random(5000 + seed);
            let mut graph = graph((0..40).map(|_| random.rows()).collect());
            for relation in 1..40 {
                for _ in 0..3 {
                    random_equality(&mut graph, random.below(relation) as usize, relation as usize, random);
                }
            }
            graph.sort();
            let mut plans = Plans::new(&graph);
            assert!(!enumerate(&mut plans, 2000));
            greedy(&mut plans);
            assert_eq!(plans.tree(graph.all()).relations(), graph.all());
            // Much better than the order in which the relations are written.
            let mut textual = 0.0;
            let mut rows = graph.vertices[0].rows;
            for relation in 1..40 {
                let next = graph.rows(RelationSet::below(relation + 1));
                textual += cost::join(graph.vertices[relation].rows, rows, next, true);
                rows = next;
            }
            let cost = plans.cost(graph.all()).expect("all are joined");
            assert!(cost <= textual, "seed {seed}: {cost} is more than {textual}");
        }
    }
}
