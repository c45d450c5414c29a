//! The values of outer columns that there are, and plans evaluated for each of them.
//!
//! A plan that refers to outer columns becomes one that has them as columns of its own: it is joined with their domain as far down as possible, and every operator above keeps rows
//! of different values apart.

use std::sync::Arc;

use datafusion::{
    common::{
        Column, DFSchema, NullEquality, Result, ScalarValue,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    functions::core::expr_fn::coalesce,
    logical_expr::{
        Aggregate, Distinct, Expr, ExprFunctionExt, Join, JoinType, Limit, LogicalPlan, LogicalPlanBuilder, Operator,
        SortExpr, Subquery, binary_expr, lit, select_expr::SelectExpr,
    },
};

use super::{can_pull_up_from, fresh, refuse_outer_aggregates};
use crate::{ranks::row_number, sorted_rows};

/// The values of outer columns.
pub(super) struct Domain {
    input: LogicalPlan,
    outer: Vec<Column>,
}

/// A plan, and where the outer columns are among its columns.
type Unnested = (LogicalPlan, Vec<Column>);

impl Domain {
    /// Of the columns of `input` that `subquery` refers to.
    pub(super) fn of(subquery: &Subquery, input: &LogicalPlan) -> Result<Self> {
        let mut outer = Vec::new();
        collect(&subquery.subquery, input.schema(), &mut outer)?;
        Ok(Self { input: input.clone(), outer })
    }

    /// The columns, as they are in the outer rows.
    pub(super) fn outer_columns(&self) -> Vec<Column> {
        self.outer.clone()
    }

    /// The values, each once, and the columns that they are in.
    fn values(&self) -> Result<Unnested> {
        let alias = fresh("domain");
        let columns: Vec<Expr> =
            self.outer.iter().map(|column| Expr::Column(column.clone()).alias(fresh("outer"))).collect();
        let values =
            LogicalPlanBuilder::from(self.input.clone()).project(columns)?.distinct()?.alias(alias)?.build()?;
        let columns = values.schema().columns();
        Ok((values, columns))
    }

    fn is_in(&self, plan: &LogicalPlan) -> bool {
        let mut found = Vec::new();
        // The visitor never fails.
        let _ = collect(plan, self.input.schema(), &mut found);
        !found.is_empty()
    }

    /// `expr` with the outer columns where they are in the plan below.
    fn resolved(&self, expr: Expr, columns: &[Column]) -> Result<Expr> {
        let resolved = expr.transform_up(|expr| {
            let Expr::OuterReferenceColumn(_, column) = &expr else { return Ok(Transformed::no(expr)) };
            let place = self.outer.iter().position(|outer| self.is_same(outer, column));
            Ok(place.map_or_else(
                || Transformed::no(expr.clone()),
                |place| Transformed::yes(Expr::Column(columns[place].clone())),
            ))
        });
        resolved.data()
    }

    fn is_same(&self, a: &Column, b: &Column) -> bool {
        let index = |column: &Column| self.input.schema().index_of_column(column).ok();
        index(a).is_some() && index(a) == index(b)
    }

    fn resolved_all(&self, exprs: impl IntoIterator<Item = Expr>, columns: &[Column]) -> Result<Vec<Expr>> {
        exprs.into_iter().map(|expr| self.resolved(expr, columns)).collect()
    }

    /// `plan` for each of the values; `None` where an operator keeps it from that.
    pub(super) fn unnest(&self, plan: &LogicalPlan) -> Result<Option<Unnested>> {
        if self.outer.is_empty() {
            return Ok(None);
        }
        if !self.is_in(plan) {
            let (values, columns) = self.values()?;
            let both = LogicalPlanBuilder::from(plan.clone()).cross_join(values)?.build()?;
            return Ok(Some((both, columns)));
        }
        let all = |columns: &[Column]| columns.iter().cloned().map(Expr::Column).collect::<Vec<_>>();
        Ok(Some(match plan {
            LogicalPlan::Projection(projection) => {
                let Some((input, columns)) = self.unnest(&projection.input)? else { return Ok(None) };
                let names = projection.expr.iter().map(|expr| expr.qualified_name());
                let exprs = projection.expr.iter().cloned().zip(names).map(|(expr, (relation, name))| {
                    let new = self.resolved(expr.clone(), &columns)?;
                    Ok(if new == expr { new } else { new.alias_qualified(relation, name) })
                });
                let mut exprs = exprs.collect::<Result<Vec<_>>>()?;
                exprs.extend(all(&columns));
                (LogicalPlanBuilder::from(input).project(exprs)?.build()?, columns)
            }
            LogicalPlan::Filter(filter) => {
                let Some((input, columns)) = self.unnest(&filter.input)? else { return Ok(None) };
                let predicate = self.resolved(filter.predicate.clone(), &columns)?;
                (LogicalPlanBuilder::from(input).filter(predicate)?.build()?, columns)
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let Some((input, columns)) = self.unnest(&alias.input)? else { return Ok(None) };
                let plan = LogicalPlanBuilder::from(input).alias(alias.alias.clone())?.build()?;
                let of = |column: Column| Column::new(Some(alias.alias.clone()), column.name);
                (plan, columns.into_iter().map(of).collect())
            }
            LogicalPlan::Subquery(subquery) => return self.unnest(&subquery.subquery),
            // An order alone is not seen from outside.
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => return self.unnest(&sort.input),
            LogicalPlan::Limit(limit) => return self.first_rows(limit),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let Some((input, columns)) = self.unnest(input)? else { return Ok(None) };
                (LogicalPlanBuilder::from(input).distinct()?.build()?, columns)
            }
            LogicalPlan::Aggregate(aggregate) => return self.aggregate(aggregate),
            LogicalPlan::Window(window) => {
                let Some((input, columns)) = self.unnest(&window.input)? else { return Ok(None) };
                let mut calls = Vec::new();
                for call in &window.window_expr {
                    let name = call.schema_name().to_string();
                    let within = self.resolved(call.clone(), &columns)?.transform_up(|expr| {
                        let Expr::WindowFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
                        call.params.partition_by.extend(all(&columns));
                        Ok(Transformed::yes(Expr::WindowFunction(call)))
                    });
                    // A window is made of nothing but calls with one name each.
                    calls.push(within.data()?.unalias_nested().data.alias(name));
                }
                (LogicalPlanBuilder::from(input).window(calls)?.build()?, columns)
            }
            LogicalPlan::Union(union) => {
                let mut branches = Vec::new();
                for input in &union.inputs {
                    let Some((branch, columns)) = self.unnest(input)? else { return Ok(None) };
                    let names = union.schema.fields().iter().map(|field| field.name().clone());
                    let own = input.schema().columns().into_iter().zip(names);
                    let mut exprs: Vec<Expr> = own.map(|(column, name)| Expr::Column(column).alias(name)).collect();
                    let keys = (0..columns.len()).map(|nth| format!("__ogee_key_{nth}"));
                    exprs.extend(columns.into_iter().zip(keys).map(|(column, key)| Expr::Column(column).alias(key)));
                    branches.push(LogicalPlanBuilder::from(branch).project(exprs)?.build()?);
                }
                let mut branches = branches.into_iter();
                let first = LogicalPlanBuilder::from(branches.next().expect("a union has inputs"));
                let plan = branches.try_fold(first, |plan, branch| plan.union(branch))?.build()?;
                let at = plan.schema().fields().len() - self.outer.len();
                let columns = plan.schema().columns().split_off(at);
                (plan, columns)
            }
            LogicalPlan::Join(join) => return self.join(join),
            LogicalPlan::Unnest(unnest) => {
                let Some((input, columns)) = self.unnest(&unnest.input)? else { return Ok(None) };
                let plan = LogicalPlanBuilder::from(input)
                    .unnest_columns_with_options(unnest.exec_columns.clone(), unnest.options.clone())?
                    .build()?;
                (plan, columns)
            }
            _ => return Ok(None),
        }))
    }

    /// The first rows for each value, in the order that they are asked for in.
    fn first_rows(&self, limit: &Limit) -> Result<Option<Unnested>> {
        let count = |expr: &Option<Box<Expr>>| {
            let Some(expr) = expr.as_deref() else { return Some(None) };
            let count = match expr {
                Expr::Cast(cast) => &cast.expr,
                count => count,
            };
            match count {
                Expr::Literal(ScalarValue::Int64(count), _) => Some(count.filter(|count| *count >= 0)),
                _ => None,
            }
        };
        let (Some(skip), Some(fetch)) = (count(&limit.skip), count(&limit.fetch)) else { return Ok(None) };
        let skip = skip.unwrap_or(0);
        let (input, order) = match &*limit.input {
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => (LogicalPlan::clone(&sort.input), sort.expr.clone()),
            // That of a query in FROM, or of this one before its columns are chosen.
            input => sorted_rows::sorted(input)?.unwrap_or_else(|| (input.clone(), Vec::new())),
        };
        // The keys of such an order are behind the columns.
        let keys = limit.input.schema().fields().len()..input.schema().fields().len();
        let Some((rows, columns)) = self.unnest(&input)? else { return Ok(None) };
        let order = order
            .iter()
            .map(|sort| Ok(SortExpr { expr: self.resolved(sort.expr.clone(), &columns)?, ..sort.clone() }))
            .collect::<Result<Vec<_>>>()?;
        let name = fresh("number");
        let partition: Vec<Expr> = columns.iter().cloned().map(Expr::Column).collect();
        let number = row_number().partition_by(partition).order_by(order).build()?.alias(&name);
        let all = rows.schema().columns().into_iter().enumerate().filter(|(at, _)| !keys.contains(at));
        let all: Vec<Expr> = all.map(|(_, column)| Expr::Column(column)).collect();
        let numbered = LogicalPlanBuilder::from(rows).window([number])?;
        let number = || Expr::Column(Column::from_name(&name));
        let mut wanted = number().gt(lit(skip));
        if let Some(fetch) = fetch {
            wanted = wanted.and(number().lt_eq(lit(skip.saturating_add(fetch))));
        }
        Ok(Some((numbered.filter(wanted)?.project(all)?.build()?, columns)))
    }

    /// A group more for each value; without groups, a row for each.
    fn aggregate(&self, aggregate: &Aggregate) -> Result<Option<Unnested>> {
        if aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
            return Ok(None);
        }
        let Some((input, columns)) = self.unnest(&aggregate.input)? else { return Ok(None) };
        let name = |(expr, new): (&Expr, Expr)| {
            let (relation, name) = expr.qualified_name();
            if new == *expr { new } else { new.alias_qualified(relation, name) }
        };
        let mut groups = self.resolved_all(aggregate.group_expr.iter().cloned(), &columns)?;
        groups = aggregate.group_expr.iter().zip(groups).map(name).collect();
        groups.extend(columns.iter().cloned().map(Expr::Column));
        let calls = self.resolved_all(aggregate.aggr_expr.iter().cloned(), &columns)?;
        let calls: Vec<Expr> = aggregate.aggr_expr.iter().zip(calls).map(name).collect();
        let grouped = LogicalPlanBuilder::from(input).aggregate(groups, calls)?.build()?;
        if !aggregate.group_expr.is_empty() {
            return Ok(Some((grouped, columns)));
        }
        let (values, keys) = self.values()?;
        let at = grouped.schema().fields().len() - aggregate.aggr_expr.len();
        let results = grouped.schema().columns().split_off(at);
        let with_empty = LogicalPlanBuilder::from(values).join_detailed(
            grouped,
            JoinType::Left,
            (keys.clone(), columns),
            None,
            NullEquality::NullEqualsNull,
        )?;
        // What there is of no rows.
        let exprs = results.into_iter().zip(&aggregate.aggr_expr).map(|(column, call)| {
            let (relation, name) = call.qualified_name();
            let counts = matches!(unaliased(call), Expr::AggregateFunction(call)
                if matches!(call.func.name(), "count" | "approx_distinct" | "regr_count"));
            let result = Expr::Column(column);
            if counts { coalesce(vec![result, lit(0i64)]).alias_qualified(relation, name) } else { result }
        });
        let mut exprs: Vec<Expr> = exprs.collect();
        exprs.extend(keys.iter().cloned().map(Expr::Column));
        Ok(Some((with_empty.project(exprs.into_iter().map(SelectExpr::from))?.build()?, keys)))
    }

    fn join(&self, join: &Join) -> Result<Option<Unnested>> {
        use JoinType::{Inner, Left, LeftAnti, LeftMark, LeftSemi};
        if !matches!(join.join_type, Inner | Left | LeftSemi | LeftAnti | LeftMark) {
            return Ok(None);
        }
        let right_depends = self.is_in(&join.right);
        // Rows of the left side come out with the values, unless it is an inner join whose right side has them.
        let only_right = join.join_type == Inner && right_depends && !self.is_in(&join.left);
        let (left, left_columns) = match only_right {
            true => (join.left.as_ref().clone(), None),
            false => {
                let Some((left, columns)) = self.unnest(&join.left)? else { return Ok(None) };
                (left, Some(columns))
            }
        };
        let (right, right_columns) = match right_depends {
            false => (join.right.as_ref().clone(), None),
            true => {
                let Some((right, columns)) = self.unnest(&join.right)? else { return Ok(None) };
                (right, Some(columns))
            }
        };
        let columns = left_columns.clone().or_else(|| right_columns.clone()).expect("one side has them");
        let mut filter = Vec::new();
        for (a, b) in &join.on {
            let equal = if join.null_equality == NullEquality::NullEqualsNull {
                Operator::IsNotDistinctFrom
            } else {
                Operator::Eq
            };
            filter.push(binary_expr(a.clone(), equal, b.clone()));
        }
        filter.extend(join.filter.clone());
        let mut filter = self.resolved_all(filter, &columns)?;
        if let (Some(left), Some(right)) = (&left_columns, &right_columns) {
            for (a, b) in left.iter().zip(right) {
                let (a, b) = (Expr::Column(a.clone()), Expr::Column(b.clone()));
                filter.push(binary_expr(a, Operator::IsNotDistinctFrom, b));
            }
        }
        let plan = LogicalPlanBuilder::from(left).join_on(right, join.join_type, filter)?.build()?;
        Ok(Some((plan, columns)))
    }
}

fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}

/// The columns of `schema` that `plan` refers to from within, into `found`.
fn collect(plan: &LogicalPlan, schema: &DFSchema, found: &mut Vec<Column>) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::OuterReferenceColumn(_, column) = expr
                    && let Ok(index) = schema.index_of_column(column)
                {
                    let column = Column::from(schema.qualified_field(index));
                    if !found.contains(&column) {
                        found.push(column);
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(())
}

/// A join whose right side refers to the left, if DataFusion cannot do it.
pub(super) fn lateral(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(join) = &plan else { return Ok(Transformed::no(plan)) };
    if !matches!(join.join_type, JoinType::Inner | JoinType::Left) || !has_subquery_node(&join.right) {
        return Ok(Transformed::no(plan));
    }
    let nested = match &*join.right {
        LogicalPlan::SubqueryAlias(alias) => &alias.input,
        right => right,
    };
    if let LogicalPlan::Subquery(nested) = nested {
        refuse_outer_aggregates(&nested.subquery)?;
    }
    if matches!(nested, LogicalPlan::Subquery(nested) if can_pull_up_from(&nested.subquery)) {
        return Ok(Transformed::no(plan));
    }
    let right = Subquery {
        subquery: Arc::clone(&join.right),
        outer_ref_columns: Vec::new(),
        spans: datafusion::common::Spans::new(),
    };
    let domain = Domain::of(&right, &join.left)?;
    if domain.outer.is_empty() {
        return Ok(Transformed::no(plan));
    }
    let Some((rows, columns)) = domain.unnest(&join.right)? else { return Ok(Transformed::no(plan)) };
    let mut filter: Vec<Expr> = join.on.iter().map(|(a, b)| a.clone().eq(b.clone())).collect();
    filter.extend(join.filter.clone());
    for (outer, column) in domain.outer.iter().zip(columns) {
        filter.push(binary_expr(Expr::Column(outer.clone()), Operator::IsNotDistinctFrom, Expr::Column(column)));
    }
    let all: Vec<Expr> = join.schema.columns().into_iter().map(Expr::Column).collect();
    let joined = LogicalPlanBuilder::from(join.left.as_ref().clone()).join_on(rows, join.join_type, filter)?;
    Ok(Transformed::yes(joined.project(all)?.build()?))
}

fn has_subquery_node(plan: &LogicalPlan) -> bool {
    plan.exists(|node| Ok(matches!(node, LogicalPlan::Subquery(_)))).expect("it never fails")
}
