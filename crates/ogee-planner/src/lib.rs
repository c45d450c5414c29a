//! Physical plans: the order of joins, groupings below joins, and what operators of the engine do in place of DataFusion's nodes.
//!
//! Rules on the physical plan order joins by cost ([`join_order`], on samples of the tables), group below joins where that pays ([`eager`]), and wrap those of
//! DataFusion's that go wrong, each with what it does wrong in its first lines. [`operators`] and [`expr`] are nodes and expressions in the engine's terms.
//!
//! 1. Estimates are never more than reasons to choose: no answer depends on one.
//! 2. No order that somebody relies on is lost ([`order`]).
//!
//! Not here: running plans (`ogee-datafusion`), operators (`ogee-exec`).

pub mod eager;
pub mod expr;
pub mod join_order;
pub mod known_aggregates;
pub mod node;
pub mod operators;
pub mod order;
pub mod projections;
pub mod replanned;
pub mod scan_filters;
pub mod table;
