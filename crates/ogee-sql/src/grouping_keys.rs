//! Keys of grouping sets computed below the grouping, under the names that they have there.
//!
//! Rules put expressions in other words and keep their names by giving the new ones aliases. DataFusion's do so for the sets as a whole, which then are none, and simplify what is
//! in one set and not in another. Columns stay as they are.
//!
//! Not here: keys of a grouping without sets.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use datafusion::{
    common::{
        Column, Result,
        tree_node::{Transformed, TransformedResult},
    },
    config::ConfigOptions,
    logical_expr::{Aggregate, Expr, GroupingSet, LogicalPlan, LogicalPlanBuilder, utils::grouping_set_to_exprlist},
    optimizer::AnalyzerRule,
};

use crate::{
    kept_names,
    trees::{Nodes, Tree},
};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct GroupingKeys;

impl AnalyzerRule for GroupingKeys {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.nodes_up_where(is_grouping_sets, rewrite).data()
    }

    fn name(&self) -> &str {
        "grouping_keys"
    }
}

fn is_grouping_sets(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Aggregate(aggregate) if matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_)]))
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
    let [Expr::GroupingSet(_)] = aggregate.group_expr.as_slice() else { return Ok(Transformed::no(plan)) };
    let mut taken: HashSet<String> =
        aggregate.input.schema().columns().iter().map(|column| column.flat_name()).collect();
    let mut computed: HashMap<Expr, Expr> = HashMap::new();
    let mut exprs: Vec<Expr> = aggregate.input.schema().columns().into_iter().map(Expr::Column).collect();
    for key in grouping_set_to_exprlist(&aggregate.group_expr)? {
        // What has the name of a column, such as a cast of it, stays.
        if matches!(key, Expr::Column(_)) || computed.contains_key(key) || !taken.insert(key.schema_name().to_string())
        {
            continue;
        }
        let (relation, name) = key.qualified_name();
        exprs.push(key.clone().unalias().alias_qualified(relation.clone(), name.clone()));
        computed.insert(key.clone(), Expr::Column(Column::new(relation, name)));
    }
    if computed.is_empty() {
        return Ok(Transformed::no(plan));
    }
    let LogicalPlan::Aggregate(Aggregate { input, group_expr, aggr_expr, .. }) = plan else {
        return Ok(Transformed::no(plan));
    };
    let in_column = |expr: Expr| computed.get(&expr).cloned().unwrap_or(expr);
    let in_set = |exprs: Vec<Expr>| exprs.into_iter().map(in_column).collect::<Vec<_>>();
    let group_expr = group_expr
        .into_iter()
        .map(|expr| match expr {
            Expr::GroupingSet(GroupingSet::Rollup(exprs)) => Expr::GroupingSet(GroupingSet::Rollup(in_set(exprs))),
            Expr::GroupingSet(GroupingSet::Cube(exprs)) => Expr::GroupingSet(GroupingSet::Cube(in_set(exprs))),
            Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => {
                Expr::GroupingSet(GroupingSet::GroupingSets(sets.into_iter().map(in_set).collect()))
            }
            other => other,
        })
        .collect();
    let input = Arc::new(LogicalPlanBuilder::from(input).project(exprs)?.build()?);
    let aggregate = LogicalPlan::Aggregate(Aggregate::try_new(input, group_expr, aggr_expr)?);
    // `grouping(key)` asks which of the keys it is.
    let named = kept_names::map_expressions(aggregate, |expr| {
        expr.down(|expr| match expr {
            Expr::AggregateFunction(mut call) if call.func.name() == "grouping" => {
                call.params.args = in_set(std::mem::take(&mut call.params.args));
                Ok(Transformed::yes(Expr::AggregateFunction(call)))
            }
            other => Ok(Transformed::no(other)),
        })
    })?;
    Ok(Transformed::yes(named.data))
}
