//! Quotients of decimals are floats, as in DuckDB.
//!
//! DataFusion divides decimals as decimals, with four digits more than the dividend has, and cuts off what is beyond them: of `0.0001 / 3` four digits are
//! left. Both sides become floats instead, where the statement is planned, so that all types above follow; a rule before types are coerced does it again for
//! what had no type then, such as parameters. Quotients of whole numbers stay whole numbers.
//!
//! Not here: averages (`ogee_functions`).

use datafusion::{
    arrow::datatypes::DataType,
    common::{DFSchema, Result},
    logical_expr::{
        BinaryExpr, Expr, ExprSchemable, Operator, cast,
        planner::{ExprPlanner, PlannerResult, RawBinaryExpr},
    },
    sql::sqlparser::ast::BinaryOperator,
};

/// Plans quotients of decimals.
#[derive(Debug)]
pub(crate) struct Quotients;

impl ExprPlanner for Quotients {
    fn plan_binary_op(&self, mut expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        if expr.op == BinaryOperator::Divide && divides_decimals(&expr.left, &expr.right, schema) {
            [&mut expr.left, &mut expr.right].into_iter().for_each(to_float);
        }
        Ok(PlannerResult::Original(expr))
    }
}

/// Whether `left / right` is of two decimals, or of one and a whole number.
pub(crate) fn divides_decimals(left: &Expr, right: &Expr, schema: &DFSchema) -> bool {
    // Long chains are looked at once: a quotient that was planned is a whole number or a float, and one of floats shows that.
    let known = |expr: &Expr| match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Divide, .. }) => match &**left {
            Expr::Cast(cast) => Some(cast.field.data_type().clone()),
            _ => None,
        },
        _ => None,
    };
    let type_of = |expr: &Expr| known(expr).or_else(|| expr.get_type(schema).ok());
    let is_decimal = |data_type: &DataType| {
        matches!(
            data_type,
            DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..)
        )
    };
    let (Some(left), Some(right)) = (type_of(left), type_of(right)) else { return false };
    let is_exact = |data_type: &DataType| is_decimal(data_type) || data_type.is_integer() || data_type.is_null();
    (is_decimal(&left) || is_decimal(&right)) && is_exact(&left) && is_exact(&right)
}

/// `expr` as a float.
pub(crate) fn to_float(expr: &mut Expr) {
    *expr = cast(std::mem::take(expr), DataType::Float64);
}
