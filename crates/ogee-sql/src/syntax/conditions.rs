//! Conditions of other types than BOOLEAN: `WHERE 1`, `ON a.flags`, `NOT n`.
//!
//! Of a number each value but 0 is true, and of a text what it says: conditions are cast where DataFusion refuses them as they are.

use std::ops::ControlFlow;

use datafusion::{
    error::DataFusionError,
    sql::{
        parser::Statement as Parsed,
        sqlparser::ast::{
            BinaryOperator, CastKind, DataType, Expr, JoinConstraint, Select, TableFactor, TableWithJoins,
            UnaryOperator, Value, VisitorMut,
        },
    },
};

use super::{constraint, null};

/// What DataFusion says of such a condition.
const REFUSALS: [&str; 4] = [
    "Cannot create filter with non-boolean predicate",
    "Join condition must be boolean type",
    "for logical boolean operation",
    "Unary operator 'NOT' requires a boolean expression",
];

/// Whether `why` a statement was refused is the type of a condition.
pub(crate) fn are_refused(why: &DataFusionError) -> bool {
    let said = why.find_root().to_string();
    REFUSALS.iter().any(|refusal| said.contains(refusal))
}

/// Casts the conditions of `statement` that may be of another type; false if there are none.
pub(crate) fn cast(statement: &mut Parsed) -> bool {
    let mut conditions = Conditions { any: false };
    let visited = super::visit(statement, &mut conditions);
    debug_assert!(visited.is_continue(), "the visitor never stops");
    conditions.any
}

struct Conditions {
    any: bool,
}

impl Conditions {
    fn condition(&mut self, expr: &mut Expr) {
        match expr {
            Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
                self.condition(left);
                self.condition(right);
            }
            Expr::UnaryOp { op: UnaryOperator::Not, expr } | Expr::Nested(expr) => self.condition(expr),
            expr if may_be_of_another_type(expr) => {
                let value = std::mem::replace(expr, *null());
                *expr = Expr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(value),
                    data_type: DataType::Boolean,
                    array: false,
                    format: None,
                };
                self.any = true;
            }
            _ => {}
        }
    }

    fn joins(&mut self, table: &mut TableWithJoins) {
        for on in table.joins.iter_mut().filter_map(constraint) {
            if let JoinConstraint::On(condition) = on {
                self.condition(condition);
            }
        }
    }
}

impl VisitorMut for Conditions {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let conditions = [&mut select.selection, &mut select.having, &mut select.qualify];
        conditions.into_iter().flatten().for_each(|condition| self.condition(condition));
        select.from.iter_mut().for_each(|table| self.joins(table));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
            self.joins(table_with_joins);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or, .. }
        | Expr::UnaryOp { op: UnaryOperator::Not, .. } = expr
        {
            self.condition(expr);
        }
        ControlFlow::Continue(())
    }
}

/// Whether `expr` is not a condition whatever it is made of.
fn may_be_of_another_type(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => !matches!(value.value, Value::Boolean(_) | Value::Null),
        Expr::Identifier(_)
        | Expr::CompoundIdentifier(_)
        | Expr::CompoundFieldAccess { .. }
        | Expr::Function(_)
        | Expr::Case { .. }
        | Expr::Subquery(_)
        | Expr::UnaryOp { .. }
        | Expr::Extract { .. }
        | Expr::Substring { .. }
        | Expr::Trim { .. } => true,
        Expr::Cast { data_type, .. } => !matches!(data_type, DataType::Boolean | DataType::Bool),
        Expr::BinaryOp { op, .. } => matches!(
            op,
            BinaryOperator::Plus
                | BinaryOperator::Minus
                | BinaryOperator::Multiply
                | BinaryOperator::Divide
                | BinaryOperator::Modulo
                | BinaryOperator::BitwiseAnd
                | BinaryOperator::BitwiseOr
                | BinaryOperator::BitwiseXor
                | BinaryOperator::StringConcat
                | BinaryOperator::DuckIntegerDivide
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use crate::statement::parse;

    #[test]
    fn conditions_are_cast_where_they_may_be_numbers() {
        for (sql, expected) in [
            ("SELECT 1 FROM t WHERE a", "SELECT 1 FROM t WHERE CAST(a AS BOOLEAN)"),
            (
                "SELECT a AND NOT b FROM t WHERE x = 1 AND (a + 1 OR c IS NULL)",
                "SELECT CAST(a AS BOOLEAN) AND NOT CAST(b AS BOOLEAN) FROM t WHERE x = 1 AND (CAST(a + 1 AS BOOLEAN) OR c IS NULL)",
            ),
            (
                "SELECT 1 FROM t JOIN (u JOIN v ON 1) ON w",
                "SELECT 1 FROM t JOIN (u JOIN v ON CAST(1 AS BOOLEAN)) ON CAST(w AS BOOLEAN)",
            ),
        ] {
            let mut statement = parse(sql).unwrap().pop().unwrap().0;
            assert!(super::cast(&mut statement), "{sql}");
            assert_eq!(statement.to_string(), expected);
            assert!(!super::cast(&mut statement), "once is enough");
        }
    }
}
