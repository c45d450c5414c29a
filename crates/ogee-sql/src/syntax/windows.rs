//! Windows that go on from windows with names: `OVER (w ROWS 2 PRECEDING)`, and such ones in `QUALIFY` and `ORDER BY`. Windows that are written alike, and are not.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, NamedWindowDefinition, NamedWindowExpr, Query, Select, SelectItem, SetExpr, Value,
    VisitMut, WindowSpec, WindowType,
};

use super::{exclusions, for_each_outside_queries};
use crate::{casts::NAMED_CAST, names::call};

/// Functions that give another value each time.
const VOLATILE: &[&str] = &["gen_random_uuid", "rand", "random", "uuid", "uuidv4", "uuidv7"];

/// Tells calls over windows apart that are written alike: `first_value(uuid()) OVER (), first_value(uuid()) OVER ()` are two values. DataFusion computes those of one name
/// once, so what varies in the second gets another name (`casts`).
pub(super) fn keep_apart(select: &mut Select) {
    let mut seen = HashSet::new();
    for_each_outside_queries(&mut select.projection, |expr| {
        let Expr::Function(Function { over: Some(_), .. }) = expr else { return };
        let text = expr.to_string();
        if !VOLATILE.iter().any(|name| text.to_ascii_lowercase().contains(&format!("{name}("))) || seen.insert(text) {
            return;
        }
        let number = seen.len();
        let mut apart = 0;
        let Expr::Function(function) = expr else { unreachable!("matched above") };
        for_each_outside_queries(&mut function.args, |arg| {
            let Expr::Function(of) = &*arg else { return };
            if VOLATILE.contains(&of.name.to_string().to_ascii_lowercase().as_str()) {
                apart += 1;
                let name = Expr::value(Value::SingleQuotedString(format!("{number}, {apart}")));
                *arg = call(NAMED_CAST, vec![name, arg.clone()]);
            }
        });
        seen.insert(expr.to_string());
    });
}

/// Puts a window of an output beside the condition of a `QUALIFY` that has none: DataFusion looks for one there only.
pub(super) fn beside_condition(select: &mut Select) {
    let Some(condition) = &mut select.qualify else { return };
    let (mut has_window, mut names) = (false, HashSet::new());
    for_each_outside_queries(condition, |expr| match expr {
        Expr::Function(Function { over: Some(_), .. }) => has_window = true,
        Expr::Identifier(name) => drop(names.insert(name.value.to_lowercase())),
        _ => {}
    });
    let mut found = None;
    for item in &select.projection {
        let mut within = None;
        for_each_outside_queries(&mut item.clone(), |expr| {
            if matches!(expr, Expr::Function(Function { over: Some(_), .. })) {
                within.get_or_insert_with(|| expr.clone());
            }
        });
        if let SelectItem::ExprWithAlias { alias, .. } = item {
            has_window |= within.is_some() && names.contains(&alias.value.to_lowercase());
        }
        found = found.or(within);
    }
    let Some(window) = found.filter(|_| !has_window) else { return };
    let binary = |left, op, right| Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) };
    let any = binary(Expr::IsNull(Box::new(window.clone())), BinaryOperator::Or, Expr::IsNotNull(Box::new(window)));
    let given = Expr::Nested(Box::new(condition.clone()));
    *condition = binary(given, BinaryOperator::And, Expr::Nested(Box::new(any)));
}

/// Writes out the windows of the `SELECT` that `query` is.
pub(super) fn in_query(query: &mut Query) {
    let SetExpr::Select(select) = &mut *query.body else { return };
    if select.named_window.is_empty() {
        return;
    }
    let mut whole = Named { windows: select.named_window.clone() };
    // What a definition goes on from is defined before it.
    for at in 0..whole.windows.len() {
        if let NamedWindowExpr::WindowSpec(spec) = whole.windows[at].1.clone() {
            whole.windows[at].1 = NamedWindowExpr::WindowSpec(whole.written_out(spec));
        }
    }
    select.named_window = whole.windows.clone();
    let in_exprs = [&mut select.qualify, &mut select.having].into_iter().flatten();
    in_exprs.for_each(|expr| whole.write_out(expr));
    whole.write_out(&mut select.projection);
    whole.write_out(&mut query.order_by);
}

/// What of the windows of `select` goes on from a window in a way that there is not, if anything does.
pub(super) fn refused(select: &Select) -> Option<String> {
    if select.named_window.is_empty() {
        return None;
    }
    let named = |name: &str| select.named_window.iter().position(|window| window.0.value.eq_ignore_ascii_case(name));
    let bad = |spec: &WindowSpec, known: usize| {
        let name = &spec.window_name.as_ref()?.value;
        let Some(at) = named(name).filter(|&at| at < known) else {
            return Some(format!("window {name}, which is not defined before it is used"));
        };
        let NamedWindowExpr::WindowSpec(base) = &select.named_window[at].1 else { return None };
        if exclusions::keys(spec).next().is_some() && !base.partition_by.is_empty() {
            return Some(format!("PARTITION BY of what goes on from window {name}, which has partitions of its own"));
        }
        if !spec.order_by.is_empty() && !base.order_by.is_empty() {
            return Some(format!("ORDER BY of what goes on from window {name}, which has an order of its own"));
        }
        base.window_frame.is_some().then(|| {
            format!(
                "a window that goes on from {name}, which has a frame; use OVER {name}, or leave the frame out of it"
            )
        })
    };
    for (at, window) in select.named_window.iter().enumerate() {
        if named(&window.0.value) != Some(at) {
            return Some(format!("two windows {}", window.0.value));
        }
        if let NamedWindowExpr::WindowSpec(spec) = &window.1
            && let Some(what) = bad(spec, at)
        {
            return Some(what);
        }
    }
    let mut found = None;
    let mut look = |expr: &mut Expr| {
        if let Expr::Function(Function { over: Some(WindowType::WindowSpec(spec)), .. }) = expr
            && found.is_none()
        {
            found = bad(spec, select.named_window.len());
        }
    };
    for_each_outside_queries(&mut select.projection.clone(), &mut look);
    for_each_outside_queries(&mut select.qualify.clone(), &mut look);
    found
}

struct Named {
    windows: Vec<NamedWindowDefinition>,
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

    /// Writes out the windows of a clause.
    fn write_out(&self, clause: &mut impl VisitMut) {
        for_each_outside_queries(clause, |expr| {
            let Expr::Function(Function { over: Some(over), .. }) = expr else { return };
            let spec = match over {
                WindowType::NamedWindow(name) => self.definition(&name.value),
                WindowType::WindowSpec(spec) => Some(self.written_out(spec.clone())),
            };
            // What is not defined is told by the planner.
            if let Some(spec) = spec {
                *over = WindowType::WindowSpec(spec);
            }
        });
    }

    fn written_out(&self, mut spec: WindowSpec) -> WindowSpec {
        let Some(base) = spec.window_name.as_ref().and_then(|name| self.definition(&name.value)) else { return spec };
        spec.window_name = None;
        exclusions::with_keys(&mut spec, base.partition_by);
        if spec.order_by.is_empty() {
            spec.order_by = base.order_by;
        }
        spec.window_frame = spec.window_frame.or(base.window_frame);
        spec
    }
}
