//! DataFusion's rule that moves projections down, without its mistakes.
//!
//! It also moves parts of a nested-loop join's condition into projections below the join. Of joins that give the rows of one side only, semi and anti joins, it then counts the
//! columns of the wrong side: with some the planner panics, with others the columns that come out are not those that were planned.
//!
//! Of a lambda that reads columns of one side it makes a column, and the function that is to get it has none.
//!
//! Below a filter that chooses columns it moves a projection whose columns, counted after the choice, happen to be those of the filter's condition, counted before it: of two
//! columns of one name the wrong one may come out. Such a filter leaves the choice to a projection above it, with which the upper one is then united.
//!
//! Not here: projections of islands, which are one operator of many.

use std::sync::Arc;

use datafusion::{
    common::tree_node::{Transformed, TransformedResult, TreeNode},
    config::ConfigOptions,
    error::Result,
    logical_expr::JoinType,
    physical_expr::{
        expressions::{Column, LambdaExpr},
        utils::collect_columns,
    },
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan,
        filter::{FilterExec, FilterExecBuilder},
        joins::NestedLoopJoinExec,
        projection::{ProjectionExec, ProjectionExpr, remove_unnecessary_projections},
        replace_children_if_necessary,
    },
};

/// Runs `pushdown`, or where that would go wrong its second half alone.
#[derive(Debug)]
pub struct Projections {
    pushdown: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
}

impl Projections {
    /// `pushdown` is DataFusion's rule.
    pub fn new(pushdown: Arc<dyn PhysicalOptimizerRule + Send + Sync>) -> Self {
        Self { pushdown }
    }
}

/// Whether `join` gives the rows of one side.
fn gives_one_side(join: &NestedLoopJoinExec) -> bool {
    use JoinType::{LeftAnti, LeftSemi, RightAnti, RightSemi};
    matches!(join.join_type(), LeftAnti | LeftSemi | RightAnti | RightSemi) && join.filter().is_some()
}

/// Whether the condition of `join` has a lambda.
fn has_lambda(join: &NestedLoopJoinExec) -> Result<bool> {
    let Some(filter) = join.filter() else { return Ok(false) };
    filter.expression().exists(|expr| Ok(expr.is::<LambdaExpr>()))
}

/// `node` with the columns of the filter below it chosen above that, where both would be mixed up.
fn choose_above(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(projection) = node.downcast_ref::<ProjectionExec>() else { return Ok(Transformed::no(node)) };
    let Some(filter) = projection.input().downcast_ref::<FilterExec>() else { return Ok(Transformed::no(node)) };
    let Some(chosen) = filter.projection() else { return Ok(Transformed::no(node)) };
    let is_kept = |column: &Column| {
        projection.expr().iter().any(|output| output.expr.downcast_ref::<Column>().is_some_and(|kept| kept == column))
    };
    let are_same = chosen.iter().enumerate().all(|(after, &before)| after == before);
    if are_same || !collect_columns(filter.predicate()).iter().all(is_kept) {
        return Ok(Transformed::no(node));
    }
    let whole = Arc::new(FilterExecBuilder::from(filter).apply_projection(None)?.build()?);
    let schema = whole.schema();
    let column = |&index: &usize| {
        let name = schema.field(index).name();
        ProjectionExpr { expr: Arc::new(Column::new(name, index)), alias: name.clone() }
    };
    let choice: Vec<ProjectionExpr> = chosen.iter().map(column).collect();
    let choice = Arc::new(ProjectionExec::try_new(choice, whole)?);
    Ok(Transformed::yes(replace_children_if_necessary(node, vec![choice])?))
}

impl PhysicalOptimizerRule for Projections {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(choose_above).data()?;
        let goes_wrong = |node: &Arc<dyn ExecutionPlan>| match node.downcast_ref::<NestedLoopJoinExec>() {
            Some(join) => Ok(gives_one_side(join) || has_lambda(join)?),
            None => Ok(false),
        };
        match plan.exists(goes_wrong)? {
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
