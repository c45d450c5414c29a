//! Laterals below laterals, and the schemas above them.
//!
//! DataFusion makes joins of laterals from the top, one of those that are below each other in a pass: until the next pass other rules lose the columns that the ones below
//! refer to, and where a subquery is left elsewhere in the plan there is no next pass. Here they become joins from the bottom, all at once.
//!
//! These joins have columns of their own. What is above keeps its schema where a subquery is left elsewhere in the plan: a window or a join then has fewer columns than its
//! inputs, which the next rule takes for an error.
//!
//! A rule that takes joins out whose columns nobody reads does not know what laterals read: `SELECT DISTINCT r.s FROM r LEFT JOIN v ON .., LATERAL (.. WHERE t.i = v.i)` lost its column
//! `v.i`. It waits until there are no laterals.
//!
//! Not here: how laterals become joins.

use std::sync::Arc;

use datafusion::{
    common::tree_node::{Transformed, TreeNodeRecursion},
    error::Result,
    logical_expr::{Join, JoinType, LogicalPlan},
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};

use crate::trees::{Nodes, Tree};

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// `rules`, of which that which makes joins of laterals starts at the bottom, with one behind it.
pub(crate) fn with_fresh_schemas(mut rules: Vec<Rule>) -> Vec<Rule> {
    for rule in rules.iter_mut().filter(|rule| rule.name() == "eliminate_join") {
        *rule = Arc::new(WithoutLaterals { rule: Arc::clone(rule) });
    }
    if let Some(laterals) = rules.iter().position(|rule| rule.name() == "decorrelate_lateral_join") {
        rules[laterals] = Arc::new(FromTheBottom { rule: Arc::clone(&rules[laterals]) });
        rules.insert(laterals + 1, Arc::new(FreshSchemas));
    }
    rules
}

#[derive(Debug)]
struct FromTheBottom {
    rule: Rule,
}

impl OptimizerRule for FromTheBottom {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let rewritten = self.rule.rewrite(plan, config)?;
        // It jumps over what is below, which is done already.
        Ok(Transformed::new(rewritten.data, rewritten.transformed, TreeNodeRecursion::Continue))
    }
}

#[derive(Debug)]
struct WithoutLaterals {
    rule: Rule,
}

impl OptimizerRule for WithoutLaterals {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan.has(|node| Ok(matches!(node, LogicalPlan::Subquery(_))))? {
            true => Ok(Transformed::no(plan)),
            false => self.rule.rewrite(plan, config),
        }
    }
}

#[derive(Debug)]
struct FreshSchemas;

impl OptimizerRule for FreshSchemas {
    fn name(&self) -> &str {
        "fresh_schemas"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        None
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut any_stale = false;
        plan.each_node(|node| {
            any_stale |= is_stale(node);
            Ok(if any_stale { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        match any_stale {
            true => plan.nodes_up(|node| Ok(Transformed::yes(node.recompute_schema()?))),
            false => Ok(Transformed::no(plan)),
        }
    }
}

fn is_stale(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Window(window) => {
            window.schema.fields().len() != window.input.schema().fields().len() + window.window_expr.len()
        }
        LogicalPlan::Join(Join { left, right, join_type, schema, .. }) => {
            use JoinType::{Full, Inner, Left, Right};
            let columns = left.schema().fields().len() + right.schema().fields().len();
            matches!(join_type, Inner | Left | Right | Full) && schema.fields().len() != columns
        }
        _ => false,
    }
}
