//! An order for graphs with too many connected sets to look at all: greedy operator ordering.
//!
//! Fegaras, "A new heuristic for optimizing large queries", DEXA 1998: of all joins that are possible now the one with the smallest result
//! comes first. Cross products come when nothing else is left.

use super::{graph::JoinGraph, plans::Plans, relation_set::RelationSet};

/// Fills `plans` along one bushy tree of all relations.
pub(super) fn greedy(plans: &mut Plans<'_>) {
    let graph = plans.graph();
    let mut parts: Vec<RelationSet> = graph.all().iter().map(RelationSet::single).collect();
    while parts.len() > 1 {
        let (left, right) = smallest(plans, graph, &parts, false)
            .or_else(|| smallest(plans, graph, &parts, true))
            .expect("may be joined");
        let connection = plans.connection(left, right);
        plans.consider(left, right, connection.unwrap_or(false));
        parts.retain(|&part| part != left && part != right);
        parts.push(left.union(right));
    }
}

/// The two parts whose join is smallest; if `crosses`, also without an edge.
fn smallest(
    plans: &Plans<'_>,
    graph: &JoinGraph,
    parts: &[RelationSet],
    crosses: bool,
) -> Option<(RelationSet, RelationSet)> {
    let mut best: Option<(f64, RelationSet, RelationSet)> = None;
    for (i, &left) in parts.iter().enumerate() {
        for &right in &parts[i + 1..] {
            let possible = plans.connection(left, right).is_some() || (crosses && graph.may_join(left, right));
            if !possible {
                continue;
            }
            let rows = graph.rows(left.union(right));
            if best.is_none_or(|(least, ..)| rows < least) {
                best = Some((rows, left, right));
            }
        }
    }
    best.map(|(_, left, right)| (left, right))
}
