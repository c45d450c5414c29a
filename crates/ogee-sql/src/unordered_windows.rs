//! Windows without an order, computed before those that have one: `row_number() OVER (), rank() OVER (ORDER BY x)`.
//!
//! Rows that nobody sorts come as they lie in tables and files. DataFusion computes the windows with the longest keys first, whose sorts the others then see: the numbers went by `x`.
//! Windows of one query see nothing of each other, so that their order is free.
//!
//! Not here: in which order rows lie (`ogee_exec::order`).

use std::sync::Arc;

use datafusion::{
    common::{
        Column, Result,
        tree_node::{Transformed, TransformedResult},
    },
    config::ConfigOptions,
    logical_expr::{Expr, LogicalPlan, Projection, Window},
    optimizer::AnalyzerRule,
};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct UnorderedWindows;

impl AnalyzerRule for UnorderedWindows {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_down_with_subqueries(rewrite).data()
    }

    fn name(&self) -> &str {
        "unordered_windows"
    }
}

/// What `node` does to the order of rows: nothing, divides them, or sorts them.
fn disorder(node: &Window) -> usize {
    let of = |expr: &Expr| match expr.clone().unalias() {
        Expr::WindowFunction(call) if !call.params.order_by.is_empty() => 2,
        Expr::WindowFunction(call) if !call.params.partition_by.is_empty() => 1,
        Expr::WindowFunction(_) => 0,
        _ => 2,
    };
    node.window_expr.iter().map(of).max().unwrap_or(0)
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut nodes = Vec::new();
    let mut base = &plan;
    while let LogicalPlan::Window(node) = base {
        nodes.push(node);
        base = &node.input;
    }
    let sees_base = |node: &&Window| {
        let columns = node.window_expr.iter().flat_map(Expr::column_refs);
        columns.into_iter().all(|column| base.schema().has_column(column))
    };
    // From the top.
    let is_in_order = nodes.iter().map(|node| disorder(node)).is_sorted_by(|above, below| above >= below);
    if is_in_order || !nodes.iter().all(sees_base) {
        return Ok(Transformed::no(plan));
    }
    let mut made = base.clone();
    let mut from_below: Vec<&Window> = nodes.iter().rev().copied().collect();
    from_below.sort_by_key(|node| disorder(node));
    for node in from_below {
        made = LogicalPlan::Window(Window::try_new(node.window_expr.clone(), Arc::new(made))?);
    }
    let columns = plan.schema().iter().map(|(table, field)| Expr::Column(Column::from((table, field)))).collect();
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(made))?)))
}
