//! Truth values beside others in a comparison: `b = 't'` compares with true, `b = 1` with the numbers 0 and 1.
//!
//! DataFusion knows no type that both have.
//!
//! Not here: other values as conditions (`syntax::conditions`).

use datafusion::{
    arrow::datatypes::DataType,
    common::DFSchema,
    error::Result,
    logical_expr::{
        Expr, ExprSchemable, cast,
        planner::{ExprPlanner, PlannerResult, RawBinaryExpr},
    },
    sql::sqlparser::ast::BinaryOperator,
};

/// Plans such comparisons.
#[derive(Debug)]
pub(crate) struct TruthValues;

impl ExprPlanner for TruthValues {
    fn plan_binary_op(&self, mut expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        // What is compared, or put together, is looked at where it is planned.
        let may_be_one = |side: &Expr| !matches!(side, Expr::BinaryExpr(_));
        let compares = matches!(expr.op, Eq | NotEq | Lt | LtEq | Gt | GtEq);
        if !compares || !may_be_one(&expr.left) || !may_be_one(&expr.right) {
            return Ok(PlannerResult::Original(expr));
        }
        let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(expr));
        };
        let (truth, other, other_type) = match (&left, &right) {
            (DataType::Boolean, other) if *other != DataType::Boolean => (&mut expr.left, &mut expr.right, other),
            (other, DataType::Boolean) if *other != DataType::Boolean => (&mut expr.right, &mut expr.left, other),
            _ => return Ok(PlannerResult::Original(expr)),
        };
        if other_type.is_numeric() {
            let number = if other_type.is_floating() { DataType::Float64 } else { DataType::Int64 };
            *truth = cast(std::mem::take(truth), number);
        } else if other_type.is_string() && matches!(other, Expr::Literal(..)) {
            *other = cast(std::mem::take(other), DataType::Boolean);
        }
        Ok(PlannerResult::Original(expr))
    }
}
