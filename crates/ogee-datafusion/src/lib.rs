//! A SQL session: DataFusion plans statements, the engine runs what it has operators for.
//!
//! A [`Session`] parses, plans and starts statements. Their physical plans, made for one partition, pass a last optimizer rule that
//! replaces maximal subtrees by islands (`island`): the engine's pipelines, fed by DataFusion nodes where it has no operator.
//! What stays DataFusion's takes memory and temporary space from the same pool (`pool`) and runs on a small runtime ([`Engine::runtime`]).
//!
//! 1. Sources declare no order, and no island stands where somebody relies on one.
//! 2. Integer arithmetic and sums never wrap silently, whoever evaluates them.
//! 3. Errors keep the code of whoever raised them ([`Error`]).
//!
//! Not here: the text of statements and rules on logical plans (`ogee-sql`), functions (`ogee-functions`), files (`ogee-files`), physical plans
//! (`ogee-planner`), operators (`ogee-exec`).

mod asker;
mod asof;
mod changing;
mod coalesce;
mod ctes;
mod describe;
mod engine;
mod explain;
mod foreign;
mod island;
mod keys;
mod listing;
mod page_chain;
mod planner;
mod pool;
mod recursion;
mod registered;
mod replaced;
mod sequences;
mod session;
mod system;
mod table;
mod user_functions;
mod variables;

pub use engine::Engine;
pub use listing::{ColumnInfo, FunctionInfo, FunctionKind, TableInfo, TableKind};
pub use ogee_functions::{Error, Result, type_names::sql_name};
pub use ogee_scan::is_reading;
pub use ogee_sql::{
    NullOrder, Planned, Statement, StatementContext,
    catalogs::DATABASE,
    changes::is_change,
    on_large_stack,
    options::PIVOT_COLUMNS_MAX,
    parameters::Parameters,
    parse,
    told::{near, told},
};
pub use registered::{ArrowReader, ArrowRows, MakeReader};
pub use session::{Outcome, Session, Staging, rows};
pub use system::{SettingInfo, TellsSettings};
pub use user_functions::{AggregateFunction, AggregateState, ScalarFunction, UserError};
