//! The rows of an `INSERT`: which column each value is for, and what stands for `DEFAULT`.
//!
//! Not here: rows that meet others of their keys (`conflicts`).

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::{
        ast::{Ident, Insert, ObjectName, Query, SetExpr, Statement, With},
        parser::Parser,
    },
};
use ogee_functions::{Error, Result};

use super::{
    Action, Change, Columns, is_default, last,
    queries::{quoted, template, unparsed},
};
use crate::{
    dialect::OgeeDialect,
    syntax::inserts::{BY_NAME, BY_POSITION},
};

impl Change {
    /// The query of an `INSERT`, if its outputs are for the columns of their names: these have to be known before [`Self::inserted`].
    pub fn by_name(&self) -> Option<Query> {
        let Action::Insert(insert) = &self.action else { return None };
        let is_by_name = matches!(insert.columns.as_slice(), [name] if is_marker(name, BY_NAME));
        let source = insert.source.as_deref().filter(|_| is_by_name)?;
        Some(with_before(self.with.clone(), source.clone()))
    }

    /// The columns that an `INSERT` has values for, in their order. `outputs`: the names of what its query gives, if they tell.
    ///
    /// # Errors
    /// There is no such column, or it takes no values.
    pub fn given(&self, columns: &Columns, outputs: Option<&[String]>) -> Result<Vec<usize>> {
        let Action::Insert(insert) = &self.action else { return Ok(Vec::new()) };
        let names: Vec<Ident> = match outputs {
            Some(outputs) => outputs.iter().map(|name| quoted(name)).collect(),
            None if insert.columns.is_empty()
                || matches!(insert.columns.as_slice(), [name] if is_marker(name, BY_POSITION)) =>
            {
                columns.given().into_iter().map(quoted).collect()
            }
            None => insert.columns.iter().map(last).collect::<Result<_>>()?,
        };
        let mut given = Vec::new();
        for name in names {
            let at = columns.find(&name).ok_or_else(|| {
                Error::Plan(format!("table '{}' has no column {name}, for which the INSERT has a value", self.table))
            })?;
            let name = columns.name(at);
            if columns.definition.is_generated(name) {
                return Err(Error::Plan(format!("column '{name}' is generated, and takes no value")));
            }
            if given.contains(&at) {
                return Err(Error::Plan(format!("column '{name}' is given two values by the INSERT")));
            }
            given.push(at);
        }
        Ok(given)
    }

    /// The statement that gives the rows of an `INSERT`, of columns `given`: one that adds rows and does nothing else.
    ///
    /// # Errors
    /// It has none.
    pub fn inserted(&self, columns: &Columns, given: &[usize]) -> Result<Parsed> {
        let Action::Insert(insert) = &self.action else { return Err(unparsed()) };
        let mut source = match &insert.source {
            Some(source) => with_before(self.with.clone(), (**source).clone()),
            // DEFAULT VALUES
            None => {
                let mut values = template("VALUES (0)")?;
                if let SetExpr::Values(values) = &mut *values.body {
                    let defaults = given.iter().map(|&at| columns.definition.default_of(columns.name(at)));
                    values.rows.iter_mut().for_each(|row| row.content = defaults.clone().collect());
                }
                values
            }
        };
        if let SetExpr::Values(values) = &mut *source.body {
            for row in &mut values.rows {
                for (value, &at) in row.content.iter_mut().zip(given) {
                    if is_default(value) {
                        *value = columns.definition.default_of(columns.name(at));
                    }
                }
            }
        }
        let parsed = Parser::new(&OgeeDialect)
            .try_with_sql("INSERT INTO t VALUES (0)")
            .and_then(|mut parser| parser.parse_statement());
        let Ok(Statement::Insert(plain)) = parsed else { return Err(unparsed()) };
        let names = given.iter().map(|&at| ObjectName::from(vec![quoted(columns.name(at))])).collect();
        let statement = Insert { table: insert.table.clone(), columns: names, source: Some(Box::new(source)), ..plain };
        Ok(Parsed::Statement(Box::new(Statement::Insert(statement))))
    }

    /// Whether the values of an `INSERT` are written where they are.
    pub fn is_of_values(&self) -> bool {
        let Action::Insert(insert) = &self.action else { return false };
        insert.source.as_ref().is_none_or(|source| matches!(&*source.body, SetExpr::Values(_)))
    }
}

fn is_marker(name: &ObjectName, marker: &str) -> bool {
    matches!(name.0.as_slice(), [part] if part.as_ident().is_some_and(|name| name.value == marker))
}

/// `query` with the queries of `with` before its own.
pub(super) fn with_before(with: Option<With>, mut query: Query) -> Query {
    query.with = match (with, query.with.take()) {
        (Some(mut outer), Some(own)) => {
            outer.recursive |= own.recursive;
            outer.cte_tables.extend(own.cte_tables);
            Some(outer)
        }
        (outer, own) => outer.or(own),
    };
    query
}
