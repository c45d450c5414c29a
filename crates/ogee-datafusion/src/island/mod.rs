//! Islands: subtrees of a DataFusion plan that Ogee runs.
//!
//! A last optimizer rule ([`OgeeRule`]) replaces each maximal subtree of nodes that the engine has operators for by an [`IslandExec`] over
//! [`OperatorExec`] nodes, one for each operator, whose leaves are sources of the engine or DataFusion nodes that feed it.
//! Executing the island turns the operator nodes into the pipelines of one query; nothing of a run is kept in the plan but metrics,
//! so that a plan can be executed again. An island has one partition, and an order only where it ends in a sort.
//!
//! 1. No order that a node above relies on is lost: see `order`.
//! 2. Chunks inside an island are in normalized types; the island's batches are in the types that the replaced nodes declared.
//!
//! Not here: operators (`ogee-exec`), reading files (`ogee-scan`).

mod aggregate;
mod collected;
mod domain;
mod eager;
mod evaluator;
mod exec;
mod first_by;
mod float_extremum;
mod join;
mod operator;
mod prune;
mod rule;
mod scan;
mod series;
mod sort;
mod unnest;
mod window;

pub(crate) use domain::integer;
pub(crate) use eager::StepExec;
pub(crate) use exec::{IslandExec, is_one_island};
pub(crate) use operator::{expected_rows, properties as table_properties};
pub(crate) use rule::OgeeRule;
pub(crate) use series::Series;
