//! Windows that turn out to be the same, computed once.
//!
//! `min(1 + 1) OVER ()` and `min(2) OVER ()` are two until expressions are simplified. DataFusion's elimination of common subexpressions then computes the one that they are in a
//! projection below the window, which cannot (apache/datafusion#15190), and its filter pushdown finds a column where it expects a window. Here the second becomes the column
//! of the first, in a projection above, before that rule sees them; of windows in a row, too. What gives another value each time stays as it is.
//!
//! Not here: windows whose texts are the same, which are one when they are planned.

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    common::{Column, tree_node::Transformed},
    error::Result,
    logical_expr::{Expr, LogicalPlan, Projection, Window},
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// `rules`, with this one before the elimination of common subexpressions.
pub(crate) fn with_single_windows(mut rules: Vec<Rule>) -> Vec<Rule> {
    let before = rules.iter().position(|rule| rule.name() == "common_sub_expression_eliminate");
    rules.insert(before.unwrap_or(rules.len()), Arc::new(EqualWindows));
    rules
}

#[derive(Debug)]
struct EqualWindows;

impl OptimizerRule for EqualWindows {
    fn name(&self) -> &str {
        "equal_windows"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Window(window) = plan else { return Ok(Transformed::no(plan)) };
        let mut known = HashMap::new();
        let mut below = &window.input;
        while let LogicalPlan::Window(window) = &**below {
            known.extend(window.window_expr.iter().map(bare).zip(outputs(window)));
            below = &window.input;
        }
        let mut replaced = vec![None; window.window_expr.len()];
        for ((expr, output), place) in window.window_expr.iter().zip(outputs(&window)).zip(&mut replaced) {
            if !expr.is_volatile() {
                *place = known.get(&bare(expr)).cloned();
            }
            if place.is_none() {
                known.insert(bare(expr), output);
            }
        }
        if replaced.iter().all(Option::is_none) {
            return Ok(Transformed::no(LogicalPlan::Window(window)));
        }
        let inputs = window.input.schema().fields().len();
        let outputs: Vec<Expr> = window
            .schema
            .iter()
            .enumerate()
            .map(|(at, (qualifier, field))| match at.checked_sub(inputs).and_then(|at| replaced[at].clone()) {
                Some(same) => Expr::Column(same).alias_qualified(qualifier.cloned(), field.name()),
                None => Expr::Column(Column::from((qualifier, field))),
            })
            .collect();
        let exprs = window.window_expr.into_iter().zip(&replaced);
        let kept: Vec<Expr> = exprs.filter_map(|(expr, same)| same.is_none().then_some(expr)).collect();
        let below = match kept.is_empty() {
            true => window.input,
            false => Arc::new(LogicalPlan::Window(Window::try_new(kept, window.input)?)),
        };
        Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(outputs, below)?)))
    }
}

/// What `expr` is, whatever it is called.
fn bare(expr: &Expr) -> Expr {
    expr.clone().unalias_nested().data
}

/// The columns that the windows of `window` are.
fn outputs(window: &Window) -> impl Iterator<Item = Column> {
    window.schema.iter().skip(window.input.schema().fields().len()).map(Column::from)
}
