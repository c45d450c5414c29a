//! Lists of `IN` that hold constants, none of them NULL; and what two of them leave where nothing is in both.
//!
//! DataFusion joins two lists of one operand as sets of expressions: `0 IN (a, b) AND 0 NOT IN (c)` was `0 IN (a, b)`, since `c` is no expression of the first list, and
//! `x IN (1, 2) AND x NOT IN (2, NULL)` was `x IN (1)`. What a list has beside constants becomes comparisons. Where the sets leave nothing, it has `false` (or `true`, of `NOT IN`)
//! also for an operand that is NULL, and `NOT (x IN (1, 2, 3, 4) AND x IN (5, 6, 7, 8))` kept the rows without an `x`.
//!
//! Not here: lists of floats and decimals (`float_order`, `common_types`), long chains of comparisons (`syntax/chains.rs`).

use datafusion::{
    common::{
        DFSchema, Result, ScalarValue,
        tree_node::{Transformed, TransformedResult},
    },
    config::ConfigOptions,
    logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, binary_expr, expr::InList},
    optimizer::AnalyzerRule,
};

use crate::{kept_names, subqueries::has_subquery, trees::Nodes};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct InLists;

impl AnalyzerRule for InLists {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let is_list = |expr: &Expr| matches!(expr, Expr::InList(_));
        plan.nodes_up_where(
            |node| kept_names::has_any(node, is_list),
            |plan| kept_names::rewrite_where(plan, is_list, rewrite),
        )
        .data()
    }

    fn name(&self) -> &str {
        "in_lists"
    }
}

fn rewrite(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::InList(list) => of_constants(list, schema),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (&*left, &*right) {
            (Expr::InList(first), Expr::InList(second)) if leaves_nothing(first, op, second) => {
                let null = Expr::Literal(ScalarValue::Boolean(None), None);
                let operand = first.expr.clone();
                Transformed::yes(match op {
                    Operator::And => Expr::IsNull(operand).and(null),
                    _ => Expr::IsNotNull(operand).or(null),
                })
            }
            _ => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
        },
        other => Transformed::no(other),
    }
}

/// Whether `value` is a constant once it is computed, and never NULL.
fn is_computed(value: &Expr, schema: &DFSchema) -> bool {
    !value.any_column_refs()
        && !value.contains_outer()
        && !value.is_volatile()
        && !has_subquery(value)
        && value.nullable(schema).is_ok_and(|is_nullable| !is_nullable)
}

/// `list`, and comparisons with what is no constant in it.
fn of_constants(list: InList, schema: &DFSchema) -> Transformed<Expr> {
    let is_constant = |value: &Expr| match value {
        Expr::Literal(value, _) => !value.is_null(),
        _ => is_computed(value, schema),
    };
    if list.list.iter().all(is_constant) || list.expr.is_volatile() || has_subquery(&list.expr) {
        return Transformed::no(Expr::InList(list));
    }
    let InList { expr, list, negated } = list;
    let (compares, joins) = if negated { (Operator::NotEq, Operator::And) } else { (Operator::Eq, Operator::Or) };
    let (constants, others): (Vec<_>, Vec<_>) = list.into_iter().partition(is_constant);
    let mut parts: Vec<Expr> =
        others.into_iter().map(|value| binary_expr(expr.as_ref().clone(), compares, value)).collect();
    if !constants.is_empty() {
        parts.push(Expr::InList(InList { expr, list: constants, negated }));
    }
    Transformed::yes(balanced(parts, joins))
}

/// `parts` joined by `op`, as a tree as shallow as there is.
fn balanced(mut parts: Vec<Expr>, op: Operator) -> Expr {
    if parts.len() > 1 {
        let right = parts.split_off(parts.len() / 2);
        return binary_expr(balanced(parts, op), op, balanced(right, op));
    }
    parts.pop().expect("a list has values")
}

/// Whether no value can pass both lists, joined by `AND`, or fail both, joined by `OR`.
fn leaves_nothing(first: &InList, op: Operator, second: &InList) -> bool {
    if first.expr != second.expr || first.expr.is_volatile() {
        return false;
    }
    let within = |first: &InList, second: &InList| first.list.iter().all(|value| second.list.contains(value));
    let apart = || !first.list.iter().any(|value| second.list.contains(value));
    match (op, first.negated, second.negated) {
        (Operator::And, false, false) | (Operator::Or, true, true) => apart(),
        (Operator::And, false, true) => within(first, second),
        (Operator::And, true, false) => within(second, first),
        _ => false,
    }
}
