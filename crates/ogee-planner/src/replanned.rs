//! Physical plans that DataFusion refuses for what it expects of them: they are made once more without that.
//!
//! Not here: what is wrong with a statement.

use std::sync::Arc;

use datafusion::{
    common::tree_node::{Transformed, TransformedResult},
    error::{DataFusionError, Result},
    execution::SessionState,
    logical_expr::{Expr, Filter, LogicalPlan, lit, utils::split_conjunction_owned},
    physical_plan::ExecutionPlan,
};

/// The physical plan of `plan`, optimized.
///
/// # Errors
/// Those of planning.
pub async fn create(state: &SessionState, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
    let mut physical = state.create_physical_plan(plan).await;
    if physical.as_ref().is_err_and(differs_in_nulls) {
        let mut trusting = state.clone();
        trusting.config_mut().options_mut().execution.skip_physical_aggregate_schema_check = true;
        physical = trusting.create_physical_plan(plan).await;
    }
    if physical.as_ref().is_err_and(is_of_ranges) {
        let opaque = with_opaque_filters(state.optimize(plan)?)?;
        physical = state.query_planner().create_physical_plan(&opaque, state).await;
    }
    physical
}

/// Whether a plan was refused since the planner knew of a column that it has no NULL, and knows that no more. Operators take what the plan below them says, so that
/// nothing is wrong with it (apache/datafusion#25369).
fn differs_in_nulls(error: &DataFusionError) -> bool {
    let DataFusionError::Internal(message) = error.find_root() else { return false };
    let Some((_, differences)) = message.split_once("one converted from logical input schema. Differences:") else {
        return false;
    };
    let mut lines = differences.split("\n\t- ").map(str::trim).filter(|line| !line.is_empty());
    lines.all(|line| line.starts_with("field nullability at index"))
}

/// Whether a plan was refused for the ranges that the planner takes columns to have behind a filter: that of a column which is compared by a cast that rounds may come out wider
/// than it was (a timestamp as a date, a float as an integer), so that more than all rows would be expected; that of days between dates is one of durations.
fn is_of_ranges(error: &DataFusionError) -> bool {
    let of_ranges = [
        "Selectivity is out of limit",
        "Only intervals with the same data type are comparable",
        "Interval data types must be compatible",
        "Only intervals with the same data type are intersectable",
    ];
    matches!(error.find_root(), DataFusionError::Internal(message) if of_ranges.iter().any(|of| message.contains(of)))
}

/// `plan` with filters whose rows are not foreseen: conditions are asked whether they are true.
fn with_opaque_filters(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|plan| {
        let LogicalPlan::Filter(filter) = plan else { return Ok(Transformed::no(plan)) };
        let conditions = split_conjunction_owned(filter.predicate).into_iter().map(Expr::is_true);
        let predicate = conditions.reduce(Expr::and).unwrap_or_else(|| lit(true));
        Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
    });
    rewritten.data()
}
