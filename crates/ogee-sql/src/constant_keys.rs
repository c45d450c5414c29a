//! Keys of inner joins of which one side is a constant: conditions beside the keys, before cross joins are looked for.
//!
//! `ON a.x = CASE WHEN b.y IS NULL THEN b.y END` is a key until it is known that the `CASE` is NULL. DataFusion's rule `eliminate_cross_join` takes a join apart by its keys, and loses one
//! that links no two tables: all pairs of rows were joined.
//!
//! Not here: what becomes of the conditions, which other rules push down.

use std::sync::Arc;

use datafusion::{
    common::{NullEquality, Result, tree_node::Transformed},
    logical_expr::{Expr, Join, JoinType, LogicalPlan, Operator, binary_expr, utils::conjunction},
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};

use crate::trees::Tree;

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// `rules`, of which the one that takes joins apart sees no such keys.
pub(crate) fn with_linking_keys(mut rules: Vec<Rule>) -> Vec<Rule> {
    for rule in rules.iter_mut().filter(|rule| rule.name() == "eliminate_cross_join") {
        *rule = Arc::new(LinkingKeys { rule: Arc::clone(rule) });
    }
    rules
}

#[derive(Debug)]
struct LinkingKeys {
    rule: Rule,
}

impl OptimizerRule for LinkingKeys {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        // The rule itself goes down through the plan.
        if !plan.has(|node| Ok(matches!(node, LogicalPlan::Join(join) if is_linking(join))))? {
            return self.rule.rewrite(plan, config);
        }
        let linking = plan.down(in_join)?;
        let rewritten = self.rule.rewrite(linking.data, config)?;
        Ok(if linking.transformed { Transformed::yes(rewritten.data) } else { rewritten })
    }
}

fn is_constant((left, right): &(Expr, Expr)) -> bool {
    !left.any_column_refs() || !right.any_column_refs()
}

/// Whether a key of `join` is a constant.
fn is_linking(join: &Join) -> bool {
    join.join_type == JoinType::Inner && join.on.iter().any(is_constant)
}

fn in_join(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Join(mut join) if is_linking(&join) => {
            let (constant, on) = std::mem::take(&mut join.on).into_iter().partition(is_constant);
            join.on = on;
            let operator = match join.null_equality {
                NullEquality::NullEqualsNothing => Operator::Eq,
                NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
            };
            let conditions: Vec<(Expr, Expr)> = constant;
            let conditions = conditions.into_iter().map(|(left, right)| binary_expr(left, operator, right));
            join.filter = conjunction(join.filter.take().into_iter().chain(conditions));
            let Join { left, right, on, filter, join_type, join_constraint, null_equality, null_aware, .. } = join;
            let join = Join::try_new(left, right, on, filter, join_type, join_constraint, null_equality, null_aware)?;
            Ok(Transformed::yes(LogicalPlan::Join(join)))
        }
        plan => Ok(Transformed::no(plan)),
    }
}
