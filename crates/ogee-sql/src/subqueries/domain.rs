//! The values of outer columns that there are, and plans evaluated for each of them.
//!
//! A plan that refers to outer columns becomes one that has them as columns of its own: it is joined with their domain as far down as possible, and every operator above keeps rows
//! of different values apart.

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{DataType, Schema},
    common::{
        Column, DFSchema, ExprSchema, JoinConstraint, NullEquality, Result, ScalarValue, plan_err,
        tree_node::{Transformed, TransformedResult, TreeNodeRecursion},
    },
    datasource::{cte_worktable::CteWorkTable, provider_as_source, source_as_provider},
    functions::core::expr_fn::coalesce,
    logical_expr::{
        Aggregate, Distinct, Expr, ExprFunctionExt, ExprSchemable, GroupingSet, Join, JoinType, Limit, LogicalPlan,
        LogicalPlanBuilder, Operator, RecursiveQuery, SortExpr, Subquery, TableScan, Union, binary_expr, cast, lit,
        select_expr::SelectExpr,
    },
};
use ogee_functions::{
    ranks::row_number,
    times::intervals::{interval_of_text, text_of_interval},
};

use super::{
    are_within, fresh, outer_references,
    pull_up::{Wanted, pulled_up},
    refuse_outer_aggregates,
};
use crate::{
    sorted_rows,
    trees::{Nodes, Tree},
};

/// The values of outer columns.
pub(super) struct Domain {
    input: LogicalPlan,
    outer: Vec<Column>,
    /// Recursive queries that the plan is within the term of, whose rows come with the values, in which columns.
    recursions: Vec<(String, Vec<Column>)>,
}

/// A plan, and where the outer columns are among its columns.
type Unnested = (LogicalPlan, Vec<Column>);

impl Domain {
    /// Of the columns of `input` that `subquery` refers to.
    pub(super) fn of(subquery: &Subquery, input: &LogicalPlan) -> Result<Self> {
        let mut outer = Vec::new();
        collect(&subquery.subquery, input.schema(), &mut outer)?;
        Ok(Self { input: input.clone(), outer, recursions: Vec::new() })
    }

    /// Whether the subquery refers to none of the columns.
    pub(super) fn is_empty(&self) -> bool {
        self.outer.is_empty()
    }

    /// `input`, the outer rows, each joined with those of `rows` that have its values in `columns`.
    pub(super) fn joined(
        &self,
        input: LogicalPlan,
        rows: LogicalPlan,
        columns: Vec<Column>,
        join_type: JoinType,
    ) -> Result<LogicalPlan> {
        let on = self.keys()?.into_iter().zip(columns.into_iter().map(Expr::Column)).collect();
        let (input, rows) = (Arc::new(input), Arc::new(rows));
        let same = NullEquality::NullEqualsNull;
        Ok(LogicalPlan::Join(Join::try_new(input, rows, on, None, join_type, JoinConstraint::On, same, false)?))
    }

    /// What the values are in the outer rows.
    fn keys(&self) -> Result<Vec<Expr>> {
        let keys = self.outer.iter().map(|column| {
            let expr = Expr::Column(column.clone());
            Ok(if self.is_of_interval(column)? { text_of_interval(expr) } else { expr })
        });
        keys.collect()
    }

    /// Whether the values of `column` are texts of its intervals: of two that are equal, what is computed may differ (`d + INTERVAL '1 month'`, `d + INTERVAL '30 days'`).
    fn is_of_interval(&self, column: &Column) -> Result<bool> {
        Ok(matches!(self.input.schema().data_type(column)?, DataType::Interval(_)))
    }

    /// The values, each once, and the columns that they are in.
    fn values(&self) -> Result<Unnested> {
        let alias = fresh("domain");
        let columns: Vec<Expr> = self.keys()?.into_iter().map(|key| key.alias(fresh("outer"))).collect();
        let values =
            LogicalPlanBuilder::from(self.input.clone()).project(columns)?.distinct()?.alias(alias)?.build()?;
        let columns = values.schema().columns();
        Ok((values, columns))
    }

    fn is_in(&self, plan: &LogicalPlan) -> bool {
        let mut found = Vec::new();
        // The visitor never fails.
        let _ = collect(plan, self.input.schema(), &mut found);
        !found.is_empty() || self.reads_recursion(plan)
    }

    /// Whether `plan` reads rows of a recursive query that it is within the term of.
    fn reads_recursion(&self, plan: &LogicalPlan) -> bool {
        let reads = |plan: &LogicalPlan| Ok(self.values_in(plan).is_some());
        !self.recursions.is_empty() && plan.has(reads).unwrap_or(false)
    }

    /// Where the values are if `plan` reads such rows itself.
    fn values_in(&self, plan: &LogicalPlan) -> Option<&Vec<Column>> {
        let LogicalPlan::TableScan(scan) = plan else { return None };
        let name = work_table(scan)?;
        self.recursions.iter().rev().find(|(of, _)| *of == name).map(|(_, columns)| columns)
    }

    /// A recursive query for each of the values: its rows carry them from one iteration to the next.
    fn recursive(&self, query: &RecursiveQuery) -> Result<Unnested> {
        let (first, columns) = self.unnest(&query.static_term)?;
        let own = query.static_term.schema();
        let names: Vec<String> = columns.iter().map(|_| fresh("outer")).collect();
        let with_values = |plan: LogicalPlan, own: &DFSchema, columns: Vec<Column>| {
            let values = columns.into_iter().zip(&names).map(|(column, name)| Expr::Column(column).alias(name));
            let all = own.columns().into_iter().map(Expr::Column).chain(values);
            LogicalPlanBuilder::from(plan).project(all.collect::<Vec<_>>())
        };
        let first = with_values(first, own, columns)?.build()?;
        let fields: Vec<_> =
            first.schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
        let rows = CteWorkTable::new(&query.name, Arc::new(Schema::new(fields)));
        let scan = LogicalPlanBuilder::scan(query.name.clone(), provider_as_source(Arc::new(rows)), None)?.build()?;
        let term = query.recursive_term.as_ref().clone().down(|plan| match &plan {
            LogicalPlan::TableScan(read) if work_table(read).as_ref() == Some(&query.name) => {
                Ok(Transformed::yes(scan.clone()))
            }
            _ => Ok(Transformed::no(plan)),
        });
        let read = scan.schema().columns().split_off(own.fields().len());
        let mut recursions = self.recursions.clone();
        recursions.push((query.name.clone(), read));
        let within = Self { input: self.input.clone(), outer: self.outer.clone(), recursions };
        let (term, columns) = within.unnest(&term.data()?)?;
        let term = with_values(term, query.recursive_term.schema(), columns)?.build()?;
        let rows = LogicalPlanBuilder::from(first).to_recursive_query(query.name.clone(), term, query.is_distinct)?;
        let rows = rows.build()?;
        let columns = rows.schema().columns().split_off(own.fields().len());
        Ok((rows, columns))
    }

    /// `expr` with the outer columns where they are in the plan below.
    fn resolved(&self, expr: Expr, columns: &[Column]) -> Result<Expr> {
        let resolved = expr.up(|expr| {
            let Expr::OuterReferenceColumn(_, column) = &expr else { return Ok(Transformed::no(expr)) };
            let Some(place) = self.outer.iter().position(|outer| self.is_same(outer, column)) else {
                return Ok(Transformed::no(expr));
            };
            let value = Expr::Column(columns[place].clone());
            Ok(Transformed::yes(if self.is_of_interval(column)? { interval_of_text(value, false) } else { value }))
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

    /// `plan` for each of the values; an error where an operator keeps it from that.
    pub(super) fn unnest(&self, plan: &LogicalPlan) -> Result<Unnested> {
        if !self.is_in(plan) {
            let (values, columns) = self.values()?;
            let both = LogicalPlanBuilder::from(plan.clone()).cross_join(values)?.build()?;
            return Ok((both, columns));
        }
        if let Some(columns) = self.values_in(plan) {
            return Ok((plan.clone(), columns.clone()));
        }
        let all = |columns: &[Column]| columns.iter().cloned().map(Expr::Column).collect::<Vec<_>>();
        Ok(match plan {
            LogicalPlan::RecursiveQuery(query) => return self.recursive(query),
            LogicalPlan::Projection(projection) => {
                let (input, columns) = self.unnest(&projection.input)?;
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
                let (input, columns) = self.unnest(&filter.input)?;
                let predicate = self.resolved(filter.predicate.clone(), &columns)?;
                (LogicalPlanBuilder::from(input).filter(predicate)?.build()?, columns)
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let (input, columns) = self.unnest(&alias.input)?;
                let plan = LogicalPlanBuilder::from(input).alias(alias.alias.clone())?.build()?;
                let of = |column: Column| Column::new(Some(alias.alias.clone()), column.name);
                (plan, columns.into_iter().map(of).collect())
            }
            LogicalPlan::Subquery(subquery) => return self.unnest(&subquery.subquery),
            // An order alone is not seen from outside.
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => return self.unnest(&sort.input),
            LogicalPlan::Limit(limit) => return self.first_rows(limit),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let (input, columns) = self.unnest(input)?;
                (LogicalPlanBuilder::from(input).distinct()?.build()?, columns)
            }
            LogicalPlan::Distinct(Distinct::On(on)) => {
                let (input, columns) = self.unnest(&on.input)?;
                let keys = all(&columns).into_iter().chain(self.resolved_all(on.on_expr.clone(), &columns)?);
                let selected = on.select_expr.iter().map(|expr| {
                    let (relation, name) = expr.qualified_name();
                    let new = self.resolved(expr.clone(), &columns)?;
                    Ok(if new == *expr { new } else { new.alias_qualified(relation, name) })
                });
                let selected = selected.chain(all(&columns).into_iter().map(Ok)).collect::<Result<Vec<_>>>()?;
                // The order begins with the keys.
                let sort = on.sort_expr.as_ref().map(|sort| {
                    let by_outer = all(&columns).into_iter().map(|column| Ok(column.sort(true, false)));
                    let own = sort
                        .iter()
                        .map(|key| Ok(SortExpr { expr: self.resolved(key.expr.clone(), &columns)?, ..key.clone() }));
                    by_outer.chain(own).collect::<Result<Vec<_>>>()
                });
                let rows = LogicalPlanBuilder::from(input).distinct_on(keys.collect(), selected, sort.transpose()?)?;
                (rows.build()?, columns)
            }
            LogicalPlan::Values(values) => {
                let rows = values.values.iter().map(|row| {
                    let columns = values.schema.columns().into_iter();
                    let named = row.iter().cloned().zip(columns).map(|(value, column)| value.alias(column.name));
                    let one = LogicalPlanBuilder::empty(true).project(named)?;
                    Ok(Arc::new(one.build()?))
                });
                let inputs = rows.collect::<Result<Vec<_>>>()?;
                return match <[_; 1]>::try_from(inputs) {
                    Ok([row]) => self.unnest(&row),
                    Err(inputs) => {
                        self.unnest(&LogicalPlan::Union(Union { inputs, schema: Arc::clone(&values.schema) }))
                    }
                };
            }
            LogicalPlan::Aggregate(aggregate) => return self.aggregate(aggregate),
            LogicalPlan::Window(window) => {
                let (input, columns) = self.unnest(&window.input)?;
                let mut calls = Vec::new();
                for call in &window.window_expr {
                    let name = call.schema_name().to_string();
                    let within = self.resolved(call.clone(), &columns)?.up(|expr| {
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
                    let (branch, columns) = self.unnest(input)?;
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
                let (input, columns) = self.unnest(&unnest.input)?;
                let plan = LogicalPlanBuilder::from(input)
                    .unnest_columns_with_options(unnest.exec_columns.clone(), unnest.options.clone())?
                    .build()?;
                (plan, columns)
            }
            other => return refused(other),
        })
    }

    /// The first rows for each value, in the order that they are asked for in.
    fn first_rows(&self, limit: &Limit) -> Result<Unnested> {
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
        let (Some(skip), Some(fetch)) = (count(&limit.skip), count(&limit.fetch)) else {
            return plan_err!("LIMIT and OFFSET of a correlated subquery are to be constants");
        };
        let skip = skip.unwrap_or(0);
        let (input, order) = match &*limit.input {
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => (LogicalPlan::clone(&sort.input), sort.expr.clone()),
            // That of a query in FROM, or of this one before its columns are chosen.
            input => sorted_rows::sorted(input)?.unwrap_or_else(|| (input.clone(), Vec::new())),
        };
        // The keys of such an order are behind the columns.
        let keys = limit.input.schema().fields().len()..input.schema().fields().len();
        let (rows, columns) = self.unnest(&input)?;
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
        Ok((numbered.filter(wanted)?.project(all)?.build()?, columns))
    }

    /// A group more for each value; without groups, a row for each.
    fn aggregate(&self, aggregate: &Aggregate) -> Result<Unnested> {
        let (input, columns) = self.unnest(&aggregate.input)?;
        let name = |(expr, new): (&Expr, Expr)| {
            let (relation, name) = expr.qualified_name();
            if new == *expr { new } else { new.alias_qualified(relation, name) }
        };
        let keys = columns.iter().cloned().map(Expr::Column);
        let (groups, empty_sets) = match aggregate.group_expr.as_slice() {
            [Expr::GroupingSet(sets)] => {
                let sets = sets_of(sets);
                if sets.iter().flatten().any(Expr::contains_outer) {
                    return plan_err!("outer columns are no keys of grouping sets; compute them in a query in FROM");
                }
                let empty_sets = sets.iter().filter(|set| set.is_empty()).count();
                // In front of the others the keys do not move their bits in the grouping id.
                let sets = sets.into_iter().map(|set| keys.clone().chain(set).collect()).collect();
                (vec![Expr::GroupingSet(GroupingSet::GroupingSets(sets))], empty_sets)
            }
            groups => {
                let resolved = self.resolved_all(groups.iter().cloned(), &columns)?;
                let resolved = groups.iter().zip(resolved).map(name).chain(keys);
                (resolved.collect(), usize::from(groups.is_empty()))
            }
        };
        let calls = self.resolved_all(aggregate.aggr_expr.iter().cloned(), &columns)?;
        let calls: Vec<Expr> = aggregate.aggr_expr.iter().zip(calls).map(name).collect();
        let types = aggregate.aggr_expr.iter().map(|call| of_no_rows(call, aggregate.input.schema()));
        let of_no_rows = types.collect::<Result<Vec<_>>>()?;
        let grouped = LogicalPlanBuilder::from(input).aggregate(groups, calls)?.build()?;
        // Some value has no rows, and yet its group of all rows.
        let (rows, keys) = match empty_sets {
            0 => (grouped, columns),
            1 => {
                let (values, keys) = self.values()?;
                let equal = (keys.clone(), columns);
                let rows = LogicalPlanBuilder::from(values)
                    .join_detailed(grouped, JoinType::Left, equal, None, NullEquality::NullEqualsNull)?
                    .build()?;
                (rows, keys)
            }
            _ => return plan_err!("a correlated subquery is not to group all rows twice; remove one `()`"),
        };
        let schema = &aggregate.schema;
        let first_call = schema.fields().len() - aggregate.aggr_expr.len();
        let exprs = schema.columns().into_iter().enumerate().map(|(at, column)| {
            let (relation, field) = schema.qualified_field(at);
            let default = match at.checked_sub(first_call) {
                Some(call) => of_no_rows[call].clone(),
                None if field.name() == Aggregate::INTERNAL_GROUPING_ID => {
                    // All of the keys are out. The id may be wider than it was.
                    let bits = (1u64 << (first_call - 1)) - 1;
                    let id = cast(Expr::Column(column), DataType::UInt64);
                    let id = coalesce(vec![binary_expr(id, Operator::BitwiseAnd, lit(bits)), lit(bits)]);
                    return cast(id, field.data_type().clone()).alias_qualified(relation.cloned(), field.name());
                }
                None => return Expr::Column(column),
            };
            match default.is_null() {
                true => Expr::Column(column),
                false => coalesce(vec![Expr::Column(column), Expr::Literal(default, None)])
                    .alias_qualified(relation.cloned(), field.name()),
            }
        });
        let exprs = exprs.chain(keys.iter().cloned().map(Expr::Column)).map(SelectExpr::from);
        Ok((LogicalPlanBuilder::from(rows).project(exprs.collect::<Vec<_>>())?.build()?, keys))
    }

    fn join(&self, join: &Join) -> Result<Unnested> {
        use JoinType::{Full, Inner, Left, LeftAnti, LeftMark, LeftSemi, Right};
        match join.join_type {
            Inner | Left | LeftSemi | LeftAnti | LeftMark | Full => {}
            Right => {
                // The other way round, with the columns as they were.
                let mirrored = Join::try_new(
                    Arc::clone(&join.right),
                    Arc::clone(&join.left),
                    join.on.iter().map(|(left, right)| (right.clone(), left.clone())).collect(),
                    join.filter.clone(),
                    Left,
                    join.join_constraint,
                    join.null_equality,
                    join.null_aware,
                )?;
                let (plan, columns) = self.join(&mirrored)?;
                let all = join.schema.columns().into_iter().chain(columns.iter().cloned()).map(Expr::Column);
                return Ok((LogicalPlanBuilder::from(plan).project(all)?.build()?, columns));
            }
            _ => return refused(&LogicalPlan::Join(join.clone())),
        }
        let right_depends = self.is_in(&join.right);
        // Rows of the left side come out with the values, unless it is an inner join whose right side has them.
        let only_right = join.join_type == Inner && right_depends && !self.is_in(&join.left);
        let (left, left_columns) = match only_right {
            true => (join.left.as_ref().clone(), None),
            false => {
                let (left, columns) = self.unnest(&join.left)?;
                (left, Some(columns))
            }
        };
        // So do those of the right side where they come out without one of the left.
        let (right, right_columns) = match right_depends || join.join_type == Full {
            false => (join.right.as_ref().clone(), None),
            true => {
                let (right, columns) = self.unnest(&join.right)?;
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
        let (Full, Some(left), Some(right)) = (join.join_type, left_columns, right_columns) else {
            return Ok((plan, columns));
        };
        let mut all: Vec<Expr> = join.schema.columns().into_iter().map(Expr::Column).collect();
        let names: Vec<String> = left.iter().map(|_| fresh("either")).collect();
        all.extend(
            left.into_iter()
                .zip(right)
                .zip(&names)
                .map(|((left, right), name)| coalesce(vec![Expr::Column(left), Expr::Column(right)]).alias(name)),
        );
        let columns = names.into_iter().map(Column::new_unqualified).collect();
        Ok((LogicalPlanBuilder::from(plan).project(all)?.build()?, columns))
    }
}

/// The recursive query whose rows `scan` reads, if it does.
fn work_table(scan: &TableScan) -> Option<String> {
    let provider = source_as_provider(&scan.source).ok()?;
    provider.downcast_ref::<CteWorkTable>().map(|table| table.name().to_owned())
}

/// The error of a subquery that `plan` keeps from being evaluated for each outer value.
fn refused<T>(plan: &LogicalPlan) -> Result<T> {
    let what = match plan {
        LogicalPlan::Extension(extension) => extension.node.name().to_owned(),
        plan => plan.display().to_string().split([':', ' ']).next().unwrap_or_default().to_owned(),
    };
    plan_err!(
        "{what} that depends on outer columns is not supported; take the outer columns out of it, or join with its rows"
    )
}

/// What `call` gives for no rows.
fn of_no_rows(call: &Expr, schema: &DFSchema) -> Result<ScalarValue> {
    let data_type = call.get_type(schema)?;
    match unaliased(call) {
        Expr::AggregateFunction(call) if matches!(call.func.name(), "approx_distinct" | "regr_count") => {
            ScalarValue::new_zero(&data_type)
        }
        Expr::AggregateFunction(call) => call.func.default_value(&data_type),
        _ => ScalarValue::try_new_null(&data_type),
    }
}

/// The sets of keys, one by one.
fn sets_of(sets: &GroupingSet) -> Vec<Vec<Expr>> {
    match sets {
        GroupingSet::Rollup(keys) => (0..=keys.len()).rev().map(|keys_in| keys[..keys_in].to_vec()).collect(),
        GroupingSet::Cube(keys) => keys.iter().fold(vec![Vec::new()], |sets, key| {
            let with_key = sets.iter().map(|set| set.iter().chain([key]).cloned().collect());
            with_key.chain(sets.iter().cloned()).collect()
        }),
        GroupingSet::GroupingSets(sets) => sets.clone(),
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
    plan.each_node(|node| {
        node.each_expression(|expr| {
            expr.each(|expr| {
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
    // The planner marks only those that refer to the left by themselves, not in subqueries of theirs.
    let refers = || outer_references(&join.right).iter().any(|column| join.left.schema().has_column(column));
    if !matches!(join.join_type, JoinType::Inner | JoinType::Left) || !(has_subquery_node(&join.right) || refers()) {
        return Ok(Transformed::no(plan));
    }
    let nested = match &*join.right {
        LogicalPlan::SubqueryAlias(alias) => &alias.input,
        right => right,
    };
    if let LogicalPlan::Subquery(nested) = nested {
        refuse_outer_aggregates(&nested.subquery)?;
    }
    let is_pulled_up =
        |plan| are_within(&outer_references(plan), join.left.schema()) && pulled_up(plan, Wanted::Rows).is_some();
    if matches!(nested, LogicalPlan::Subquery(nested) if is_pulled_up(&nested.subquery)) {
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
    let (rows, columns) = domain.unnest(&join.right)?;
    let mut filter: Vec<Expr> = join.on.iter().map(|(a, b)| a.clone().eq(b.clone())).collect();
    filter.extend(join.filter.clone());
    for (key, column) in domain.keys()?.into_iter().zip(columns) {
        filter.push(binary_expr(key, Operator::IsNotDistinctFrom, Expr::Column(column)));
    }
    let all: Vec<Expr> = join.schema.columns().into_iter().map(Expr::Column).collect();
    let joined = LogicalPlanBuilder::from(join.left.as_ref().clone()).join_on(rows, join.join_type, filter)?;
    Ok(Transformed::yes(joined.project(all)?.build()?))
}

fn has_subquery_node(plan: &LogicalPlan) -> bool {
    plan.has(|node| Ok(matches!(node, LogicalPlan::Subquery(_)))).expect("it never fails")
}
