//! Constants on the right of comparisons: `'b' = s` becomes `s = 'b'`.
//!
//! DataFusion takes `s = 'b' AND 'b' = s` for a contradiction where the constant has to be cast: it compares the conditions as they are written, and turns a constant
//! around only if it is one before it is evaluated. A subquery whose rows have the value that an outer constant is looked for among lost them so.
//!
//! Not here: comparisons of columns.

use datafusion::{
    common::{
        Result,
        tree_node::{Transformed, TransformedResult},
    },
    config::ConfigOptions,
    logical_expr::{BinaryExpr, Expr, LogicalPlan},
    optimizer::AnalyzerRule,
};

use crate::{kept_names, trees::Nodes};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ConstantsLast;

impl AnalyzerRule for ConstantsLast {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let in_turn = |expr, _: &_| turned(expr);
        plan.nodes_up_where(
            |node| kept_names::has_any(node, is_turned),
            |plan| kept_names::rewrite_where(plan, is_turned, in_turn),
        )
        .data()
    }

    fn name(&self) -> &str {
        "constants_last"
    }
}

/// Whether `expr` is a literal, cast or not.
pub(crate) fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(..) => true,
        Expr::Cast(cast) => is_constant(&cast.expr),
        Expr::TryCast(cast) => is_constant(&cast.expr),
        _ => false,
    }
}

fn is_turned(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            op.swap().is_some() && is_constant(left) && !is_constant(right)
        }
        _ => false,
    }
}

fn turned(expr: Expr) -> Transformed<Expr> {
    if !is_turned(&expr) {
        return Transformed::no(expr);
    }
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { unreachable!("it is turned") };
    let op = op.swap().expect("it is turned");
    Transformed::yes(Expr::BinaryExpr(BinaryExpr { left: right, op, right: left }))
}
