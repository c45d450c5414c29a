//! Settings of a session that change what statements mean: the order where none is said, what a subquery of several rows is as a value, how many columns a pivot may make.
//!
//! They are written into each statement, or looked up while it is planned; statements that are planned already stay as they are.
//!
//! Not here: where NULLs come (`null_order`), how whole numbers are divided (`quotients`).

use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::ast::{
        Expr, Function, FunctionArgumentClause, FunctionArguments, LimitClause, NamedWindowExpr, OrderBy, OrderByExpr,
        OrderByKind, OrderByOptions, Query, Select, Value, VisitorMut, WindowType,
    },
};

use crate::{asked::query, syntax};

/// The columns that a pivot makes at most: their names and plans are memory that nobody accounts for.
pub const PIVOT_COLUMNS_MAX: usize = 10_000;

/// See the module.
#[derive(Debug)]
pub struct Options {
    descending: AtomicBool,
    takes_first: AtomicBool,
    pivot_columns: AtomicUsize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            descending: AtomicBool::new(false),
            takes_first: AtomicBool::new(false),
            pivot_columns: AtomicUsize::new(PIVOT_COLUMNS_MAX),
        }
    }
}

impl Options {
    /// Whether an order that says nothing of it is descending.
    pub fn is_descending(&self) -> bool {
        self.descending.load(Ordering::Relaxed)
    }

    /// Sets that.
    pub fn set_descending(&self, descending: bool) {
        self.descending.store(descending, Ordering::Relaxed);
    }

    /// Whether a subquery of several rows is the value of the first, and no error.
    pub fn takes_first(&self) -> bool {
        self.takes_first.load(Ordering::Relaxed)
    }

    /// Sets that.
    pub fn set_takes_first(&self, takes_first: bool) {
        self.takes_first.store(takes_first, Ordering::Relaxed);
    }

    /// How many columns a pivot may make.
    pub fn pivot_columns(&self) -> usize {
        self.pivot_columns.load(Ordering::Relaxed)
    }

    /// Sets that.
    pub fn set_pivot_columns(&self, columns: usize) {
        self.pivot_columns.store(columns.min(PIVOT_COLUMNS_MAX), Ordering::Relaxed);
    }

    /// Writes into `statement` what it does not say.
    pub fn apply(&self, statement: &mut Parsed) {
        let mut written = Written { descending: self.is_descending(), takes_first: self.takes_first() };
        if written.descending || written.takes_first {
            let visited = syntax::visit(statement, &mut written);
            debug_assert!(visited.is_continue(), "the visitor never stops");
        }
    }
}

struct Written {
    descending: bool,
    takes_first: bool,
}

impl Written {
    fn in_options(&self, options: &mut OrderByOptions) {
        if self.descending && options.asc.is_none() {
            options.asc = Some(false);
        }
    }

    fn in_order(&self, order: &mut [OrderByExpr]) {
        order.iter_mut().for_each(|by| self.in_options(&mut by.options));
    }

    fn in_function(&self, function: &mut Function) {
        self.in_order(&mut function.within_group);
        if let FunctionArguments::List(list) = &mut function.args {
            for clause in &mut list.clauses {
                if let FunctionArgumentClause::OrderBy(order) = clause {
                    self.in_order(order);
                }
            }
        }
        if let Some(WindowType::WindowSpec(window)) = &mut function.over {
            self.in_order(&mut window.order_by);
        }
    }
}

impl VisitorMut for Written {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        match query.order_by.as_mut().map(|order: &mut OrderBy| &mut order.kind) {
            Some(OrderByKind::Expressions(order)) => self.in_order(order),
            Some(OrderByKind::All(options)) => self.in_options(options),
            None => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for window in &mut select.named_window {
            if let NamedWindowExpr::WindowSpec(window) = &mut window.1 {
                self.in_order(&mut window.order_by);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) => self.in_function(function),
            Expr::Subquery(of) if self.takes_first => {
                let one = Expr::value(Value::Number("1".to_owned(), false));
                let limit = LimitClause::LimitOffset { limit: Some(one), offset: None, limit_by: Vec::new() };
                if of.limit_clause.is_none() && of.fetch.is_none() {
                    of.limit_clause = Some(limit);
                } else if let Ok(mut around) = query("SELECT * FROM (SELECT 1) AS ogee_first") {
                    std::mem::swap(&mut around, of);
                    if let Some(slot) = derived(of) {
                        *slot = around;
                    }
                    of.limit_clause = Some(limit);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The query that `query` selects from.
fn derived(query: &mut Query) -> Option<&mut Box<Query>> {
    use datafusion::sql::sqlparser::ast::{SetExpr, TableFactor};

    match &mut *query.body {
        SetExpr::Select(select) => match select.from.first_mut().map(|from| &mut from.relation) {
            Some(TableFactor::Derived { subquery, .. }) => Some(subquery),
            _ => None,
        },
        _ => None,
    }
}
