//! Statements that change rows within the `WITH` of another: `WITH d AS (DELETE FROM t RETURNING *) SELECT * FROM d`.
//!
//! Not here: running them.

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::ast::{Query, SetExpr, Statement, With},
};
use ogee_functions::Result;

use super::queries::{quoted, template};

fn changes(query: &Query) -> bool {
    matches!(&*query.body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_))
}

fn with_of(statement: &Parsed) -> Option<&With> {
    match statement {
        Parsed::Statement(statement) => match &**statement {
            Statement::Query(query) => query.with.as_ref(),
            _ => None,
        },
        _ => None,
    }
}

/// Whether there are any in `statement`.
pub fn has_changes(statement: &Parsed) -> bool {
    with_of(statement).is_some_and(|with| with.cte_tables.iter().any(|cte| changes(&cte.query)))
}

/// The first of them, which may read what stands before it, and its place.
pub fn first(statement: &Parsed) -> Option<(usize, Parsed)> {
    let with = with_of(statement)?;
    let index = with.cte_tables.iter().position(|cte| changes(&cte.query))?;
    let mut query = with.cte_tables[index].query.clone();
    let mut before = with.clone();
    before.cte_tables.truncate(index);
    match &mut query.with {
        Some(own) => drop(own.cte_tables.splice(0..0, before.cte_tables)),
        none if !before.cte_tables.is_empty() => *none = Some(before),
        _ => {}
    }
    Some((index, Parsed::Statement(Box::new(Statement::Query(query)))))
}

/// Has `statement` read the table `rows` where that at `index` stands.
///
/// # Errors
/// Only bugs.
pub fn read_from(statement: &mut Parsed, index: usize, rows: &str) -> Result<()> {
    let query = template(&format!("SELECT * FROM {}", quoted(rows)))?;
    if let Parsed::Statement(statement) = statement
        && let Statement::Query(of) = &mut **statement
        && let Some(with) = &mut of.with
        && let Some(cte) = with.cte_tables.get_mut(index)
    {
        *cte.query = query;
    }
    Ok(())
}
