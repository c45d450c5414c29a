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
    logical_expr::{Expr, LogicalPlan, Projection, Window, WindowFrameUnits, WindowFunctionDefinition},
    optimizer::AnalyzerRule,
};

use crate::trees::Nodes;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct UnorderedWindows;

impl AnalyzerRule for UnorderedWindows {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.nodes_down(rewrite).data()
    }

    fn name(&self) -> &str {
        "unordered_windows"
    }
}

/// Aggregates that do not see the order of rows.
const UNORDERED: [&str; 5] = ["avg", "count", "max", "min", "sum"];
/// Functions of peers, which all rows of a partition are where there is no order.
const OF_PEERS: [&str; 4] = ["cume_dist", "dense_rank", "percent_rank", "rank"];

/// What the windows of `node` ask of the order of rows: 0 that they come as they lie, 1 that those of a partition do, 2 nothing, or another.
fn asks(node: &Window) -> usize {
    let of = |expr: &Expr| {
        let Expr::WindowFunction(call) = expr.clone().unalias() else { return 2 };
        let frame = &call.params.window_frame;
        let is_whole = frame.start_bound.is_unbounded() && frame.end_bound.is_unbounded();
        let is_free = match &call.fun {
            WindowFunctionDefinition::AggregateUDF(function) => {
                UNORDERED.contains(&function.name()) && (is_whole || frame.units != WindowFrameUnits::Rows)
            }
            WindowFunctionDefinition::WindowUDF(function) => OF_PEERS.contains(&function.name()),
        };
        if is_free || !call.params.order_by.is_empty() { 2 } else { usize::from(!call.params.partition_by.is_empty()) }
    };
    node.window_expr.iter().map(of).min().unwrap_or(2)
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
    let is_in_order = nodes.iter().map(|node| asks(node)).is_sorted_by(|above, below| above >= below);
    if is_in_order || !nodes.iter().all(sees_base) {
        return Ok(Transformed::no(plan));
    }
    let mut made = base.clone();
    let mut from_below: Vec<&Window> = nodes.iter().rev().copied().collect();
    from_below.sort_by_key(|node| asks(node));
    for node in from_below {
        made = LogicalPlan::Window(Window::try_new(node.window_expr.clone(), Arc::new(made))?);
    }
    let columns = plan.schema().iter().map(|(table, field)| Expr::Column(Column::from((table, field)))).collect();
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(made))?)))
}
