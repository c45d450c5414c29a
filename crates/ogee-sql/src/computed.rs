//! Expressions of a node computed in a projection below it.
//!
//! DataFusion asks an order's expressions which values they may have, and gives up on an order if one of them has no answer: the bounds of what a function gives are of no type, so
//! that a comparison with them is an error, and `rank() OVER (PARTITION BY length(s) > 1)` was one ("does not satisfy order requirements"). Keys of windows and of aggregates in an
//! order that compare what functions give are therefore columns.
//!
//! Not here: keys with subqueries (`subqueries`), orders of rows, of which nobody asks whether they are there.

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    common::{
        Column, Result,
        tree_node::{Transformed, TransformedResult},
    },
    config::ConfigOptions,
    logical_expr::{BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder},
    optimizer::AnalyzerRule,
};

use crate::{
    kept_names, subqueries,
    trees::{Nodes, Tree},
};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ComputedKeys;

impl AnalyzerRule for ComputedKeys {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.nodes_up_where(|node| matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Window(_)), rewrite).data()
    }

    fn name(&self) -> &str {
        "computed_keys"
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let input = Arc::new(plan.inputs()[0].clone());
    let mut computed = Computed::default();
    let rewritten = kept_names::map_expressions(plan, |expr| {
        expr.up(|mut expr| {
            let mut changed = false;
            for key in keys(&mut expr) {
                if compares_calls(key)? {
                    *key = computed.column(std::mem::take(key));
                    changed = true;
                }
            }
            Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
        })
    })?;
    if computed.is_empty() {
        return Ok(Transformed::no(rewritten.data));
    }
    let plan = rewritten.data;
    let columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let exprs = plan.expressions();
    let plan = plan.with_new_exprs(exprs, vec![Arc::unwrap_or_clone(computed.below(input)?)])?;
    Ok(Transformed::yes(match plan {
        LogicalPlan::Aggregate(_) => plan,
        plan => LogicalPlanBuilder::from(plan).project(columns)?.build()?,
    }))
}

/// What a window or an aggregate is ordered by.
fn keys(expr: &mut Expr) -> Vec<&mut Expr> {
    match expr {
        Expr::WindowFunction(call) => {
            let order = call.params.order_by.iter_mut().map(|key| &mut key.expr);
            call.params.partition_by.iter_mut().chain(order).collect()
        }
        Expr::AggregateFunction(call) => call.params.order_by.iter_mut().map(|key| &mut key.expr).collect(),
        _ => Vec::new(),
    }
}

/// Whether a part of `key` compares what a function gives.
fn compares_calls(key: &Expr) -> Result<bool> {
    key.has(|part| match part {
        Expr::BinaryExpr(BinaryExpr { op, .. }) if op.negate().is_some() || op.is_logic_operator() => calls(part),
        Expr::Between(_) | Expr::InList(_) => calls(part),
        _ => Ok(false),
    })
}

fn calls(expr: &Expr) -> Result<bool> {
    expr.has(|part| Ok(matches!(part, Expr::ScalarFunction(_))))
}

/// Expressions that are computed below, and the names that they have there.
#[derive(Default)]
pub(crate) struct Computed(HashMap<Expr, Column>);

impl Computed {
    /// The column in place of `expr`.
    pub(crate) fn column(&mut self, expr: Expr) -> Expr {
        let column = self.0.entry(expr).or_insert_with(|| Column::new_unqualified(subqueries::fresh("below")));
        Expr::Column(column.clone())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `input` with what is computed beside its columns.
    pub(crate) fn below(self, input: Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
        if self.is_empty() {
            return Ok(input);
        }
        let columns = input.schema().columns().into_iter().map(Expr::Column);
        let mut computed: Vec<_> = self.0.into_iter().collect();
        computed.sort_by(|(_, left), (_, right)| left.name.cmp(&right.name));
        let exprs: Vec<_> = columns.chain(computed.into_iter().map(|(expr, name)| expr.alias(name.name))).collect();
        Ok(Arc::new(LogicalPlanBuilder::from(input).project(exprs)?.build()?))
    }
}
