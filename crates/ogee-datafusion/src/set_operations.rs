//! `INTERSECT ALL` and `EXCEPT ALL`: rows as often as they are there.
//!
//! DataFusion plans them as the semi and anti join of their distinct forms without the duplicates sorted out, so that one row on the right keeps, or
//! takes away, all of its copies on the left. An analyzer rule numbers the copies of each row on both sides and makes the number one more
//! key: the n-th copy on the left then meets the n-th on the right, if there is one.
//!
//! Not here: `INTERSECT` and `EXCEPT` without `ALL`, whose left side is distinct.

use std::sync::Arc;

use datafusion::{
    common::{
        Column, NullEquality, Result,
        tree_node::{Transformed, TransformedResult},
    },
    config::ConfigOptions,
    logical_expr::{Expr, ExprFunctionExt, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Projection},
    optimizer::AnalyzerRule,
};

use crate::ranks::row_number;

/// Makes set operations with `ALL` count.
#[derive(Debug, Default)]
pub(crate) struct CountCopies;

impl AnalyzerRule for CountCopies {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(rewrite).data()
    }

    fn name(&self) -> &str {
        "count_copies"
    }
}

/// Before any optimization only set operations make joins of this kind.
fn is_set_operation(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && join.on.len() == join.left.schema().fields().len()
        && !matches!(*join.left, LogicalPlan::Distinct(_))
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(mut join) = plan else { return Ok(Transformed::no(plan)) };
    if !is_set_operation(&join) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let schema = Arc::clone(join.left.schema());
    let (left, right) = (join.on.iter().map(|(left, _)| left.clone()), join.on.iter().map(|(_, right)| right.clone()));
    let (left, copy_left) = numbered(&join.left, left.collect(), "ogee_copy_left")?;
    let (right, copy_right) = numbered(&join.right, right.collect(), "ogee_copy_right")?;
    join.on.push((copy_left, copy_right));
    let joined = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        join.on,
        None,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let kept = Projection::new_from_schema(Arc::new(LogicalPlan::Join(joined)), schema);
    Ok(Transformed::yes(LogicalPlan::Projection(kept)))
}

/// `plan` with one more column `name`: which copy of its row a row is.
fn numbered(plan: &LogicalPlan, row: Vec<Expr>, name: &str) -> Result<(LogicalPlan, Expr)> {
    let number = row_number().partition_by(row).build()?;
    let column = Expr::Column(Column::from_name(number.schema_name().to_string()));
    let columns = plan.schema().columns().into_iter().map(Expr::Column);
    let numbered = LogicalPlanBuilder::from(plan.clone()).window([number])?;
    let plan = numbered.project(columns.chain([column.alias(name)]))?.build()?;
    Ok((plan, Expr::Column(Column::from_name(name))))
}
