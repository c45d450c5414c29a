//! SQL as people write it: its text as statements that DataFusion plans, and rules on the logical plans.
//!
//! [`parse`] makes statements of a text; what DuckDB and PostgreSQL write is put in words that DataFusion knows (`syntax`). [`plan`] plans one, in other words where
//! it is refused as it is (`names`, `casts`). Analyzer rules and rules of the optimizer are those of DataFusion and those that mend what these get wrong
//! ([`rules`]), each with what goes wrong in its first lines.
//!
//! Not here: functions (`ogee-functions`), physical plans (`ogee-planner`), running anything.

pub mod asked;
pub mod asof;
pub mod calls;
mod casts;
pub mod catalogs;
mod chains;
pub mod changes;
mod checked;
pub mod checkpoint;
mod columns_first;
mod columns_of;
mod common_types;
mod comprehensions;
mod computed;
mod constant_keys;
mod constants_last;
mod context;
pub mod ctes;
mod deep_expressions;
mod dependencies;
mod depth;
mod dialect;
mod distinct_arguments;
mod enum_order;
mod equal_windows;
mod failing_casts;
mod fields_of_any_case;
mod filter_pushdown;
mod float_order;
mod folded_tables;
mod fresh_schemas;
mod grouping_keys;
mod grouping_limit;
mod guarded_rules;
mod implicit_keys;
pub mod in_full;
mod in_lists;
pub mod inserted;
mod joined_texts;
mod kept_names;
mod large_stack;
mod limits;
pub mod macros;
mod marked_casts;
mod mixed_types;
pub mod named_types;
mod names;
mod nested_extremes;
mod nested_order;
mod null_equality;
mod null_order;
mod offsets;
mod pivots;
mod plan;
pub mod prepared;
mod quantified;
mod quotients;
mod range_offsets;
mod recursive_reads;
mod repeated_orders;
pub mod rules;
mod scopes;
mod set_operations;
mod sliding_frames;
mod sorted_rows;
pub mod spellings;
pub mod stars;
mod statement;
mod statements;
mod subqueries;
mod summaries;
mod syntax;
pub mod times;
pub mod told;
mod types;
pub mod views;
mod visitors;
mod wide_lists;
mod window_filters;

pub use checkpoint::Planned;
pub use context::{LiveIsland, StatementContext};
pub use large_stack::{StatementThreads, no_thread, on_large_stack};
pub use names::name_apart;
pub use null_order::NullOrder;
pub use plan::plan;
pub use quotients::Division;
pub use statement::{Statement, parse};
