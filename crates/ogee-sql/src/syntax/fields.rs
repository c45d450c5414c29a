//! Names of three parts and more: `schema.table.column`, `table.column.field`, or `column.field.field`.
//!
//! DataFusion leaves the first parts out where the last two are a table and a column: of `SELECT u.u.t FROM (SELECT {'t': 8} AS u, 1 AS t) AS u` it takes the column `t`, and `nosuch.u.t` is
//! the same to it. Which it is can be told from the tables of `FROM`, those of the innermost query first, and of each the longest name. What is a field is written so. A field that is selected
//! has its own name, as in DuckDB.
//!
//! Not here: names of two parts, of which a table's column comes before a column's field.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::ast::{
        AccessExpr, Expr, Ident, Query, Select, SelectItem, SetExpr, Subscript, TableFactor, TableWithJoins, VisitorMut,
    },
};

use super::{
    schemas::{DEFAULTS, shown},
    text,
};
use crate::names::normal_name;

/// Writes out the fields that names of `statement` are.
pub(crate) fn write_out(statement: &mut Parsed) {
    let visited = super::visit(statement, &mut Fields::default());
    debug_assert!(visited.is_continue(), "the visitor never stops");
}

/// The catalog that tables without a written one are of.
const CATALOG: &str = "ogee";

/// A table of a `FROM`.
struct Table {
    shown: Vec<String>,
    is_aliased: bool,
}

impl Table {
    /// Whether it may be called `written`.
    fn is_called(&self, written: &[String]) -> bool {
        let is_default = |schema: &String| DEFAULTS.contains(&schema.as_str());
        self.shown.ends_with(written)
            || !self.is_aliased
                && match written {
                    [schema, last] => is_default(schema) && self.shown == [last.clone()],
                    [catalog, schema, last] if catalog == CATALOG => {
                        self.shown == [schema.clone(), last.clone()]
                            || is_default(schema) && self.shown == [last.clone()]
                    }
                    _ => false,
                }
    }
}

#[derive(Default)]
struct Fields {
    /// The tables of each `FROM` that a column may be of, the innermost last; `None` where not all of their names are known.
    scopes: Vec<Option<Vec<Table>>>,
    /// For each query and `SELECT`, whether it has a scope of its own.
    pushed: Vec<bool>,
}

fn tables(from: &[TableWithJoins]) -> Option<Vec<Table>> {
    let mut found = Vec::new();
    for table in from {
        for factor in super::factors(table) {
            match factor {
                // Its conditions see the tables, the query its alias.
                TableFactor::NestedJoin { table_with_joins, alias } => {
                    found.extend(tables(std::slice::from_ref(table_with_joins))?);
                    found.extend(
                        alias.as_ref().map(|alias| Table { shown: vec![normal_name(&alias.name)], is_aliased: true }),
                    );
                }
                TableFactor::Derived { alias: None, .. } => {}
                factor => {
                    let is_aliased = !matches!(factor, TableFactor::Table { alias: None, .. });
                    found.push(Table { shown: shown(factor)?, is_aliased });
                }
            }
        }
    }
    Some(found)
}

impl Fields {
    /// How many parts of `written` are a table's name; `None` if that cannot be told.
    fn parts_of_table(&self, written: &[String]) -> Option<usize> {
        for scope in self.scopes.iter().rev() {
            let scope = scope.as_ref()?;
            let counts = (1..=3.min(written.len() - 1)).rev();
            for count in counts {
                if scope.iter().any(|table| table.is_called(&written[..count])) {
                    return Some(count);
                }
            }
        }
        Some(0)
    }

    /// The parts of `names` that are a column, and the others, which are fields of it.
    fn fields(&self, names: &[Ident]) -> Option<usize> {
        let written: Vec<String> = names.iter().map(normal_name).collect();
        let column = self.parts_of_table(&written)? + 1;
        (!self.scopes.is_empty() && column < names.len()).then_some(column)
    }
}

impl VisitorMut for Fields {
    type Break = ();

    // Its order and limit see the tables of a query that is one `SELECT`.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let select = match &*query.body {
            SetExpr::Select(select) => Some(select),
            _ => None,
        };
        self.scopes.extend(select.map(|select| tables(&select.from)));
        self.pushed.push(select.is_some());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        if self.pushed.pop() == Some(true) {
            self.scopes.pop();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        // A part of a set operation has tables of its own.
        let own = self.pushed.last() != Some(&true);
        if own {
            self.scopes.push(tables(&select.from));
        }
        self.pushed.push(own);
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr @ Expr::CompoundIdentifier(_)) = item else { continue };
            let Expr::CompoundIdentifier(names) = &*expr else { unreachable!("matched above") };
            if self.fields(names).is_some()
                && let Some(alias) = names.last().cloned()
            {
                let expr = std::mem::replace(expr, Expr::Identifier(alias.clone()));
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _select: &mut Select) -> ControlFlow<()> {
        if self.pushed.pop() == Some(true) {
            self.scopes.pop();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::CompoundIdentifier(names) = expr else { return ControlFlow::Continue(()) };
        if names.len() < 3 {
            return ControlFlow::Continue(());
        }
        let Some(parts) = self.fields(names) else { return ControlFlow::Continue(()) };
        let fields = names.split_off(parts);
        let column = match std::mem::take(names) {
            mut names if names.len() == 1 => Expr::Identifier(names.swap_remove(0)),
            names => Expr::CompoundIdentifier(names),
        };
        // As subscripts, which are planned as fields of structs and as keys of JSON.
        let subscript = |field| AccessExpr::Subscript(Subscript::Index { index: text(&normal_name(field)) });
        *expr =
            Expr::CompoundFieldAccess { root: Box::new(column), access_chain: fields.iter().map(subscript).collect() };
        ControlFlow::Continue(())
    }
}
