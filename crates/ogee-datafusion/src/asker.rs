//! Queries that a statement's plan depends on, run while it is made.
//!
//! Not here: which queries these are (`ogee_sql::asked`).

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::{
    arrow::array::RecordBatch, execution::SessionState, logical_expr::LogicalPlan, physical_plan::execute_stream,
};
use futures::TryStreamExt;
use ogee_functions::Result;
use ogee_planner::join_order::Samples;
use ogee_sql::asked::Asks;

use crate::session::{physical_plan, task_context};

/// Runs them as it would the statement.
pub(crate) struct Asker(pub(crate) Arc<Samples>);

impl std::fmt::Debug for Asker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Asker")
    }
}

#[async_trait]
impl Asks for Asker {
    async fn rows(&self, state: &SessionState, plan: LogicalPlan) -> Result<Vec<RecordBatch>> {
        let physical = physical_plan(&self.0, state, &plan).await?;
        let context = task_context(state, &physical);
        Ok(execute_stream(physical, context)?.try_collect().await?)
    }
}
