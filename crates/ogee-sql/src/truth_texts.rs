//! Texts that are written beside truth values: `b = 't'` compares with true.
//!
//! DataFusion knows no type that both have.
//!
//! Not here: texts as conditions (`syntax::conditions`).

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
pub(crate) struct TruthTexts;

impl ExprPlanner for TruthTexts {
    fn plan_binary_op(&self, mut expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        let is_text = |side: &Expr| matches!(side, Expr::Literal(value, _) if value.data_type().is_string());
        let compares = matches!(expr.op, Eq | NotEq | Lt | LtEq | Gt | GtEq);
        if !compares || is_text(&expr.left) == is_text(&expr.right) {
            return Ok(PlannerResult::Original(expr));
        }
        let (text, other) = match is_text(&expr.left) {
            true => (&mut expr.left, &expr.right),
            false => (&mut expr.right, &expr.left),
        };
        if other.get_type(schema).is_ok_and(|data_type| data_type == DataType::Boolean) {
            *text = cast(std::mem::take(text), DataType::Boolean);
        }
        Ok(PlannerResult::Original(expr))
    }
}
