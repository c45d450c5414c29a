//! Rules of the optimizer that hear interrupts, and leave statements alone that are only prepared.
//!
//! `PREPARE` has DataFusion optimize a plan that was not analyzed, in a context without functions, which a rule (that of `DISTINCT ON`) takes to be there. What is prepared
//! is therefore kept as it was written, and analyzed and optimized when it is executed, as any other statement.
//!
//! Not here: what the rules do.

use std::sync::Arc;

use datafusion::{
    common::tree_node::Transformed,
    error::Result,
    logical_expr::LogicalPlan,
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};
use ogee_functions::growing;

use crate::checkpoint;

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// `rules`, guarded.
pub(crate) fn guarded(rules: Vec<Rule>) -> Vec<Rule> {
    rules.into_iter().map(|rule| Arc::new(Guarded { rule }) as Rule).collect()
}

#[derive(Debug)]
struct Guarded {
    rule: Rule,
}

impl OptimizerRule for Guarded {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        checkpoint::check()?;
        match config.function_registry() {
            Some(_) => growing::while_planning(|| self.rule.rewrite(plan, config)),
            None => Ok(Transformed::no(plan)),
        }
    }
}
