//! Parameters of lambdas have the types of the elements that they get, also where analysis changes these.
//!
//! DataFusion finds the types of parameters while it plans, when a CASE has the type of its first branch, and a date with an interval is a date. What is selected below is of another type once it is
//! analyzed, and the plan was refused.
//!
//! Not here: what lambdas are (`syntax`).

use datafusion::{
    common::{
        DFSchema, Result,
        tree_node::{Transformed, TreeNodeRecursion},
    },
    config::ConfigOptions,
    logical_expr::{Expr, LogicalPlan, utils::merge_schema},
    optimizer::{AnalyzerRule, analyzer::type_coercion::TypeCoercion},
};

use crate::trees::{Nodes, Tree};

/// Each round settles the types of one query more that is within another: more than statements have.
const ROUNDS_MAX: usize = 32;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LambdaTypes;

impl AnalyzerRule for LambdaTypes {
    fn analyze(&self, mut plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_lambdas(&plan)? {
            return Ok(plan);
        }
        for _ in 0..ROUNDS_MAX {
            let resolved = plan.nodes_up(|plan| {
                let schema = merge_schema(&plan.inputs());
                plan.map_expressions(|expr| expr.up(|expr| Ok(resolved(expr, &schema))))
            })?;
            plan = resolved.data;
            if !resolved.transformed {
                break;
            }
            plan = TypeCoercion::new().analyze(plan, config)?;
        }
        Ok(plan)
    }

    fn name(&self) -> &str {
        "lambda_types"
    }
}

/// `expr` with the types of its lambdas' parameters; one that is in another lambda gets them with that.
fn resolved(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match &expr {
        Expr::HigherOrderFunction(_) => {
            expr.clone().resolve_lambda_variables(schema).unwrap_or_else(|_| Transformed::no(expr))
        }
        _ => Transformed::no(expr),
    }
}

fn has_lambdas(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.each_node(|node| {
        node.each_expression(|expr| {
            found = found || expr.has(|expr| Ok(matches!(expr, Expr::HigherOrderFunction(_))))?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(found)
}
