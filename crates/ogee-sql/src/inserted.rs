//! `VALUES` within the query of an `INSERT` or `CREATE TABLE`.
//!
//! DataFusion gives every `VALUES` in such a statement the columns and types of its table, also one in a subquery: `INSERT INTO t SELECT x * 2 FROM (VALUES (1.5)) v(x)` into integers
//! would double 2. So a query with such a `VALUES` is planned by itself, and the statement reads what that gives.
//!
//! Not here: `INSERT INTO t VALUES ..`, for which the types of the table are right.

use std::{convert::Infallible, ops::ControlFlow};

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::ast::{Query, SetExpr, Statement, Visitor},
};

use crate::visitors;

/// The query of `statement` that is to be planned by itself.
pub fn query_apart(statement: &mut Parsed) -> Option<&mut Box<Query>> {
    let Parsed::Statement(statement) = statement else { return None };
    let query = match &mut **statement {
        Statement::Insert(insert) => insert.source.as_mut()?,
        Statement::CreateTable(create) if !create.columns.is_empty() => create.query.as_mut()?,
        _ => return None,
    };
    let mut values = HasValues { depth: 0, found: false };
    let ControlFlow::Continue(()) = visitors::visit(query, &mut values);
    values.found.then_some(query)
}

/// Whether there is a `VALUES` that is not the whole query.
struct HasValues {
    depth: usize,
    found: bool,
}

impl Visitor for HasValues {
    type Break = Infallible;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Infallible> {
        self.found |= match &*query.body {
            SetExpr::Values(_) => self.depth > 0,
            SetExpr::SetOperation { .. } => has_values(&query.body),
            _ => false,
        };
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<Infallible> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

fn has_values(body: &SetExpr) -> bool {
    match body {
        SetExpr::Values(_) => true,
        SetExpr::SetOperation { left, right, .. } => has_values(left) || has_values(right),
        _ => false,
    }
}
