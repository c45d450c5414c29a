//! Aggregates in subqueries that are of the rows of a query around: `(SELECT max(x) + sum(t.y) FROM u)` over rows of `t`.
//!
//! An aggregate belongs to the innermost query that it has a column of. DataFusion aggregates in the subquery, once for each outer row. An analyzer rule has the query around it aggregate, where an
//! aggregation is made if there is none, and the subquery read the value, as it reads outer columns. A subquery that is left without an aggregate gives its rows.
//!
//! Not here: subqueries that are such a value and nothing else (`syntax::outer_aggregates`).

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    arrow::datatypes::FieldRef,
    common::{
        Column, DFSchema, Result, plan_err,
        tree_node::{Transformed, TransformedResult, TreeNodeRecursion},
    },
    config::ConfigOptions,
    functions_aggregate::count::count_udaf,
    logical_expr::{
        Aggregate, Expr, ExprSchemable, Filter, LogicalPlan, Projection, Subquery, Window,
        expr::{Exists, InSubquery, SetComparison},
        lit,
    },
    optimizer::AnalyzerRule,
};

use super::{fresh, has_subquery};
use crate::{
    kept_names,
    trees::{Nodes, Tree},
};

/// See the module; before types are coerced.
#[derive(Debug, Default)]
pub(crate) struct OuterAggregates;

impl AnalyzerRule for OuterAggregates {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let is_one = |node: &LogicalPlan| match node {
            LogicalPlan::Aggregate(aggregate) => aggregate.aggr_expr.iter().any(is_outer),
            _ => false,
        };
        let mut any = false;
        plan.each_node(|node| {
            any |= is_one(node);
            Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if any { plan.nodes_up(rewrite).data() } else { Ok(plan) }
    }

    fn name(&self) -> &str {
        "outer_aggregates"
    }
}

/// Whether `call` is over columns of queries around alone.
fn is_outer(call: &Expr) -> bool {
    call.contains_outer() && !call.any_column_refs()
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let is_having = match &plan {
        LogicalPlan::Projection(_) => false,
        LogicalPlan::Filter(_) => true,
        _ => return Ok(Transformed::no(plan)),
    };
    let mut any = false;
    plan.each_expression(|expr| {
        any |= has_subquery(expr);
        Ok(TreeNodeRecursion::Continue)
    })?;
    let input = plan.inputs()[0];
    let aggregate = aggregate_below(input);
    if !any || is_having && aggregate.is_none() {
        return Ok(Transformed::no(plan));
    }
    let base = Arc::clone(aggregate.map_or(input.schema(), |aggregate| aggregate.input.schema()));
    let mut lifted = Lifted { base: &base, aggregates: Vec::new(), columns: HashMap::new() };
    let rewritten = kept_names::map_expressions_where(plan, has_subquery, |expr| expr.up(|expr| lifted.in_expr(expr)))?;
    if lifted.aggregates.is_empty() {
        return Ok(rewritten);
    }
    let aggregates = lifted.aggregates;
    Ok(Transformed::yes(match rewritten.data {
        LogicalPlan::Filter(Filter { predicate, input, .. }) => {
            let input = with_aggregates(Arc::unwrap_or_clone(input), aggregates)?;
            check([&predicate], &base, input.schema())?;
            LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(input))?)
        }
        LogicalPlan::Projection(Projection { expr, input, .. }) => {
            let input = with_aggregates(Arc::unwrap_or_clone(input), aggregates)?;
            check(&expr, &base, input.schema())?;
            LogicalPlan::Projection(Projection::try_new(expr, Arc::new(input))?)
        }
        other => other,
    }))
}

/// The aggregation of the query that `plan` is a part of, below its windows and conditions.
fn aggregate_below(plan: &LogicalPlan) -> Option<&Aggregate> {
    match plan {
        LogicalPlan::Filter(filter) => aggregate_below(&filter.input),
        LogicalPlan::Window(window) => aggregate_below(&window.input),
        LogicalPlan::Aggregate(aggregate) => Some(aggregate),
        _ => None,
    }
}

/// `plan`, what a query selects from, with `aggregates` beside those that it has.
fn with_aggregates(plan: LogicalPlan, aggregates: Vec<Expr>) -> Result<LogicalPlan> {
    let aggregate = match plan {
        LogicalPlan::Filter(filter) if aggregate_below(&filter.input).is_some() => {
            let input = with_aggregates(Arc::unwrap_or_clone(filter.input), aggregates)?;
            return Ok(LogicalPlan::Filter(Filter::try_new(filter.predicate, Arc::new(input))?));
        }
        LogicalPlan::Window(window) if aggregate_below(&window.input).is_some() => {
            let input = with_aggregates(Arc::unwrap_or_clone(window.input), aggregates)?;
            return Ok(LogicalPlan::Window(Window::try_new(window.window_expr, Arc::new(input))?));
        }
        LogicalPlan::Window(_) => {
            return plan_err!(
                "an aggregate of outer columns beside windows of that query is not supported; compute it in a query in FROM"
            );
        }
        LogicalPlan::Aggregate(Aggregate { input, group_expr, aggr_expr, .. }) => {
            Aggregate::try_new(input, group_expr, aggr_expr.into_iter().chain(aggregates).collect())?
        }
        other => Aggregate::try_new(Arc::new(other), Vec::new(), aggregates)?,
    };
    Ok(LogicalPlan::Aggregate(aggregate))
}

/// # Errors
/// If one of `exprs` reads a column of `base`, whose rows are aggregated, that there is not in `schema` any more.
fn check<'a>(exprs: impl IntoIterator<Item = &'a Expr>, base: &DFSchema, schema: &DFSchema) -> Result<()> {
    let mut missing = None;
    let mut look = |column: &Column| {
        if base.has_column(column) && !schema.has_column(column) && missing.is_none() {
            missing = Some(column.flat_name());
        }
    };
    for expr in exprs {
        expr.each(|expr| {
            match expr {
                Expr::Column(column) => look(column),
                expr => {
                    if let Some(subquery) = subquery_of(expr) {
                        let outer = subquery.subquery.all_out_ref_exprs();
                        outer.iter().for_each(|outer| {
                            if let Expr::OuterReferenceColumn(_, column) = outer {
                                look(column);
                            }
                        });
                    }
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    match missing {
        Some(column) => {
            plan_err!("column {column} must be in GROUP BY, or within an aggregate such as any_value({column})")
        }
        None => Ok(()),
    }
}

fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::Exists(exists) => Some(&exists.subquery),
        Expr::InSubquery(within) => Some(&within.subquery),
        Expr::SetComparison(comparison) => Some(&comparison.subquery),
        Expr::ScalarSubquery(subquery) => Some(subquery),
        _ => None,
    }
}

/// Aggregates that were taken out of subqueries of a query.
struct Lifted<'a> {
    /// What the query selects from.
    base: &'a DFSchema,
    aggregates: Vec<Expr>,
    /// What subqueries read in their place, by the names that they had.
    columns: HashMap<String, (FieldRef, Column)>,
}

impl Lifted<'_> {
    fn in_expr(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        let Some(subquery) = subquery_of(&expr) else { return Ok(Transformed::no(expr)) };
        let Some(subquery) = self.in_subquery(subquery)? else { return Ok(Transformed::no(expr)) };
        Ok(Transformed::yes(match expr {
            Expr::Exists(exists) => Expr::Exists(Exists { subquery, ..exists }),
            Expr::InSubquery(within) => Expr::InSubquery(InSubquery { subquery, ..within }),
            Expr::SetComparison(comparison) => Expr::SetComparison(SetComparison { subquery, ..comparison }),
            _ => Expr::ScalarSubquery(subquery),
        }))
    }

    /// `subquery` without those of its aggregates that are of the query around; `None` if there are none.
    fn in_subquery(&mut self, subquery: &Subquery) -> Result<Option<Subquery>> {
        let mut has_any = false;
        // A condition on the one row of an aggregation is still one of a row.
        let mut keeps_row = false;
        subquery.subquery.each_node(|node| {
            match node {
                LogicalPlan::Aggregate(aggregate) => {
                    has_any |= aggregate.aggr_expr.iter().any(|call| self.is_ours(call));
                }
                LogicalPlan::Filter(filter) => keeps_row |= matches!(&*filter.input, LogicalPlan::Aggregate(_)),
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        if !has_any {
            return Ok(None);
        }
        let plan = subquery.subquery.as_ref().clone().nodes_up(|node| self.in_node(node, keeps_row)).data()?;
        let outer_ref_columns = plan.all_out_ref_exprs();
        Ok(Some(Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: subquery.spans.clone() }))
    }

    /// Whether `call` is of the query around: no query between has any of its columns.
    fn is_ours(&self, call: &Expr) -> bool {
        is_outer(call)
            && call
                .has(|part| Ok(matches!(part, Expr::OuterReferenceColumn(_, column) if self.base.has_column(column))))
                .expect("it never fails")
    }

    fn in_node(&mut self, node: LogicalPlan, keeps_row: bool) -> Result<Transformed<LogicalPlan>> {
        match node {
            LogicalPlan::Aggregate(aggregate) if aggregate.aggr_expr.iter().any(|call| self.is_ours(call)) => {
                let Aggregate { input, group_expr, aggr_expr, .. } = aggregate;
                let mut kept = Vec::new();
                for call in aggr_expr {
                    if self.is_ours(&call) {
                        self.take(call, input.schema())?;
                    } else {
                        kept.push(call);
                    }
                }
                if keeps_row && group_expr.is_empty() && kept.is_empty() {
                    kept.push(count_udaf().call(vec![lit(1i64)]).alias(fresh("rows")));
                }
                if group_expr.is_empty() && kept.is_empty() {
                    return Ok(Transformed::yes(Arc::unwrap_or_clone(input)));
                }
                Ok(Transformed::yes(LogicalPlan::Aggregate(Aggregate::try_new(input, group_expr, kept)?)))
            }
            LogicalPlan::Subquery(subquery) => {
                let outer_ref_columns = subquery.subquery.all_out_ref_exprs();
                Ok(Transformed::yes(LogicalPlan::Subquery(Subquery { outer_ref_columns, ..subquery })))
            }
            node => {
                let is_taken = |expr: &Expr| match expr {
                    Expr::Column(column) => column.relation.is_none() && self.columns.contains_key(&column.name),
                    _ => false,
                };
                let read = kept_names::map_expressions_where(node, is_taken, |expr| {
                    expr.up(|expr| {
                        let Expr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
                        match self.columns.get(&column.name).filter(|_| column.relation.is_none()) {
                            Some((field, of)) => {
                                Ok(Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(field), of.clone())))
                            }
                            None => Ok(Transformed::no(expr)),
                        }
                    })
                })?;
                Ok(Transformed::yes(read.data.recompute_schema()?))
            }
        }
    }

    /// Has the query around compute `call`, which is over `schema`.
    fn take(&mut self, call: Expr, schema: &DFSchema) -> Result<()> {
        let name = call.schema_name().to_string();
        if self.columns.contains_key(&name) {
            return Ok(());
        }
        let column = fresh("aggregate");
        let field = call.to_field(schema)?.1;
        let field = Arc::new(field.as_ref().clone().with_name(&column).with_nullable(true));
        let own = call.unalias().up(|expr| match expr {
            Expr::OuterReferenceColumn(_, column) if self.base.has_column(&column) => {
                Ok(Transformed::yes(Expr::Column(column)))
            }
            other => Ok(Transformed::no(other)),
        });
        self.aggregates.push(own.data()?.alias(&column));
        self.columns.insert(name, (field, Column::new_unqualified(column)));
        Ok(())
    }
}
