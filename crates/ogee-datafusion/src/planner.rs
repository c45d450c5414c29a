//! DataFusion's planner of physical nodes, with what it has no nodes for.
//!
//! Not here: these nodes (`asof`, `recursion`).

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::{
    catalog::Session,
    error::Result,
    execution::context::QueryPlanner,
    logical_expr::LogicalPlan,
    physical_plan::ExecutionPlan,
    physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner},
};

use crate::{asof::AsofPlanner, recursion::RecursionPlanner};

/// DataFusion's planner, and what it lacks.
#[derive(Debug, Default)]
pub(crate) struct Planner;

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let planner =
            DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(AsofPlanner), Arc::new(RecursionPlanner)]);
        planner.create_physical_plan(plan, session).await
    }
}
