//! Predicates and values of subqueries computed below the node that they stand in, where DataFusion has no plan for them in the node itself.
//!
//! * `DISTINCT ON`, in its keys, its order and what it selects.
//! * The condition of an outer join, where they are over one side of it.
//!
//! This comes before DataFusion asks where subqueries stand.
//!
//! Not here: how they are computed in a projection.

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    common::{
        Column, Result,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    config::ConfigOptions,
    logical_expr::{Distinct, DistinctOn, Expr, Join, LogicalPlan, LogicalPlanBuilder},
    optimizer::AnalyzerRule,
};

use super::{are_within, fresh, has_subquery, outer_references};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SubqueriesBelow;

impl AnalyzerRule for SubqueriesBelow {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(rewrite).data()
    }

    fn name(&self) -> &str {
        "subqueries_below"
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Distinct(Distinct::On(on)) => in_distinct(on),
        LogicalPlan::Join(join) if join.join_type.is_outer() && join.filter.as_ref().is_some_and(has_subquery) => {
            in_join(join)
        }
        plan => Ok(Transformed::no(plan)),
    }
}

/// Expressions that are computed below, and the names that they have there.
#[derive(Default)]
struct Computed(HashMap<Expr, Column>);

impl Computed {
    fn column(&mut self, expr: Expr) -> Expr {
        let column = self.0.entry(expr).or_insert_with(|| Column::new_unqualified(fresh("below")));
        Expr::Column(column.clone())
    }

    fn below(self, input: Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
        if self.0.is_empty() {
            return Ok(input);
        }
        let columns = input.schema().columns().into_iter().map(Expr::Column);
        let mut computed: Vec<_> = self.0.into_iter().collect();
        computed.sort_by(|(_, left), (_, right)| left.name.cmp(&right.name));
        let exprs: Vec<_> = columns.chain(computed.into_iter().map(|(expr, name)| expr.alias(name.name))).collect();
        Ok(Arc::new(LogicalPlanBuilder::from(input).project(exprs)?.build()?))
    }
}

fn in_distinct(on: DistinctOn) -> Result<Transformed<LogicalPlan>> {
    let sorted = on.sort_expr.iter().flatten().map(|key| &key.expr);
    if !on.on_expr.iter().chain(&on.select_expr).chain(sorted).any(has_subquery) {
        return Ok(Transformed::no(LogicalPlan::Distinct(Distinct::On(on))));
    }
    let DistinctOn { mut on_expr, mut select_expr, mut sort_expr, input, .. } = on;
    let mut computed = Computed::default();
    let sorted = sort_expr.iter_mut().flatten().map(|key| &mut key.expr);
    for expr in on_expr.iter_mut().chain(sorted).filter(|expr| has_subquery(expr)) {
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

fn in_join(join: Join) -> Result<Transformed<LogicalPlan>> {
    let Join { left, right, on, filter, join_type, join_constraint, schema, null_equality, null_aware } = join;
    let (mut of_left, mut of_right) = (Computed::default(), Computed::default());
    let filter = filter.map(|filter| {
        filter.transform_down(|expr| {
            if !is_subquery(&expr) {
                return Ok(Transformed::no(expr));
            }
            let mut outer = Vec::new();
            expr.apply(|part| {
                match part {
                    Expr::Column(column) => outer.push(column.clone()),
                    Expr::Exists(exists) => outer.extend(outer_references(&exists.subquery.subquery)),
                    Expr::InSubquery(subquery) => outer.extend(outer_references(&subquery.subquery.subquery)),
                    Expr::ScalarSubquery(subquery) => outer.extend(outer_references(&subquery.subquery)),
                    Expr::SetComparison(comparison) => {
                        outer.extend(outer_references(&comparison.subquery.subquery));
                    }
                    _ => {}
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
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
    let changed = filter.as_ref().is_some_and(|filter| filter.transformed);
    let filter = filter.map(|filter| filter.data);
    if !changed {
        return Ok(Transformed::no(LogicalPlan::Join(Join {
            left,
            right,
            on,
            filter,
            join_type,
            join_constraint,
            schema,
            null_equality,
            null_aware,
        })));
    }
    let (left, right) = (of_left.below(left)?, of_right.below(right)?);
    let join = Join::try_new(left, right, on, filter, join_type, join_constraint, null_equality, null_aware)?;
    let columns: Vec<Expr> = schema.columns().into_iter().map(Expr::Column).collect();
    Ok(Transformed::yes(LogicalPlanBuilder::from(LogicalPlan::Join(join)).project(columns)?.build()?))
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_))
}
