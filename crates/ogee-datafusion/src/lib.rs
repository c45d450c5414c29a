//! SQL front end: DataFusion plans statements, the engine runs what it has operators for.
//!
//! A [`Session`] parses, plans and starts statements. Their physical plans, made for one partition, pass a last optimizer rule that
//! replaces maximal subtrees by islands (`island`): the engine's pipelines, fed by DataFusion nodes where it has no operator.
//! Another rule orders joins by cost (`join_order`).
//! What stays DataFusion's takes memory and temporary space from the same pool (`pool`) and runs on a small runtime ([`Engine::runtime`]).
//!
//! 1. Sources declare no order, and no island stands where somebody relies on one (`order`).
//! 2. Integer arithmetic and sums never wrap silently, whoever evaluates them (`checked`, `checked_sum`).
//! 3. Errors keep the code of whoever raised them (`error`).
//!
//! Not here: operators.

mod abs;
mod arrow_ipc;
mod asof;
mod averages;
mod bits;
mod calls;
mod casts;
mod chains;
mod checked;
mod checked_sum;
mod checkpoint;
mod choices;
mod coalesce;
mod columns_first;
mod common_types;
mod computed;
mod constants_last;
mod copy;
mod csv;
mod ctes;
mod decimals;
mod deep_expressions;
mod dependencies;
mod depth;
mod dialect;
mod distinct_arguments;
mod engine;
mod equal_windows;
mod error;
mod explain;
mod expr;
mod failing_casts;
mod files;
mod filter_pushdown;
mod floats;
mod fresh_schemas;
mod functions;
mod grouping_keys;
mod grouping_limit;
mod growing;
mod guarded_rules;
mod implicit_keys;
mod in_lists;
mod inserted;
mod island;
mod join_order;
mod joined_texts;
mod json;
mod kept_names;
mod keys;
mod known_aggregates;
mod large_stack;
mod letters;
mod list_casts;
mod list_functions;
mod lists;
mod maps;
mod median;
mod mixed_types;
mod names;
mod nested_extremes;
mod nested_order;
mod nested_text;
mod node;
mod null_equality;
mod numbers;
mod offsets;
mod order;
mod ordered_mode;
mod page_chain;
mod pairs;
mod pool;
mod prepared;
mod projections;
mod quantified;
mod quotients;
mod range_offsets;
mod ranks;
mod read_through;
mod recursion;
mod recursive_reads;
mod repeated_orders;
mod replacements;
mod replanned;
mod rounding;
mod scan_filters;
mod series;
mod session;
mod set_operations;
mod sliding_frames;
mod sorted_rows;
mod stars;
mod subqueries;
mod syntax;
mod table;
mod text_memory;
mod times;
mod views;
mod visitors;
mod wide_lists;
mod window_filters;

pub use checkpoint::Planned;
pub use engine::{Engine, StatementContext};
pub use error::{Error, Result};
pub use large_stack::on_large_stack;
pub use ogee_scan::is_reading;
pub use session::{Outcome, Session, Statement, parse, rows};
