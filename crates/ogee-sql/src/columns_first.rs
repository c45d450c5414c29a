//! Columns on the left of equalities that filters have: `coalesce(s, '') = s` becomes `s = coalesce(s, '')`.
//!
//! DataFusion's filters tell the plan above which expressions are equal, and orders above are then written with the left one in place of the right one. An expression in the
//! place of a column that it contains grows each time that this is done, and an order is no longer found to be the one that was asked for ("does not satisfy order
//! requirements").
//!
//! Not here: constants (`constants_last`), keys of joins (columns of projections below them).

use datafusion::{
    common::tree_node::Transformed,
    error::Result,
    logical_expr::{
        BinaryExpr, Expr, Filter, LogicalPlan, Operator,
        utils::{conjunction, split_conjunction, split_conjunction_owned},
    },
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ColumnsFirst;

impl OptimizerRule for ColumnsFirst {
    fn name(&self) -> &str {
        "columns_first"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = plan else { return Ok(Transformed::no(plan)) };
        if !split_conjunction(&filter.predicate).into_iter().any(is_turned) {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        }
        let turned = split_conjunction_owned(filter.predicate).into_iter().map(|condition| match condition {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_turned_equality(&left, op, &right) => {
                Expr::BinaryExpr(BinaryExpr::new(right, op, left))
            }
            other => other,
        });
        let predicate = conjunction(turned).expect("a filter has conditions");
        Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
    }
}

fn is_turned(condition: &Expr) -> bool {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => is_turned_equality(left, *op, right),
        _ => false,
    }
}

fn is_turned_equality(left: &Expr, op: Operator, right: &Expr) -> bool {
    op == Operator::Eq && matches!(right, Expr::Column(_)) && !matches!(left, Expr::Column(_))
}
