//! The public face, from SQL to Arrow: statements, islands and their plans, random groupings against DataFusion.
#![expect(clippy::unwrap_used, reason = "tests")]

mod at_once;
mod changes;
mod common;
mod differential;
mod differential_joins;
mod files;
mod islands;
mod join_order;
mod joins;
mod mistakes;
mod mutations;
mod oracles;
mod planning;
mod statements;
mod wide;
