//! Windows that go on from windows with names: `OVER (w ROWS 2 PRECEDING)`, and such ones in `QUALIFY` and `ORDER BY`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, NamedWindowDefinition, NamedWindowExpr, Query, SetExpr, VisitMut, VisitorMut, WindowSpec, WindowType,
};

/// Writes out the windows of the `SELECT` that `query` is.
pub(super) fn in_query(query: &mut Query) {
    let SetExpr::Select(select) = &mut *query.body else { return };
    if select.named_window.is_empty() {
        return;
    }
    let mut whole = Named { windows: select.named_window.clone(), queries: 0 };
    // What a definition goes on from is defined before it.
    for at in 0..whole.windows.len() {
        if let NamedWindowExpr::WindowSpec(spec) = whole.windows[at].1.clone() {
            whole.windows[at].1 = NamedWindowExpr::WindowSpec(whole.written_out(spec));
        }
    }
    select.named_window = whole.windows.clone();
    let in_exprs = [&mut select.qualify, &mut select.having].into_iter().flatten();
    let visited = in_exprs.map(|expr| expr.visit(&mut whole)).all(|visited| visited.is_continue());
    debug_assert!(visited, "the visitor never stops");
    let visited = select.projection.visit(&mut whole).is_continue() && query.order_by.visit(&mut whole).is_continue();
    debug_assert!(visited, "the visitor never stops");
}

struct Named {
    windows: Vec<NamedWindowDefinition>,
    /// How many subqueries deep the visitor is: their windows are their own.
    queries: usize,
}

impl Named {
    /// The definition of `name`, followed through other names.
    fn definition(&self, name: &str) -> Option<WindowSpec> {
        let mut name = name.to_owned();
        for _ in 0..=self.windows.len() {
            let found = self.windows.iter().find(|window| window.0.value.eq_ignore_ascii_case(&name))?;
            match &found.1 {
                NamedWindowExpr::WindowSpec(spec) => return Some(spec.clone()),
                NamedWindowExpr::NamedWindow(other) => name = other.value.clone(),
            }
        }
        None
    }

    fn written_out(&self, mut spec: WindowSpec) -> WindowSpec {
        let Some(base) = spec.window_name.as_ref().and_then(|name| self.definition(&name.value)) else { return spec };
        spec.window_name = None;
        if spec.partition_by.is_empty() {
            spec.partition_by = base.partition_by;
        }
        if spec.order_by.is_empty() {
            spec.order_by = base.order_by;
        }
        spec.window_frame = spec.window_frame.or(base.window_frame);
        spec
    }
}

impl VisitorMut for Named {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && self.queries == 0
            && let Some(over) = &mut function.over
        {
            let spec = match over {
                WindowType::NamedWindow(name) => self.definition(&name.value),
                WindowType::WindowSpec(spec) => Some(self.written_out(spec.clone())),
            };
            // What is not defined is told by the planner.
            if let Some(spec) = spec {
                *over = WindowType::WindowSpec(spec);
            }
        }
        ControlFlow::Continue(())
    }
}
