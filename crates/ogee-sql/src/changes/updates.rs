//! `UPDATE` and `DELETE` as queries of the rows that they change, and what `RETURNING` tells.
//!
//! Not here: rows that a query finds several times; one of its answers counts.

use std::collections::HashMap;

use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Query,
    SelectItem, SelectItemQualifiedWildcardKind, Value,
};
use ogee_functions::{Error, Result};

use super::{
    Action, Change, Columns, ROW, is_default, last, parts,
    queries::{alone, column, has_query, named, select, shorten, table},
    unless, unsupported,
};
use crate::names::normal_name;

impl Change {
    /// The query of the rows that an `UPDATE` or `DELETE` changes, over the table `rows`, which has their numbers. Of each it gives the number, and behind it the columns that are given
    /// (of a `DELETE` all columns, if they are `wanted`).
    ///
    /// # Errors
    /// What of the statement has no meaning.
    pub fn query(&self, columns: &Columns, rows: &str, wanted: bool) -> Result<Query> {
        let mut items = vec![named(column(&self.alias, ROW), ROW)];
        let mut from = vec![alone(table(rows, &self.alias)?)];
        let mut selection;
        match &self.action {
            Action::Update(update) => {
                let mut assigned = assigned(&update.assignments, columns)?;
                for name in columns.given() {
                    let mut value = assigned.remove(name).unwrap_or_else(|| column(&self.alias, name));
                    shorten(&mut value, &self.table, &self.alias);
                    items.push(named(value, name));
                }
                from.extend(update.from.iter().cloned());
                selection = update.selection.clone();
            }
            Action::Delete(delete) => {
                if wanted {
                    let names = (0..columns.len()).map(|at| columns.name(at));
                    items.extend(names.map(|name| named(column(&self.alias, name), name)));
                }
                from.extend(delete.using.iter().cloned());
                selection = delete.selection.clone();
            }
            _ => return Err(Error::Internal("no UPDATE and no DELETE".to_owned())),
        }
        if let Some(selection) = &mut selection {
            shorten(selection, &self.table, &self.alias);
        }
        select(self.with.clone(), items, from, selection)
    }

    /// Which columns an `UPDATE` gives values to.
    ///
    /// # Errors
    /// There is no such column.
    pub fn assigned(&self, columns: &Columns) -> Result<Vec<usize>> {
        let Action::Update(update) = &self.action else { return Ok((0..columns.len()).collect()) };
        let assigned = assigned(&update.assignments, columns)?;
        Ok((0..columns.len()).filter(|&at| assigned.contains_key(columns.name(at))).collect())
    }

    /// The query of what the statement tells of its rows, which are the table `rows`. `action`: it tells of each what was done, too.
    ///
    /// # Errors
    /// What cannot be told.
    pub fn returning(&self, columns: &Columns, rows: &str) -> Result<Option<Query>> {
        let Some(items) = &self.returning else { return Ok(None) };
        let mut told = Vec::new();
        for item in items {
            match item {
                SelectItem::Wildcard(options) if *options == Default::default() => {
                    // `merge_action` is told where it is asked for.
                    told.extend(
                        (0..columns.len())
                            .map(|at| columns.name(at))
                            .map(|name| named(column(&self.alias, name), name)),
                    );
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
                    if *options == Default::default() && self.is_called(name) =>
                {
                    let names = (0..columns.len()).map(|at| columns.name(at));
                    told.extend(names.map(|name| named(column(&self.alias, name), name)));
                }
                item => {
                    unless(has_query(item), "a query in RETURNING", "use SELECT behind the statement")?;
                    let mut item = item.clone();
                    shorten(&mut item, &self.table, &self.alias);
                    told.push(item);
                }
            }
        }
        select(None, told, vec![alone(table(rows, &self.alias)?)], None).map(Some)
    }
}

impl Change {
    /// Whether the table is called so in the statement.
    fn is_called(&self, name: &ObjectName) -> bool {
        let name = parts(name);
        name == [normal_name(&self.alias)] || name == parts(&self.table)
    }
}

/// The columns that values are assigned to, and the values; `DEFAULT` is what the definition says.
pub(super) fn assigned(assignments: &[Assignment], columns: &Columns) -> Result<HashMap<String, Expr>> {
    let mut assigned = HashMap::new();
    let mut assign = |target: &ObjectName, value: Expr| -> Result<()> {
        let at = target_column(target, columns)?;
        let name = columns.name(at).to_owned();
        let value = if is_default(&value) { columns.definition.default_of(&name) } else { value };
        match assigned.insert(name, value) {
            Some(_) => Err(Error::Plan(format!("column '{target}' is given two values"))),
            None => Ok(()),
        }
    };
    for Assignment { target, value } in assignments {
        match target {
            AssignmentTarget::ColumnName(target) => assign(target, value.clone())?,
            AssignmentTarget::Tuple(targets) => {
                let values = match value {
                    Expr::Tuple(values) => values.clone(),
                    Expr::Nested(value) if targets.len() == 1 => vec![(**value).clone()],
                    Expr::Function(row) if row.name.to_string().eq_ignore_ascii_case("row") => {
                        let FunctionArguments::List(list) = &row.args else {
                            return Err(unsupported("such a ROW for several columns", "use (a, b) = (x, y)"));
                        };
                        let value = |arg: &FunctionArg| match arg {
                            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
                            _ => None,
                        };
                        let values = list.args.iter().map(value).collect::<Option<Vec<_>>>();
                        values.ok_or_else(|| unsupported("such a ROW for several columns", "use (a, b) = (x, y)"))?
                    }
                    Expr::Subquery(_) => {
                        return Err(unsupported("a query for several columns", "use (a, b) = (x, y), or a = x, b = y"));
                    }
                    // One value is that of all of them.
                    value => vec![value.clone(); targets.len()],
                };
                if values.len() != targets.len() {
                    let (targets, values) = (targets.len(), values.len());
                    return Err(Error::Plan(format!("{targets} columns are given {values} values")));
                }
                for (target, value) in targets.iter().zip(values) {
                    assign(target, value)?;
                }
            }
        }
    }
    Ok(assigned)
}

/// The column that `target` of an assignment is.
fn target_column(target: &ObjectName, columns: &Columns) -> Result<usize> {
    if target.0.len() > 1 {
        return Err(Error::Plan(format!(
            "'{target}' before = has more than a column's name; write the column's alone"
        )));
    }
    let name: Ident = last(target)?;
    let at = columns.find(&name).ok_or_else(|| Error::Plan(format!("there is no column '{target}' in the table")))?;
    if columns.definition.is_generated(columns.name(at)) {
        return Err(Error::Plan(format!("column '{target}' is generated, and takes no value")));
    }
    Ok(at)
}

/// `NULL`
pub fn null() -> Expr {
    Expr::value(Value::Null)
}
