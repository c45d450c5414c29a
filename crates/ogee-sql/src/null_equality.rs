//! Equalities that NULL takes part in, kept apart from those it does not.
//!
//! A join of DataFusion's has one say for all of its keys whether NULL equals NULL. Two of its rules lose it: `EliminateCrossJoin` merges the keys of
//! neighbouring inner joins under the say of the topmost one, and `ExtractEquijoinPredicate` adds keys of `=` to those of `IS NOT DISTINCT FROM`. Rows
//! are lost by the one and won by the other. While these two run, `IS NOT DISTINCT FROM` is therefore no key of an inner join but part
//! of its filter. What is left when all rules of a pass are through becomes keys again ([`NullEqualityKeys`]); where a join has keys of both kinds, one of the two stays in its
//! filter.
//!
//! Not here: the order of joins, which makes keys of what became filters between relations (`ogee-planner`).

use std::sync::Arc;

use datafusion::{
    common::{NullEquality, tree_node::Transformed},
    error::Result,
    logical_expr::{BinaryExpr, Expr, Join, JoinType, LogicalPlan, Operator, utils::split_conjunction_owned},
    optimizer::{
        ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule, extract_equijoin_predicate::ExtractEquijoinPredicate,
    },
};

use crate::columns_first::ColumnsFirst;

/// DataFusion's rules, with keys of inner joins that are safe to merge, and columns first in what filters equate.
pub(crate) fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules = Optimizer::new().rules;
    let keys = ExtractEquijoinPredicate::new();
    for rule in rules.iter_mut().filter(|rule| rule.name() == keys.name()) {
        *rule = Arc::new(EqualityKeys::default());
    }
    rules.push(Arc::new(NullEqualityKeys { keys }));
    rules.push(Arc::new(ColumnsFirst));
    rules
}

/// Makes keys of equalities, and filters of the keys of inner joins for which NULL equals NULL.
#[derive(Debug, Default)]
struct EqualityKeys {
    keys: ExtractEquijoinPredicate,
}

impl OptimizerRule for EqualityKeys {
    fn name(&self) -> &str {
        "equality_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(mut join) = plan else { return Ok(Transformed::no(plan)) };
        if join.join_type != JoinType::Inner {
            // Nor is `=` a key beside others for which NULL equals NULL, such as those of a semi join that was an inner one.
            return match join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty() {
                true => Ok(Transformed::no(LogicalPlan::Join(join))),
                false => self.keys.rewrite(LogicalPlan::Join(join), config),
            };
        }
        let (aside, others): (Vec<Expr>, Vec<Expr>) =
            join.filter.take().into_iter().flat_map(split_conjunction_owned).partition(is_null_equality);
        join.filter = others.into_iter().reduce(Expr::and);
        let mut aside = aside;
        let has_keys = join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty();
        if has_keys {
            let keys = std::mem::take(&mut join.on).into_iter();
            aside.extend(keys.map(|(left, right)| {
                Expr::BinaryExpr(BinaryExpr::new(Box::new(left), Operator::IsNotDistinctFrom, Box::new(right)))
            }));
        }
        join.null_equality = NullEquality::NullEqualsNothing;
        let made = self.keys.rewrite(LogicalPlan::Join(join), config)?;
        let made = made.update_data(|plan| match plan {
            LogicalPlan::Join(join) => {
                LogicalPlan::Join(Join { filter: aside.into_iter().chain(join.filter).reduce(Expr::and), ..join })
            }
            other => other,
        });
        Ok(if has_keys { Transformed::yes(made.data) } else { made })
    }
}

/// Makes keys of what is left for them, of one kind for each join.
#[derive(Debug)]
struct NullEqualityKeys {
    keys: ExtractEquijoinPredicate,
}

impl OptimizerRule for NullEqualityKeys {
    fn name(&self) -> &str {
        "null_equality_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match &plan {
            LogicalPlan::Join(join) if join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty() => {
                Ok(Transformed::no(plan))
            }
            _ => self.keys.rewrite(plan, config),
        }
    }
}

fn is_null_equality(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryExpr(BinaryExpr { op: Operator::IsNotDistinctFrom, .. }))
}
