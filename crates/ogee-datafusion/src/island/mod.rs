//! Islands: subtrees of a DataFusion plan that Ogee runs.
//!
//! A last optimizer rule ([`OgeeRule`]) replaces each maximal subtree of nodes that the engine has operators for by an [`IslandExec`] over
//! [`OperatorExec`] nodes, one for each operator, whose leaves are sources of the engine or DataFusion nodes that feed it.
//! Executing the island turns the operator nodes into the pipelines of one query; nothing of a run is kept in the plan but metrics,
//! so that a plan can be executed again. An island has one partition, and an order only where it ends in a sort.
//!
//! 1. No order that a node above relies on is lost (`ogee_planner::order`).
//! 2. Chunks inside an island are in normalized types; the island's batches are in the types that the replaced nodes declared.
//!
//! Not here: operators (`ogee-exec`), reading files (`ogee-scan`).

mod exec;
mod operator;
mod rule;

pub(crate) use exec::{IslandExec, UseOfRows, is_one_island};
pub(crate) use operator::expected_rows;
pub(crate) use rule::OgeeRule;
