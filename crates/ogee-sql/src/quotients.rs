//! Quotients of decimals are floats, as in DuckDB.
//!
//! DataFusion divides decimals as decimals, with four digits more than the dividend has, and cuts off what is beyond them: of `0.0001 / 3` four digits are
//! left. Both sides become floats instead, where the statement is planned, so that all types above follow; a rule before types are coerced does it again for
//! what had no type then, such as parameters. Quotients of whole numbers stay whole numbers.
//!
//! Quotients of whole numbers become floats too under `SET integer_division = false`, as in DuckDB.
//!
//! Not here: averages (`ogee_functions`).

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use datafusion::{
    arrow::datatypes::DataType,
    common::{DFSchema, Result},
    logical_expr::{
        BinaryExpr, Expr, ExprSchemable, Operator, cast,
        planner::{ExprPlanner, PlannerResult, RawBinaryExpr},
    },
    sql::sqlparser::ast::BinaryOperator,
};

/// What `/` between whole numbers gives in a session: their whole quotient, as in PostgreSQL, or a float.
#[derive(Debug)]
pub struct Division {
    is_whole: AtomicBool,
}

impl Default for Division {
    fn default() -> Self {
        Self { is_whole: AtomicBool::new(true) }
    }
}

impl Division {
    /// Whether quotients of whole numbers are whole numbers.
    pub fn is_whole(&self) -> bool {
        self.is_whole.load(Ordering::Relaxed)
    }

    /// Has statements that are planned from now on divide whole numbers so.
    pub fn set_whole(&self, is_whole: bool) {
        self.is_whole.store(is_whole, Ordering::Relaxed);
    }

    /// Makes floats of the sides of a quotient whose result is one; whether it is one.
    pub(crate) fn as_floats(&self, left: &mut Expr, right: &mut Expr, schema: &DFSchema) -> bool {
        let divides = self.divides_as_floats(left, right, schema);
        if divides {
            [left, right].into_iter().for_each(to_float);
        }
        divides
    }

    /// Whether `left / right` is of two decimals, or of one and a whole number; of whole numbers, where their quotients are floats.
    fn divides_as_floats(&self, left: &Expr, right: &Expr, schema: &DFSchema) -> bool {
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
        let is_float = |data_type: &DataType| is_decimal(data_type) || !self.is_whole() && data_type.is_integer();
        (is_float(&left) || is_float(&right)) && is_exact(&left) && is_exact(&right)
    }
}

/// Plans quotients.
#[derive(Debug)]
pub(crate) struct Quotients(pub(crate) Arc<Division>);

impl ExprPlanner for Quotients {
    fn plan_binary_op(&self, mut expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        if expr.op == BinaryOperator::Divide {
            self.0.as_floats(&mut expr.left, &mut expr.right, schema);
        }
        Ok(PlannerResult::Original(expr))
    }
}

/// `expr` as a float.
fn to_float(expr: &mut Expr) {
    *expr = cast(std::mem::take(expr), DataType::Float64);
}
