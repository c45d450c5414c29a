//! DataFusion's rule that moves projections down, without its mistakes.
//!
//! It also moves parts of a nested-loop join's condition into projections below the join. Of joins that give the rows of one side only, semi and anti joins, it then counts the
//! columns of the wrong side: with some the planner panics, with others the columns that come out are not those that were planned.
//!
//! Not here: projections of islands, which are one operator of many.

use std::sync::Arc;

use datafusion::{
    common::tree_node::{TransformedResult, TreeNode},
    config::ConfigOptions,
    error::Result,
    logical_expr::JoinType,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{ExecutionPlan, joins::NestedLoopJoinExec, projection::remove_unnecessary_projections},
};

/// Runs `pushdown`, or where that would go wrong its second half alone.
#[derive(Debug)]
pub(crate) struct Projections {
    pushdown: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
}

impl Projections {
    /// `pushdown` is DataFusion's rule.
    pub(crate) fn new(pushdown: Arc<dyn PhysicalOptimizerRule + Send + Sync>) -> Self {
        Self { pushdown }
    }
}

/// Whether `join` gives the rows of one side.
fn gives_one_side(join: &NestedLoopJoinExec) -> bool {
    use JoinType::{LeftAnti, LeftSemi, RightAnti, RightSemi};
    matches!(join.join_type(), LeftAnti | LeftSemi | RightAnti | RightSemi) && join.filter().is_some()
}

impl PhysicalOptimizerRule for Projections {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        match plan.exists(|node| Ok(node.downcast_ref::<NestedLoopJoinExec>().is_some_and(gives_one_side)))? {
            true => plan.transform_down(remove_unnecessary_projections).data(),
            false => self.pushdown.optimize(plan, config),
        }
    }

    fn name(&self) -> &str {
        self.pushdown.name()
    }

    fn schema_check(&self) -> bool {
        true
    }
}
