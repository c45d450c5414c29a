//! Predicates and values of subqueries computed below the node that they stand in, where DataFusion has no plan for them in the node itself.
//!
//! * `DISTINCT ON`, in its keys, its order and what it selects. Keys that are named alike (`g::VARCHAR, g`) are computed there, too.
//! * An order by a query of a column that is not selected: that column is there until its rows are sorted.
//! * The condition of a join: over one side of it, below that side; over both, an inner join is filtered, and an outer one has its other side filtered for each row.
//!
//! This comes before DataFusion asks where subqueries stand.
//!
//! Not here: how they are computed in a projection.

use std::sync::Arc;

use datafusion::{
    common::{
        Column, NullEquality, Result, Spans, plan_err,
        tree_node::{Transformed, TransformedResult, TreeNodeRecursion},
    },
    config::ConfigOptions,
    logical_expr::{
        Distinct, DistinctOn, Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, Projection, Sort,
        Subquery, binary_expr, lit,
        utils::{conjunction, split_conjunction_owned},
    },
    optimizer::AnalyzerRule,
};

use super::{are_within, has_subquery, outer_references};
use crate::{
    computed::Computed,
    trees::{Nodes, Tree},
};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SubqueriesBelow;

impl AnalyzerRule for SubqueriesBelow {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.nodes_up_where(
            |node| matches!(node, LogicalPlan::Distinct(Distinct::On(_)) | LogicalPlan::Join(_) | LogicalPlan::Sort(_)),
            rewrite,
        )
        .data()
    }

    fn name(&self) -> &str {
        "subqueries_below"
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Distinct(Distinct::On(on)) => in_distinct(on),
        LogicalPlan::Join(join) if join.filter.as_ref().is_some_and(has_subquery) => match join.join_type {
            JoinType::Inner => above_join(join),
            JoinType::Left | JoinType::Right | JoinType::Full => in_join(join),
            _ => Ok(Transformed::no(LogicalPlan::Join(join))),
        },
        LogicalPlan::Sort(sort) if sort.expr.iter().any(|key| has_subquery(&key.expr)) => in_sort(sort),
        plan => Ok(Transformed::no(plan)),
    }
}

fn in_sort(sort: Sort) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Projection(selected) = &*sort.input else { return Ok(Transformed::no(LogicalPlan::Sort(sort))) };
    let mut outer = Vec::new();
    for key in &sort.expr {
        outer.extend(outer_columns(&key.expr)?);
    }
    let mut exprs = selected.expr.clone();
    for column in outer {
        let is_selected = are_within(std::slice::from_ref(&column), selected.schema.as_ref());
        if !is_selected && are_within(std::slice::from_ref(&column), selected.input.schema()) {
            let column = Expr::Column(column);
            if !exprs.contains(&column) {
                exprs.push(column);
            }
        }
    }
    if exprs.len() == selected.expr.len() {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    }
    // A column may be called as an output is.
    let Ok(with_columns) = Projection::try_new(exprs, Arc::clone(&selected.input)) else {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    };
    let columns: Vec<Expr> = selected.schema.columns().into_iter().map(Expr::Column).collect();
    let sorted = Sort { input: Arc::new(LogicalPlan::Projection(with_columns)), ..sort };
    let shown = Projection::try_new(columns, Arc::new(LogicalPlan::Sort(sorted)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(shown)))
}

/// The columns around the subqueries of `expr` that they read.
fn outer_columns(expr: &Expr) -> Result<Vec<Column>> {
    let mut outer = Vec::new();
    expr.each(|part| {
        match part {
            Expr::Exists(exists) => outer.extend(outer_references(&exists.subquery.subquery)),
            Expr::InSubquery(subquery) => outer.extend(outer_references(&subquery.subquery.subquery)),
            Expr::ScalarSubquery(subquery) => outer.extend(outer_references(&subquery.subquery)),
            Expr::SetComparison(comparison) => outer.extend(outer_references(&comparison.subquery.subquery)),
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(outer)
}

fn in_distinct(on: DistinctOn) -> Result<Transformed<LogicalPlan>> {
    let sorted = on.sort_expr.iter().flatten().map(|key| &key.expr);
    let named_alike: Vec<Expr> =
        on.on_expr.iter().filter(|key| is_named_as_another(key, &on.on_expr)).cloned().collect();
    let is_below = |expr: &Expr| has_subquery(expr) || named_alike.contains(expr);
    if !on.on_expr.iter().chain(&on.select_expr).chain(sorted).any(is_below) {
        return Ok(Transformed::no(LogicalPlan::Distinct(Distinct::On(on))));
    }
    let DistinctOn { mut on_expr, mut select_expr, mut sort_expr, input, .. } = on;
    let mut computed = Computed::default();
    let sorted = sort_expr.iter_mut().flatten().map(|key| &mut key.expr);
    for expr in on_expr.iter_mut().chain(sorted).filter(|expr| is_below(expr)) {
        *expr = computed.column(std::mem::take(expr));
    }
    for expr in select_expr.iter_mut().filter(|expr| has_subquery(expr)) {
        let (relation, name) = expr.qualified_name();
        let inner = std::mem::take(expr).unalias();
        *expr = computed.column(inner).alias_qualified(relation, name);
    }
    let on = DistinctOn::try_new(on_expr, select_expr, sort_expr, computed.below(input)?)?;
    Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(on))))
}

/// Whether `key`, which is no column, has the name of another of `keys`.
fn is_named_as_another(key: &Expr, keys: &[Expr]) -> bool {
    let name = key.schema_name().to_string();
    !matches!(key, Expr::Column(_)) && keys.iter().any(|other| other != key && other.schema_name().to_string() == name)
}

fn in_join(join: Join) -> Result<Transformed<LogicalPlan>> {
    let Join { left, right, on, filter, join_type, join_constraint, schema, null_equality, null_aware } = join;
    let (mut of_left, mut of_right) = (Computed::default(), Computed::default());
    let filter = filter.map(|filter| {
        filter.down(|expr| {
            if !is_subquery(&expr) {
                return Ok(Transformed::no(expr));
            }
            let mut outer = outer_columns(&expr)?;
            outer.extend(expr.column_refs().into_iter().cloned());
            let computed = if are_within(&outer, left.schema()) {
                &mut of_left
            } else if are_within(&outer, right.schema()) {
                &mut of_right
            } else {
                return Ok(Transformed::new(expr, false, TreeNodeRecursion::Jump));
            };
            Ok(Transformed::new(computed.column(expr), true, TreeNodeRecursion::Jump))
        })
    });
    let filter = filter.transpose()?;
    let filter = filter.map(|filter| filter.data);
    let (left, right) = (of_left.below(left)?, of_right.below(right)?);
    let join = Join::try_new(left, right, on, filter, join_type, join_constraint, null_equality, null_aware)?;
    let join = match join.filter.as_ref().is_some_and(has_subquery) {
        true => for_each_row(join)?,
        false => LogicalPlan::Join(join),
    };
    let columns: Vec<Expr> = schema.columns().into_iter().map(Expr::Column).collect();
    Ok(Transformed::yes(LogicalPlanBuilder::from(join).project(columns)?.build()?))
}

/// An inner join, the parts of whose condition with subqueries are a filter of its rows.
fn above_join(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let parts = join.filter.take().map(split_conjunction_owned).unwrap_or_default();
    let (above, within): (Vec<_>, Vec<_>) = parts.into_iter().partition(has_subquery);
    join.filter = conjunction(within);
    let filter = conjunction(above).expect("the condition has one");
    Ok(Transformed::yes(LogicalPlanBuilder::from(LogicalPlan::Join(join)).filter(filter)?.build()?))
}

/// An outer join, whose other side is a query of each row of the side that is kept.
fn for_each_row(join: Join) -> Result<LogicalPlan> {
    let Join { left, right, on, filter, join_type, null_equality, .. } = join;
    let (kept, other) = match join_type {
        JoinType::Left => (left, right),
        JoinType::Right => (right, left),
        _ => return plan_err!("a subquery in the condition of a FULL JOIN is over one of its sides"),
    };
    let equal = match null_equality {
        NullEquality::NullEqualsNothing => Operator::Eq,
        NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
    };
    let equal = on.into_iter().map(|(left, right)| binary_expr(left, equal, right));
    let condition = conjunction(equal.chain(filter)).expect("it has a subquery");
    let mut outer = Vec::new();
    let condition = condition.up(|expr| {
        let Expr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
        let Ok((_, field)) = kept.schema().qualified_field_from_column(column) else {
            return Ok(Transformed::no(expr));
        };
        let reference = Expr::OuterReferenceColumn(Arc::clone(field), column.clone());
        outer.push(reference.clone());
        Ok(Transformed::yes(reference))
    });
    let rows = LogicalPlanBuilder::from(Arc::unwrap_or_clone(other)).filter(condition.data()?)?.build()?;
    let rows = Subquery { subquery: Arc::new(rows), outer_ref_columns: outer, spans: Spans::new() };
    let kept = LogicalPlanBuilder::from(Arc::unwrap_or_clone(kept));
    kept.join_on(LogicalPlan::Subquery(rows), JoinType::Left, [lit(true)])?.build()
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_))
}
