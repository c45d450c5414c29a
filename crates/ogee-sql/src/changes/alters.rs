//! Queries of the rows of a table that is altered.
//!
//! Not here: what becomes of the table.

use datafusion::sql::sqlparser::ast::{CastKind, DataType, Expr, Ident, Query};
use ogee_functions::Result;

use super::queries::{alone, column, named, quoted, select, table};
use crate::{names::normal_name, syntax::in_type};

pub use super::updates::null;

/// The name of a column, as it is kept.
pub fn name_of(name: &Ident) -> String {
    normal_name(name)
}

/// `value` as `data_type`.
pub fn cast(value: Expr, data_type: &DataType) -> Expr {
    let mut data_type = data_type.clone();
    in_type(&mut data_type);
    let expr = Box::new(Expr::Nested(Box::new(value)));
    Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None }
}

/// `SELECT value`
///
/// # Errors
/// Only bugs.
pub fn value(value: Expr) -> Result<Query> {
    select(None, vec![named(value, "value")], Vec::new(), None)
}

/// The query of `values`, over the table `rows`.
///
/// # Errors
/// Only bugs.
pub fn values(rows: &str, values: Vec<(String, Expr)>) -> Result<Query> {
    let items = values.into_iter().map(|(name, value)| named(value, &name)).collect();
    select(None, items, vec![alone(table(rows, &quoted(rows))?)], None)
}

/// The rows of table `rows` that have NULL for `name`.
///
/// # Errors
/// Only bugs.
pub fn with_null(rows: &str, name: &str) -> Result<Query> {
    let of = column(&quoted(rows), name);
    let is_null = Expr::IsNull(Box::new(of.clone()));
    select(None, vec![named(of, name)], vec![alone(table(rows, &quoted(rows))?)], Some(is_null))
}
