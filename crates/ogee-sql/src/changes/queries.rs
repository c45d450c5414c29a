//! Queries put together of parts of other statements.
//!
//! Not here: which parts.

use std::ops::ControlFlow;

use datafusion::{
    arrow::datatypes::SchemaRef,
    sql::sqlparser::{
        ast::{
            Expr, Ident, ObjectName, Query, SelectItem, SetExpr, Statement, TableAlias, TableFactor, TableWithJoins,
            VisitorMut, With,
        },
        parser::Parser,
    },
};
use ogee_functions::{Error, Result};

use super::{Definition, parts};
use crate::{dialect::OgeeDialect, names::normal_name, visitors};

/// The columns of a table, and what its definition says of them.
#[derive(Clone, Debug)]
pub struct Columns {
    /// With their types.
    pub schema: SchemaRef,
    /// What else is said of them.
    pub definition: Definition,
}

impl Columns {
    /// The name of the column that is written `name`: as it is, or but for upper and lower case if no other is written so.
    pub fn find(&self, name: &Ident) -> Option<usize> {
        find(self.schema.fields().iter().map(|field| field.name().as_str()), name)
    }

    /// The names of the columns that values can be given for.
    pub fn given(&self) -> Vec<&str> {
        let names = self.schema.fields().iter().map(|field| field.name().as_str());
        names.filter(|name| !self.definition.is_generated(name)).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.schema.fields().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of column `at`.
    pub fn name(&self, at: usize) -> &str {
        self.schema.field(at).name()
    }
}

/// Where `name` is among `names`: as it is written, or but for upper and lower case if it is the only one so.
pub(super) fn find<'a>(names: impl Iterator<Item = &'a str> + Clone, name: &Ident) -> Option<usize> {
    let written = normal_name(name);
    if let Some(at) = names.clone().position(|known| known == written) {
        return Some(at);
    }
    let mut alike = names.enumerate().filter(|(_, known)| known.eq_ignore_ascii_case(&written)).map(|(at, _)| at);
    alike.next().filter(|_| alike.next().is_none())
}

/// `name` as it is, whatever is in it.
pub fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// Column `name` of what is called `table`.
pub(super) fn column(table: &Ident, name: &str) -> Expr {
    Expr::CompoundIdentifier(vec![table.clone(), quoted(name)])
}

pub(super) fn named(expr: Expr, name: &str) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias: quoted(name) }
}

/// The table `name`, called `alias`.
pub(super) fn table(name: &str, alias: &Ident) -> Result<TableFactor> {
    let query = template(&format!("SELECT 1 FROM {}", quoted(name)))?;
    let SetExpr::Select(select) = *query.body else { return Err(unparsed()) };
    let mut factor = select.from.into_iter().next().map(|from| from.relation).ok_or_else(unparsed)?;
    if let TableFactor::Table { alias: written, .. } = &mut factor {
        *written = Some(TableAlias { explicit: true, name: alias.clone(), columns: Vec::new(), at: None });
    }
    Ok(factor)
}

pub(super) fn alone(relation: TableFactor) -> TableWithJoins {
    TableWithJoins { relation, joins: Vec::new() }
}

/// `[WITH ..] SELECT items FROM from [WHERE selection]`
pub(super) fn select(
    with: Option<With>,
    items: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
    selection: Option<Expr>,
) -> Result<Query> {
    let mut query = template("SELECT 1")?;
    let SetExpr::Select(select) = &mut *query.body else { return Err(unparsed()) };
    (select.projection, select.from, select.selection) = (items, from, selection);
    query.with = with;
    Ok(query)
}

/// The query that `text` is.
pub(super) fn template(text: &str) -> Result<Query> {
    let parsed = Parser::new(&OgeeDialect).try_with_sql(text).and_then(|mut parser| parser.parse_statement());
    match parsed {
        Ok(Statement::Query(query)) => Ok(*query),
        _ => Err(unparsed()),
    }
}

pub(super) fn unparsed() -> Error {
    Error::Internal("a query that was put together does not parse".to_owned())
}

/// Writes `alias` for all of the name of `table` before columns: `s.t.a` is `t.a`.
pub(super) fn shorten(expr: &mut impl datafusion::sql::sqlparser::ast::VisitMut, table: &ObjectName, alias: &Ident) {
    struct Shorten<'a> {
        table: Vec<String>,
        alias: &'a Ident,
    }

    impl VisitorMut for Shorten<'_> {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::CompoundIdentifier(names) = expr
                && names.len() > self.table.len()
                && names.iter().zip(&self.table).all(|(name, part)| normal_name(name) == *part)
            {
                names.splice(..self.table.len(), [self.alias.clone()]);
            }
            ControlFlow::Continue(())
        }
    }

    let table = parts(table);
    if table.len() > 1 {
        let visited = visitors::visit_mut(expr, &mut Shorten { table, alias });
        debug_assert!(visited.is_continue(), "the visitor never stops");
    }
}

/// Calls `each` with the columns that `expr` names, outside of its queries; with all of them if they have a table's name before them.
pub(super) fn for_each_name(expr: &mut Expr, each: impl FnMut(&mut Expr, usize)) {
    struct Names<F> {
        each: F,
        queries: usize,
    }

    impl<F: FnMut(&mut Expr, usize)> VisitorMut for Names<F> {
        type Break = ();

        fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
            self.queries += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
            self.queries -= 1;
            ControlFlow::Continue(())
        }

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(_) if self.queries == 0 => (self.each)(expr, 0),
                Expr::CompoundIdentifier(_) => (self.each)(expr, self.queries),
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }

    let visited = visitors::visit_mut(expr, &mut Names { each, queries: 0 });
    debug_assert!(visited.is_continue(), "the visitor never stops");
}

/// Whether there is a query in `node`.
pub(super) fn has_query(node: &impl datafusion::sql::sqlparser::ast::Visit) -> bool {
    struct Queries;

    impl datafusion::sql::sqlparser::ast::Visitor for Queries {
        type Break = ();

        fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }

    visitors::visit(node, &mut Queries).is_break()
}
