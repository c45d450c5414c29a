//! `ON CONFLICT`, `INSERT OR REPLACE` and `INSERT OR IGNORE`: what becomes of new rows whose key a row of the table has.
//!
//! They are left out, or change that row: then they are a table of their own, called `excluded`, which is joined with the rows of the table by the key. Of new rows with one key the first
//! counts, and the others are left out.
//!
//! Not here: who finds them.

use std::collections::HashMap;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ConflictTarget, DoUpdate, Expr, Ident, Insert, OnConflict, OnConflictAction, OnInsert, Query,
    SqliteOnConflict,
};
use ogee_functions::{Error, Result};

use super::{
    Action, Change, Columns, ROW,
    queries::{alone, column, find, for_each_name, named, quoted, select, shorten, table},
    unsupported,
    updates::assigned,
};
use crate::names::normal_name;

/// The name of the new rows.
const EXCLUDED: &str = "excluded";

/// What becomes of rows that meet others.
#[derive(Debug)]
pub struct Conflicts {
    /// Of which key, if it is written.
    pub target: Option<Vec<Ident>>,
    /// What the row of the table gets, if it is changed.
    update: Option<Changed>,
}

#[derive(Debug)]
struct Changed {
    values: HashMap<String, Expr>,
    selection: Option<Expr>,
}

impl Conflicts {
    /// Whether the row of the table is changed, and not the new one left out.
    pub fn update(&self) -> bool {
        self.update.is_some()
    }

    /// Which columns of the table are changed.
    pub fn assigned(&self, columns: &Columns) -> Vec<usize> {
        let values = self.update.iter().flat_map(|update| update.values.keys());
        let names: Vec<&String> = values.collect();
        (0..columns.len()).filter(|&at| names.iter().any(|name| *name == columns.name(at))).collect()
    }

    /// Which of the `keys` of a table the written columns are.
    ///
    /// # Errors
    /// They are none, or one has to be written.
    pub fn keys(&self, keys: &[Vec<usize>], columns: &Columns) -> Result<Vec<usize>> {
        if keys.is_empty() {
            let hint = "the table has no PRIMARY KEY and no UNIQUE";
            return Err(Error::Plan(format!(
                "{hint}: no row can meet another by ON CONFLICT, OR REPLACE or OR IGNORE"
            )));
        }
        let Some(target) = &self.target else {
            if self.update() && keys.len() > 1 {
                return Err(Error::Plan(
                    "the table has several keys: name the columns of one, ON CONFLICT (..) DO UPDATE SET ..".to_owned(),
                ));
            }
            return Ok((0..keys.len()).collect());
        };
        let mut wanted = Vec::new();
        for name in target {
            let at = columns.find(name);
            wanted.push(at.ok_or_else(|| Error::Plan(format!("there is no column {name} in the table")))?);
        }
        wanted.sort_unstable();
        let is_wanted = |key: &&Vec<usize>| {
            let mut key = (*key).clone();
            key.sort_unstable();
            key == wanted
        };
        match keys.iter().position(|key| is_wanted(&key)) {
            Some(key) => Ok(vec![key]),
            None => {
                let names: Vec<String> = target.iter().map(normal_name).collect();
                let names = names.join(", ");
                Err(Error::Plan(format!("({names}) of ON CONFLICT is no PRIMARY KEY and not UNIQUE")))
            }
        }
    }
}

impl Change {
    /// What becomes of rows of an `INSERT` that meet others; `given`: the columns that it has values for.
    ///
    /// # Errors
    /// What of it has no meaning.
    pub fn conflicts(&self, columns: &Columns, given: &[usize]) -> Result<Option<Conflicts>> {
        let Action::Insert(insert) = &self.action else { return Ok(None) };
        let Insert { or, on, .. } = &**insert;
        let nothing = |target| Ok(Some(Conflicts { target, update: None }));
        match (or, on) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(Error::Plan("an INSERT has either OR .. or ON CONFLICT".to_owned())),
            (Some(SqliteOnConflict::Ignore), None) => nothing(None),
            (Some(SqliteOnConflict::Replace), None) => {
                let excluded = quoted(EXCLUDED);
                let value = |&at: &usize| (columns.name(at).to_owned(), column(&excluded, columns.name(at)));
                let values = given.iter().map(value).collect();
                Ok(Some(Conflicts { target: None, update: Some(Changed { values, selection: None }) }))
            }
            (Some(other), None) => {
                Err(unsupported(&format!("INSERT {other}"), "use OR IGNORE, OR REPLACE or ON CONFLICT"))
            }
            (None, Some(OnInsert::OnConflict(OnConflict { conflict_target, action }))) => {
                let target = match conflict_target {
                    None => None,
                    Some(ConflictTarget::Columns(columns)) => Some(columns.clone()),
                    Some(ConflictTarget::OnConstraint(_)) => {
                        return Err(unsupported("ON CONFLICT ON CONSTRAINT", "name the columns of the key"));
                    }
                };
                let OnConflictAction::DoUpdate(DoUpdate { assignments, selection }) = action else {
                    return nothing(target);
                };
                let mut values = assigned(assignments, columns)?;
                let mut selection = selection.clone();
                for expr in values.values_mut().chain(&mut selection) {
                    shorten(expr, &self.table, &self.alias);
                    // What has no table before it is the table's.
                    for_each_name(expr, |name, _| {
                        if let Expr::Identifier(ident) = &*name
                            && let Some(at) = find((0..columns.len()).map(|at| columns.name(at)), ident)
                        {
                            *name = column(&self.alias, columns.name(at));
                        }
                    });
                }
                Ok(Some(Conflicts { target, update: Some(Changed { values, selection }) }))
            }
            (None, Some(_)) => Err(unsupported("ON DUPLICATE KEY", "use ON CONFLICT DO UPDATE SET ..")),
        }
    }

    /// The query of the rows of table `rows`, which has their numbers, that the rows of table `met` change: those that have the same columns `key`.
    ///
    /// # Errors
    /// They change none.
    pub fn met(&self, conflicts: &Conflicts, columns: &Columns, key: &[usize], rows: &str, met: &str) -> Result<Query> {
        let Some(update) = &conflicts.update else {
            return Err(Error::Internal("rows that are left out change none".to_owned()));
        };
        let excluded = quoted(EXCLUDED);
        let mut items = vec![named(column(&self.alias, ROW), ROW)];
        for name in columns.given() {
            let value = update.values.get(name).cloned().unwrap_or_else(|| column(&self.alias, name));
            items.push(named(value, name));
        }
        let same = |&at: &usize| Expr::BinaryOp {
            left: Box::new(column(&self.alias, columns.name(at))),
            op: BinaryOperator::Eq,
            right: Box::new(column(&excluded, columns.name(at))),
        };
        let and =
            |left, right| Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) };
        let selection = update.selection.clone().map(|expr| Expr::Nested(Box::new(expr)));
        let condition = key.iter().map(same).chain(selection).reduce(and);
        let from = vec![alone(table(rows, &self.alias)?), alone(table(met, &excluded)?)];
        select(None, items, from, condition)
    }
}
