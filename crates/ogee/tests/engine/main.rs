//! The public face, from SQL to Arrow: statements, islands and their plans, random groupings against DataFusion.
#![expect(clippy::unwrap_used, reason = "tests")]

mod appending;
mod asked;
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
mod parameters;
mod planning;
mod registered;
mod statements;
mod streams;
mod user_functions;
mod wide;
