//! Statements that change the rows of a table, put as queries over it.
//!
//! A statement is a query of the rows that it changes: of each the number that it has in the table, and the values that come in its place. `UPDATE t SET v = w FROM u WHERE ..` is
//! `SELECT t.ogee_row, t.a, w AS v FROM rows_of_t AS t, u WHERE ..`. The engine plans it like any other, so that it joins and spills like any other. Whoever runs it takes the rows with
//! those numbers away, and adds the others, all of them or none.
//!
//! Values that a definition computes, generated columns and whether a `CHECK` holds, are outputs of one more query around the first ([`Definition::computed`]).
//!
//! Not here: what is done with the rows (`ogee-datafusion`).

pub mod alters;
mod conflicts;
mod definition;
pub mod fields;
mod inserts;
mod merges;
pub mod prepared;
mod queries;
mod updates;
pub mod within;

pub use crate::syntax::altered::field_of;
pub use conflicts::Conflicts;
pub use definition::{ColumnText, Definition, ForeignKey, IndexText, is_keyword, shown_expression};
pub use merges::{Merge, MergeClause, MergeDoes};
pub use queries::{Columns, quoted};

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::ast::{
        self, Assignment, Expr, FromTable, Ident, ObjectName, OutputClause, Query, SelectItem, SetExpr, Statement,
        TableFactor, TableObject, TableWithJoins, UpdateTableFromKind, With,
    },
};
use ogee_functions::{Error, Result};

use crate::names::normal_name;

/// The name of the column that has the number of each row.
pub const ROW: &str = "ogee_row";

/// A statement that changes rows of a table.
#[derive(Debug)]
pub struct Change {
    /// The table, as it is written.
    pub table: ObjectName,
    /// What it is called in the statement.
    pub alias: Ident,
    /// Queries that the statement begins with.
    with: Option<With>,
    /// What is to be told of the rows.
    pub returning: Option<Vec<SelectItem>>,
    /// What is done.
    pub action: Action,
}

/// What a [`Change`] does.
#[derive(Debug)]
pub enum Action {
    /// `INSERT`
    Insert(Box<ast::Insert>),
    /// `UPDATE`
    Update(Update),
    /// `DELETE`
    Delete(Delete),
    /// `MERGE`
    Merge(Box<Merge>),
    /// `TRUNCATE`, or `DELETE` of all rows.
    Truncate,
}

/// What an `UPDATE` says behind its table.
#[derive(Debug)]
pub struct Update {
    assignments: Vec<Assignment>,
    from: Vec<TableWithJoins>,
    selection: Option<Expr>,
}

/// What a `DELETE` says behind its table.
#[derive(Debug)]
pub struct Delete {
    using: Vec<TableWithJoins>,
    selection: Option<Expr>,
}

/// Whether `statement` changes rows.
pub fn is_change(statement: &Parsed) -> bool {
    let Parsed::Statement(statement) = statement else { return false };
    match &**statement {
        Statement::Insert(_)
        | Statement::Update(_)
        | Statement::Delete(_)
        | Statement::Merge(_)
        | Statement::Truncate(_) => true,
        Statement::Query(query) => {
            matches!(&*query.body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_))
        }
        _ => false,
    }
}

impl Change {
    /// What `statement` changes, if it is one of those.
    ///
    /// # Errors
    /// What of it has no meaning here, by name.
    pub fn of(statement: &Parsed) -> Result<Option<Self>> {
        if !is_change(statement) {
            return Ok(None);
        }
        let Parsed::Statement(statement) = statement else { return Ok(None) };
        let (statement, with) = match (**statement).clone() {
            Statement::Query(query) => {
                let Query { with, body, .. } = *query;
                match *body {
                    SetExpr::Insert(statement)
                    | SetExpr::Update(statement)
                    | SetExpr::Delete(statement)
                    | SetExpr::Merge(statement) => (statement, with),
                    _ => return Ok(None),
                }
            }
            statement => (statement, None),
        };
        let change = match statement {
            Statement::Insert(insert) => Self::insert(insert, with)?,
            Statement::Update(update) => Self::update(update, with)?,
            Statement::Delete(delete) => Self::delete(delete, with)?,
            Statement::Merge(merge) => Self::merge(merge, with)?,
            Statement::Truncate(truncate) => Self::truncate(truncate)?,
            _ => return Ok(None),
        };
        Ok(Some(change))
    }

    fn insert(mut insert: ast::Insert, with: Option<With>) -> Result<Self> {
        let TableObject::TableName(table) = &insert.table else {
            return Err(Error::Unsupported("INSERT INTO FUNCTION is not supported; name a table".to_owned()));
        };
        let table = table.clone();
        let alias = match &insert.table_alias {
            Some(alias) => alias.alias.clone(),
            None => last(&table)?,
        };
        let returning = insert.returning.take();
        Ok(Self { table, alias, with, returning, action: Action::Insert(Box::new(insert)) })
    }

    fn update(update: ast::Update, with: Option<With>) -> Result<Self> {
        let ast::Update { table, assignments, from, selection, returning, output, or, order_by, limit, .. } = update;
        unless(or.is_some(), "UPDATE OR ..", "use UPDATE")?;
        unless(output.is_some(), "OUTPUT", "use RETURNING behind the statement")?;
        unless(
            !order_by.is_empty() || limit.is_some(),
            "ORDER BY or LIMIT of an UPDATE",
            "use WHERE .. IN (SELECT ..)",
        )?;
        unless(!table.joins.is_empty(), "a join of the table that is updated", "use UPDATE .. FROM the other table")?;
        let (table, alias) = target(&table.relation)?;
        let from = match from {
            None => Vec::new(),
            Some(UpdateTableFromKind::AfterSet(from)) => from,
            Some(UpdateTableFromKind::BeforeSet(_)) => {
                return Err(unsupported("FROM before SET", "write it behind the assignments"));
            }
        };
        Ok(Self { table, alias, with, returning, action: Action::Update(Update { assignments, from, selection }) })
    }

    fn delete(delete: ast::Delete, with: Option<With>) -> Result<Self> {
        let ast::Delete { tables, from, using, selection, returning, output, order_by, limit, .. } = delete;
        unless(output.is_some(), "OUTPUT", "use RETURNING behind the statement")?;
        unless(
            !order_by.is_empty() || limit.is_some(),
            "ORDER BY or LIMIT of a DELETE",
            "use WHERE .. IN (SELECT ..)",
        )?;
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = from;
        let [TableWithJoins { relation, joins }] = from.as_slice() else {
            return Err(unsupported("DELETE from several tables", "use a DELETE for each"));
        };
        unless(
            !tables.is_empty() || !joins.is_empty(),
            "a join of the table that is deleted from",
            "use DELETE .. USING the other table",
        )?;
        let (table, alias) = target(relation)?;
        let using = using.unwrap_or_default();
        let action = match (selection, using.is_empty(), &returning) {
            (None, true, None) => Action::Truncate,
            (selection, ..) => Action::Delete(Delete { using, selection }),
        };
        Ok(Self { table, alias, with, returning, action })
    }

    fn merge(merge: ast::Merge, with: Option<With>) -> Result<Self> {
        let ast::Merge { table, source, on, clauses, output, .. } = merge;
        let (table, alias) = target(&table)?;
        let returning = match output {
            None => None,
            Some(OutputClause::Returning { select_items, .. }) => Some(select_items),
            Some(OutputClause::Output { .. }) => {
                return Err(unsupported("OUTPUT", "use RETURNING behind the statement"));
            }
        };
        let action = Action::Merge(Box::new(Merge::new(source, *on, clauses)?));
        Ok(Self { table, alias, with, returning, action })
    }

    fn truncate(truncate: ast::Truncate) -> Result<Self> {
        let ast::Truncate { table_names, partitions, if_exists, identity, cascade, on_cluster, .. } = truncate;
        let any = partitions.is_some() || identity.is_some() || cascade.is_some() || on_cluster.is_some();
        unless(any || if_exists, "an option of TRUNCATE", "use TRUNCATE TABLE name")?;
        let [target] = table_names.as_slice() else {
            return Err(unsupported("TRUNCATE of several tables", "use a TRUNCATE for each"));
        };
        unless(target.only || target.has_asterisk, "ONLY or * of TRUNCATE", "leave it out")?;
        let (table, alias) = (target.name.clone(), last(&target.name)?);
        Ok(Self { table, alias, with: None, returning: None, action: Action::Truncate })
    }
}

/// The table that is changed, and what it is called.
fn target(factor: &TableFactor) -> Result<(ObjectName, Ident)> {
    let TableFactor::Table { name, alias, args: None, sample: None, .. } = factor else {
        return Err(Error::Plan(format!("'{factor}' is no table whose rows can be changed")));
    };
    let alias = match alias {
        Some(alias) if !alias.columns.is_empty() => {
            return Err(unsupported(
                "a list of columns behind the table that is changed",
                "use the names of its columns",
            ));
        }
        Some(alias) => alias.name.clone(),
        None => last(name)?,
    };
    Ok((name.clone(), alias))
}

fn last(name: &ObjectName) -> Result<Ident> {
    let last = name.0.last().and_then(|part| part.as_ident());
    last.cloned().ok_or_else(|| Error::Plan(format!("'{name}' is no name of a table")))
}

fn unsupported(what: &str, instead: &str) -> Error {
    Error::Unsupported(format!("{what} is not supported; {instead}"))
}

/// Refuses `what` where it is there.
fn unless(there: bool, what: &str, instead: &str) -> Result<()> {
    if there { Err(unsupported(what, instead)) } else { Ok(()) }
}

/// Whether `expr` is the word `DEFAULT`.
pub(crate) fn is_default(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(name) if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default"))
}

/// The parts of `name`, as they are compared.
fn parts(name: &ObjectName) -> Vec<String> {
    name.0.iter().filter_map(|part| part.as_ident()).map(normal_name).collect()
}
