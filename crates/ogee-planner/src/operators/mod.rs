//! Operators of the engine in place of DataFusion's nodes: what is to be done, taken from the node, in the engine's terms.
//!
//! Each is made of a node (`of`, `None` where the engine has no such operator), tells the expressions that it evaluates, and opens or specifies the operator
//! when a plan is run.
//!
//! Not here: operators (`ogee-exec`), reading files (`ogee-scan`, `ogee-files`), and which nodes become islands (`ogee-datafusion`).

mod aggregate;
mod collected;
mod columns;
mod domain;
mod evaluator;
mod first_by;
mod float_extremum;
mod framed;
mod join;
mod prune;
mod scan;
mod series;
mod sort;
mod text_scan;
mod unnest;
mod window;

pub use aggregate::Aggregate;
pub(crate) use aggregate::described;
pub(crate) use domain::integer;
pub use join::Join;
pub use scan::ParquetScan;
pub use series::Series;
pub use sort::Sort;
pub use text_scan::TextScan;
pub use unnest::Unnest;
pub use window::{Window, upper_bounds};
