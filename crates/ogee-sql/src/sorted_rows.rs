//! Aggregates that keep rows in an order, over rows that a query in `FROM` has sorted.
//!
//! `SELECT list(x) FROM (SELECT x FROM t ORDER BY y)` gives the list in that order, as in DuckDB. A plan need not keep the order of its rows for an aggregate that asks for none, so the
//! aggregate is told to ask: the keys of the sort become its own `ORDER BY`, through what is between them.
//!
//! Not here: the order of a query's own rows, which the sort below its projections and filters gives; aggregates that name an order.

use std::sync::Arc;

use datafusion::{
    common::{
        Column, Result,
        tree_node::{Transformed, TransformedResult},
    },
    config::ConfigOptions,
    logical_expr::{Aggregate, Expr, Filter, Limit, LogicalPlan, Projection, SubqueryAlias, expr::Sort as SortExpr},
    optimizer::AnalyzerRule,
};

use crate::{
    kept_names,
    trees::{Nodes, Tree},
};

/// Aggregates whose value depends on the order of rows.
const ORDERED: [&str; 5] = ["array_agg", "string_agg", "first_value", "last_value", "nth_value"];

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SortedRows;

impl AnalyzerRule for SortedRows {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.nodes_up_where(
            |node| matches!(node, LogicalPlan::Aggregate(_)),
            |plan| {
                let LogicalPlan::Aggregate(aggregate) = plan else { return Ok(Transformed::no(plan)) };
                let asks =
                    aggregate.aggr_expr.iter().any(|expr| matches!(expr.has(|expr| Ok(is_open(expr))), Ok(true)));
                let Some((input, keys)) = asks.then(|| sorted(&aggregate.input)).transpose()?.flatten() else {
                    return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
                };
                let Aggregate { group_expr, aggr_expr, .. } = aggregate;
                let plan = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(input), group_expr, aggr_expr)?);
                kept_names::map_expressions(plan, |expr| {
                    expr.up(|expr| match expr {
                        Expr::AggregateFunction(mut call) if is_open(&Expr::AggregateFunction(call.clone())) => {
                            call.params.order_by.clone_from(&keys);
                            Ok(Transformed::yes(Expr::AggregateFunction(call)))
                        }
                        expr => Ok(Transformed::no(expr)),
                    })
                })
            },
        )
        .data()
    }

    fn name(&self) -> &str {
        "sorted_rows"
    }
}

/// Whether it is an aggregate whose value depends on an order that it does not name.
fn is_open(expr: &Expr) -> bool {
    let Expr::AggregateFunction(call) = expr else { return false };
    ORDERED.contains(&call.func.name()) && call.params.order_by.is_empty() && !call.params.distinct
}

/// `plan`, with columns behind its own if need be, and the keys over its columns that its rows are sorted by; `None` if it is not known to be sorted.
pub(crate) fn sorted(plan: &LogicalPlan) -> Result<Option<(LogicalPlan, Vec<SortExpr>)>> {
    Ok(match plan {
        LogicalPlan::Sort(sort) if sort.expr.iter().any(|key| key.expr.is_volatile()) => None,
        LogicalPlan::Sort(sort) => Some((plan.clone(), sort.expr.clone())),
        LogicalPlan::Limit(limit) => sorted(&limit.input)?.map(|(input, keys)| {
            let limit = Limit { skip: limit.skip.clone(), fetch: limit.fetch.clone(), input: Arc::new(input) };
            (LogicalPlan::Limit(limit), keys)
        }),
        LogicalPlan::Filter(filter) => match sorted(&filter.input)? {
            Some((input, keys)) => {
                let filter = Filter::try_new(filter.predicate.clone(), Arc::new(input))?;
                Some((LogicalPlan::Filter(filter), keys))
            }
            None => None,
        },
        LogicalPlan::Projection(projection) => match sorted(&projection.input)? {
            Some((input, keys)) => Some(with_keys(projection.expr.clone(), input, keys)?),
            None => None,
        },
        LogicalPlan::SubqueryAlias(alias) => match sorted(&alias.input)? {
            Some((input, keys)) => {
                let all = input.schema().columns().into_iter().map(Expr::Column).collect();
                let (input, keys) = with_keys(all, input, keys)?;
                let input = LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(input), alias.alias.clone())?);
                let named = |key: SortExpr| match key.expr {
                    Expr::Column(column) => {
                        let column = Column::new(Some(alias.alias.clone()), column.name);
                        SortExpr::new(Expr::Column(column), key.asc, key.nulls_first)
                    }
                    _ => key,
                };
                Some((input, keys.into_iter().map(named).collect()))
            }
            None => None,
        },
        _ => None,
    })
}

/// A projection to `exprs` and, behind them, to those of `keys` that are not among them; the keys become its columns.
fn with_keys(mut exprs: Vec<Expr>, input: LogicalPlan, keys: Vec<SortExpr>) -> Result<(LogicalPlan, Vec<SortExpr>)> {
    let mut at = Vec::with_capacity(keys.len());
    for key in &keys {
        let found = exprs.iter().position(|expr| expr.clone().unalias_nested().data == key.expr);
        at.push(found.unwrap_or_else(|| {
            exprs.push(key.expr.clone().alias(format!("ogee_order_{}", exprs.len())));
            exprs.len() - 1
        }));
    }
    let projection = Projection::try_new(exprs, Arc::new(input))?;
    let columns = projection.schema.columns();
    let keys = keys
        .into_iter()
        .zip(at)
        .map(|(key, at)| SortExpr::new(Expr::Column(columns[at].clone()), key.asc, key.nulls_first))
        .collect();
    Ok((LogicalPlan::Projection(projection), keys))
}
