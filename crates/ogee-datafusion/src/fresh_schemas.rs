//! Schemas of windows over laterals.
//!
//! DataFusion makes joins of laterals, and these have columns of their own. What is above keeps its schema where a subquery is left elsewhere in the plan: a window then
//! has fewer columns than its input, which the next rule takes for an error.
//!
//! Not here: how laterals become joins.

use std::sync::Arc;

use datafusion::{
    common::tree_node::{Transformed, TreeNodeRecursion},
    error::Result,
    logical_expr::LogicalPlan,
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// `rules`, with one behind that which makes joins of laterals.
pub(crate) fn with_fresh_schemas(mut rules: Vec<Rule>) -> Vec<Rule> {
    if let Some(laterals) = rules.iter().position(|rule| rule.name() == "decorrelate_lateral_join") {
        rules.insert(laterals + 1, Arc::new(FreshSchemas));
    }
    rules
}

#[derive(Debug)]
struct FreshSchemas;

impl OptimizerRule for FreshSchemas {
    fn name(&self) -> &str {
        "fresh_schemas"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        None
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut any_stale = false;
        plan.apply_with_subqueries(|node| {
            any_stale |= is_stale(node);
            Ok(if any_stale { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        match any_stale {
            true => plan.transform_up_with_subqueries(|node| Ok(Transformed::yes(node.recompute_schema()?))),
            false => Ok(Transformed::no(plan)),
        }
    }
}

fn is_stale(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Window(window) => {
            window.schema.fields().len() != window.input.schema().fields().len() + window.window_expr.len()
        }
        _ => false,
    }
}
