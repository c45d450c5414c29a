//! `(SELECT sum(t.i))`: a query without tables whose aggregates are of the outer query's columns.
//!
//! An aggregate belongs to the query whose columns it is over. A subquery of nothing else is then the value itself. Where there is more to it, the analyzer refuses it
//! (`subqueries`), since DataFusion would aggregate in the subquery, once for each outer row.

use std::{collections::HashSet, ops::ControlFlow, sync::LazyLock};

use datafusion::{
    functions_aggregate::all_default_aggregate_functions,
    sql::sqlparser::ast::{
        Expr, Function, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr, TableFactor, Visitor,
    },
};

use super::for_each_outside_queries;
use crate::visitors;

/// Names of aggregate functions.
static AGGREGATES: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let theirs = all_default_aggregate_functions().into_iter();
    let names = theirs.map(|function| (function.name().to_owned(), function.aliases().to_vec()));
    let names = names.flat_map(|(name, aliases)| aliases.into_iter().chain([name]));
    names.chain(ogee_functions::aggregate_names()).collect()
});

/// Whether `name`, in small letters, is that of an aggregate function, as statements call it.
pub(super) fn is_aggregate_name(name: &str) -> bool {
    /// Names that become those of others.
    const OTHERS: [&str; 4] = ["count_star", "fsum", "kahan_sum", "sumkahan"];
    AGGREGATES.contains(name)
        || OTHERS.contains(&name)
        || super::RENAMED.iter().any(|(known, of)| *known == name && AGGREGATES.contains(*of))
}

/// The value that `query` is, if that is an expression with aggregates of outer columns only.
pub(super) fn value_of(query: &Query) -> Option<Expr> {
    let plain = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty();
    let SetExpr::Select(select) = &*query.body else { return None };
    let none = matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    if !plain
        || !none
        || !select.from.is_empty()
        || select.selection.is_some()
        || select.having.is_some()
        || select.qualify.is_some()
        || select.distinct.is_some()
    {
        return None;
    }
    let [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] = select.projection.as_slice() else {
        return None;
    };
    let mut aggregates = Aggregates::default();
    let visited = visitors::visit(expr, &mut aggregates);
    (visited.is_continue() && aggregates.found).then(|| Expr::Nested(Box::new(expr.clone())))
}

/// Puts aggregates of outer columns in queries of their own, where the planner would take them for such of `select`, which is a subquery: in its `WHERE`, where it has none, and among its outputs if all columns
/// are of tables that it does not read. The analyzer finds out whose they are.
pub(super) fn apart(select: &mut Select) {
    if let Some(condition) = &mut select.selection {
        for_each_outside_queries(condition, |expr| {
            if matches!(expr, Expr::Function(function) if function.over.is_none() && is_aggregate(function) && has_column(function))
            {
                put_apart(expr);
            }
        });
    }
    let factors = || select.from.iter().flat_map(super::factors);
    if factors().any(|factor| matches!(factor, TableFactor::NestedJoin { .. }))
        || !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty())
    {
        return;
    }
    let tables: HashSet<String> = factors().filter_map(super::name_of).map(|name| name.value.to_lowercase()).collect();
    let is_else = |function: &Function| {
        let mut names = Names { tables: &tables, any: false };
        visitors::visit(&function.args, &mut names).is_continue() && names.any
    };
    let (mut any, mut all) = (false, true);
    for_each_outside_queries(&mut select.projection, |expr| {
        if let Expr::Function(function) = &*expr
            && function.over.is_none()
            && is_aggregate(function)
        {
            any = true;
            all &= is_else(function);
        }
    });
    if !any || !all {
        return;
    }
    for_each_outside_queries(&mut select.projection, |expr| {
        if matches!(expr, Expr::Function(function) if function.over.is_none() && is_aggregate(function)) {
            put_apart(expr);
        }
    });
}

/// Makes `expr` a query of that alone, which [`value_of`] does not take for its value.
fn put_apart(expr: &mut Expr) {
    if let Some(query) = super::query_of(&format!("SELECT {expr} WHERE true")) {
        *expr = Expr::Subquery(Box::new(query));
    }
}

/// Looks for columns; stops at one that may be of `tables`.
struct Names<'a> {
    tables: &'a HashSet<String>,
    any: bool,
}

impl Visitor for Names<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::CompoundIdentifier(parts) => {
                self.any = true;
                let of = parts.len().checked_sub(2).and_then(|at| parts.get(at));
                match of.is_some_and(|of| !self.tables.contains(&of.value.to_lowercase())) {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            }
            Expr::Identifier(_) | Expr::CompoundFieldAccess { .. } => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Looks for aggregates; stops at one that is over no column, at windows and at queries.
#[derive(Default)]
struct Aggregates {
    found: bool,
}

impl Visitor for Aggregates {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        if function.over.is_some() {
            return ControlFlow::Break(());
        }
        if is_aggregate(function) {
            if !has_column(function) {
                return ControlFlow::Break(());
            }
            self.found = true;
        }
        ControlFlow::Continue(())
    }
}

/// Whether `function` is a call of an aggregate function, or of a window function of that name.
pub(crate) fn is_aggregate(function: &Function) -> bool {
    let [name] = function.name.0.as_slice() else { return false };
    name.as_ident().is_some_and(|name| {
        let name = name.value.to_lowercase();
        AGGREGATES.contains(super::exported::aggregate(&name).unwrap_or(&name))
    })
}

/// Whether `expr` calls an aggregate function, or a window function of that name; queries within it may.
pub(crate) fn has_aggregate(expr: &Expr) -> bool {
    has_call(expr, is_aggregate)
}

/// Whether `expr` has a call that `is_one`, outside of queries within it.
pub(crate) fn has_call(expr: &Expr, is_one: fn(&Function) -> bool) -> bool {
    struct Calls {
        depth: usize,
        is_one: fn(&Function) -> bool,
    }

    impl Visitor for Calls {
        type Break = ();

        fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
            self.depth += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(function) if self.depth == 0 && (self.is_one)(function) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }

    visitors::visit(expr, &mut Calls { depth: 0, is_one }).is_break()
}

fn has_column(function: &Function) -> bool {
    /// Parameters of the lambdas that the expression is within.
    #[derive(Default)]
    struct Columns(Vec<String>);

    impl Visitor for Columns {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let is_parameter = |name: &Ident| self.0.iter().any(|known| known.eq_ignore_ascii_case(&name.value));
            match expr {
                Expr::Identifier(name) if is_parameter(name) => {}
                Expr::CompoundIdentifier(parts) if parts.first().is_some_and(is_parameter) => {}
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) => return ControlFlow::Break(()),
                Expr::Lambda(lambda) => self.0.extend(lambda.params.iter().map(|of| of.name.value.clone())),
                _ => {}
            }
            ControlFlow::Continue(())
        }

        fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if let Expr::Lambda(lambda) = expr {
                self.0.truncate(self.0.len() - lambda.params.len());
            }
            ControlFlow::Continue(())
        }
    }

    visitors::visit(&function.args, &mut Columns::default()).is_break()
}
