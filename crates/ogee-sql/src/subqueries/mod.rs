//! Subqueries that DataFusion has no plan for.
//!
//! It makes joins of predicates in `WHERE`, and of correlated values, where what correlates them can be pulled up to the join. An analyzer rule sees to the rest first:
//!
//! * `IN` where NULL counts: below `OR`, `NOT` or `CASE`, in values, and negated in correlated form, becomes `EXISTS` of equal rows and of rows that may be.
//! * `ANY` and `ALL` become `EXISTS` too. `EXISTS` in values is the mark of a join.
//! * A correlated value need not be an aggregate: that it is one row at most is then checked when it runs.
//! * What cannot be pulled up (below a limit, an aggregate with an inequality, an outer join, `unnest` of an outer column) is evaluated once for each combination of outer values that there is
//!   (`domain`), and joined to the rows that have it: Neumann and Kemper, "Unnesting arbitrary queries", BTW 2015.
//!
//! Not here: predicates and values that DataFusion can do.

mod below;
mod domain;
mod outer_aggregates;
mod outer_types;
mod pull_up;

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use datafusion::{
    arrow::datatypes::DataType,
    common::{
        Column, DFSchema, ExprSchema, Result, ScalarValue, Spans, exec_err, plan_err,
        tree_node::{Transformed, TransformedResult, TreeNodeRecursion},
    },
    config::ConfigOptions,
    functions_aggregate::{count::count_udaf, first_last::first_value_udaf},
    logical_expr::{
        BinaryExpr, ColumnarValue, Distinct, Expr, ExprSchemable, FetchType, JoinType, LogicalPlan, LogicalPlanBuilder,
        Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, SkipType, Subquery, Volatility, binary_expr,
        expr::{Exists, InSubquery, SetComparison, SetQuantifier},
        lit, not,
        utils::{conjunction, disjunction, split_conjunction_owned},
        when,
    },
    optimizer::AnalyzerRule,
};

use crate::{
    kept_names,
    trees::{Nodes, Tree},
};
use domain::Domain;
use pull_up::{Wanted, pulled_up};

pub(crate) use below::SubqueriesBelow;
pub(crate) use outer_aggregates::OuterAggregates;
pub(crate) use outer_types::{OuterTypes, with_outer_types};

/// Makes joins of subqueries.
#[derive(Debug, Default)]
pub(crate) struct Subqueries;

impl AnalyzerRule for Subqueries {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.nodes_up(rewrite)?;
        if !rewritten.transformed {
            return Ok(rewritten.data);
        }
        // Values of subqueries may be NULL, and with them the columns above.
        rewritten.data.nodes_up(|node| Ok(Transformed::yes(with_nulls_below(node)?))).data()
    }

    fn name(&self) -> &str {
        "subqueries"
    }
}

/// `node` with columns that may be NULL where those below may be.
fn with_nulls_below(node: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Union(mut union) = node else { return node.recompute_schema() };
    let known = union.schema.iter().enumerate().map(|(column, (qualifier, field))| {
        let is_nullable = union.inputs.iter().any(|input| input.schema().field(column).is_nullable());
        (qualifier.cloned(), Arc::new(field.as_ref().clone().with_nullable(field.is_nullable() || is_nullable)))
    });
    union.schema = Arc::new(DFSchema::new_with_metadata(known.collect(), union.schema.as_arrow().metadata().clone())?);
    Ok(LogicalPlan::Union(union))
}

/// A name that no other plan has.
pub(crate) fn fresh(what: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("__ogee_{what}_{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match &plan {
        LogicalPlan::Join(_) => domain::lateral(plan),
        LogicalPlan::Filter(_)
        | LogicalPlan::Projection(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Sort(_) => {
            let mut any = false;
            plan.each_expression(|expr| {
                any |= has_subquery(expr);
                Ok(TreeNodeRecursion::Continue)
            })?;
            if any { in_expressions(plan) } else { Ok(Transformed::no(plan)) }
        }
        _ => Ok(Transformed::no(plan)),
    }
}

pub(crate) fn has_subquery(expr: &Expr) -> bool {
    let is_one = |expr: &Expr| {
        matches!(expr, Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_))
    };
    expr.has(|expr| Ok(is_one(expr))).expect("it never fails")
}

/// The plan below, with what its subqueries give beside its columns.
struct Joined {
    input: LogicalPlan,
    changed: bool,
    /// DataFusion makes joins of correlated values in this node.
    has_values: bool,
}

fn in_expressions(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.each_expression(|expr| {
        expr.each(|expr| {
            let subquery = match expr {
                Expr::Exists(exists) => &exists.subquery,
                Expr::InSubquery(in_subquery) => &in_subquery.subquery,
                Expr::SetComparison(comparison) => &comparison.subquery,
                Expr::ScalarSubquery(subquery) => subquery,
                _ => return Ok(TreeNodeRecursion::Continue),
            };
            refuse_outer_aggregates(&subquery.subquery)?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    let is_filter = matches!(plan, LogicalPlan::Filter(_));
    let input = plan.inputs()[0].clone();
    let has_values = matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Projection(_));
    let mut joined = Joined { input, changed: false, has_values };
    let mut changed = false;
    let rewritten = kept_names::map_expressions(plan, |expr| {
        if !has_subquery(&expr) {
            return Ok(Transformed::no(expr));
        }
        let new = match is_filter {
            true => {
                let parts = split_conjunction_owned(expr);
                let parts =
                    parts.into_iter().map(|part| conjunct(part, &mut joined, true)).collect::<Result<Vec<_>>>()?;
                conjunction(parts).expect("as many as there were")
            }
            false => value(expr, &mut joined, true)?,
        };
        changed = true;
        Ok(Transformed::yes(new))
    })?;
    if !changed {
        return Ok(Transformed::no(rewritten.data));
    }
    let plan = rewritten.data;
    if !joined.changed {
        return Ok(Transformed::yes(plan));
    }
    let columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let exprs = plan.expressions();
    let plan = plan.with_new_exprs(exprs, vec![joined.input])?;
    // Neither filters nor windows leave columns out.
    Ok(Transformed::yes(match plan {
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) => plan,
        plan => LogicalPlanBuilder::from(plan).project(columns)?.build()?,
    }))
}

/// A part of a filter, of which it only matters where it is true; `whole`: all of a conjunct.
fn conjunct(expr: Expr, joined: &mut Joined, whole: bool) -> Result<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let left = conjunct(*left, joined, false)?;
            Ok(binary_expr(left, op, conjunct(*right, joined, false)?))
        }
        Expr::Not(inner) => match *inner {
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                conjunct(Expr::InSubquery(InSubquery { expr, subquery, negated: !negated }), joined, whole)
            }
            Expr::Exists(Exists { subquery, negated }) => predicate(Exists { subquery, negated: !negated }, joined),
            other => value(Expr::Not(Box::new(other)), joined, false),
        },
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            // A constant is no key of a join.
            let alone = !has_subquery(&expr) && expr.any_column_refs();
            // DataFusion's joins know about NULL where there is nothing else to join by.
            let outer = outer_references(&subquery.subquery);
            let can = !negated
                && are_within(&outer, joined.input.schema())
                && (whole || has_qualifier(&subquery.subquery))
                && pulled_up(&subquery.subquery, Wanted::Membership).is_some();
            if alone && (can || outer.is_empty() && (whole || !negated)) {
                let subquery = if outer.is_empty() { with_qualifier(subquery)? } else { subquery };
                return Ok(Expr::InSubquery(InSubquery { expr, subquery, negated }));
            }
            let expr = operand(*expr, joined, false)?;
            if negated && !whole {
                return membership(expr, &subquery, negated, joined, false);
            }
            let rows = match negated && may_be_unknown(&expr, &subquery, joined)? {
                false => rows_that(&subquery, &expr, joined, |outer, row| outer.eq(row))?,
                true => rows_that(&subquery, &expr, joined, |outer, row| not(is_false(outer.eq(row))))?,
            };
            predicate(Exists { subquery: rows, negated }, joined)
        }
        Expr::Exists(exists) => predicate(exists, joined),
        Expr::SetComparison(comparison) => {
            let SetComparison { expr, subquery, op, quantifier } = comparison;
            let expr = operand(*expr, joined, false)?;
            let compared = |outer: Expr, row| binary_expr(outer, op, row);
            let negated = quantifier == SetQuantifier::All;
            let rows = match quantifier {
                SetQuantifier::Any => rows_that(&subquery, &expr, joined, compared)?,
                SetQuantifier::All => {
                    rows_that(&subquery, &expr, joined, |outer, row| Expr::IsNotTrue(Box::new(compared(outer, row))))?
                }
            };
            predicate(Exists { subquery: rows, negated }, joined)
        }
        other => value(other, joined, false),
    }
}

/// Whether the column of `plan` is of some relation, or computed where it is given: of others, DataFusion's mark joins have two, one as it is named within the subquery.
fn has_qualifier(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => {
            let value = &projection.expr[0];
            // That of a cast is the name of what it casts.
            let name = value.schema_name().to_string();
            !value.column_refs().iter().any(|column| column.relation.is_none() && column.name == name)
        }
        LogicalPlan::Values(_) => false,
        plan => plan.schema().qualified_field(0).0.is_some(),
    }
}

/// `subquery` with a column of which that holds.
fn with_qualifier(subquery: Subquery) -> Result<Subquery> {
    let plan = subquery.subquery.as_ref();
    if has_qualifier(plan) {
        return Ok(subquery);
    }
    let column = Expr::Column(plan.schema().columns().swap_remove(0)).alias(fresh("in"));
    let plan = LogicalPlanBuilder::from(plan.clone()).project([column])?.build()?;
    Ok(subquery.with_plan(Arc::new(plan)))
}

/// Whether a comparison of `expr` with a row of `subquery` may be with NULL.
fn may_be_unknown(expr: &Expr, subquery: &Subquery, joined: &Joined) -> Result<bool> {
    Ok(subquery.subquery.schema().field(0).is_nullable() || expr.nullable(joined.input.schema())?)
}

fn is_false(expr: Expr) -> Expr {
    Expr::IsFalse(Box::new(expr))
}

/// `exists` in a filter.
fn predicate(exists: Exists, joined: &mut Joined) -> Result<Expr> {
    let rows = for_existence(&exists.subquery.subquery)?;
    let is_local = are_within(&outer_references(&rows), joined.input.schema());
    let exists = Exists { subquery: Subquery { subquery: Arc::new(rows), ..exists.subquery }, ..exists };
    match is_local && pulled_up(&exists.subquery.subquery, Wanted::Existence).is_some() {
        true => Ok(Expr::Exists(exists)),
        false => mark(exists, joined),
    }
}

/// `expr` as a value; `marks`: of predicates too, whether DataFusion could do them or not.
fn value(expr: Expr, joined: &mut Joined, marks: bool) -> Result<Expr> {
    let rewritten = expr.down(|expr| {
        Ok(match expr {
            Expr::Exists(exists) => {
                let new = if marks { mark(exists, joined)? } else { predicate(exists, joined)? };
                Transformed::new(new, true, TreeNodeRecursion::Jump)
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let expr = operand(*expr, joined, marks)?;
                let new = membership(expr, &subquery, negated, joined, marks)?;
                Transformed::new(new, true, TreeNodeRecursion::Jump)
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                let expr = operand(*expr, joined, marks)?;
                // All compare so if none compares in the opposite way.
                let all = quantifier == SetQuantifier::All;
                let compared = |outer: Expr, row| {
                    let compared = binary_expr(outer, op, row);
                    if all { not(compared) } else { compared }
                };
                let new = found(expr, &subquery, all, joined, marks, compared)?;
                Transformed::new(new, true, TreeNodeRecursion::Jump)
            }
            Expr::ScalarSubquery(subquery) => {
                let new = scalar(subquery, joined)?;
                Transformed::new(new, true, TreeNodeRecursion::Jump)
            }
            other => Transformed::no(other),
        })
    });
    rewritten.data()
}

/// `expr` as a value that the rows of a subquery are compared with: subqueries in it are columns.
fn operand(expr: Expr, joined: &mut Joined, marks: bool) -> Result<Expr> {
    let has_values = std::mem::replace(&mut joined.has_values, false);
    let operand = value(expr, joined, marks);
    joined.has_values = has_values;
    operand
}

/// Whether `expr` is a row of `subquery`, or not, if `negated`; NULL where that cannot be told: it is no row, and either is NULL, or some row is.
fn membership(expr: Expr, subquery: &Subquery, negated: bool, joined: &mut Joined, marks: bool) -> Result<Expr> {
    let exists = |subquery, joined: &mut Joined| {
        let exists = Exists { subquery, negated: false };
        if marks { mark(exists, joined) } else { predicate(exists, joined) }
    };
    let equal = rows_that(subquery, &expr, joined, |outer, row| outer.eq(row))?;
    let equal = exists(equal, joined)?;
    let mut unknown = Vec::new();
    if subquery.subquery.schema().field(0).is_nullable() {
        let rows = one_row(rows_that(subquery, &expr, joined, |_, row| row.is_null())?)?;
        unknown.push(exists(rows, joined)?);
    }
    if expr.nullable(joined.input.schema())? {
        let any = one_row(subquery.clone())?;
        unknown.push(expr.is_null().and(exists(any, joined)?));
    }
    let Some(unknown) = disjunction(unknown) else { return Ok(if negated { not(equal) } else { equal }) };
    when(equal, lit(!negated)).when(unknown, Expr::Literal(ScalarValue::Boolean(None), None)).otherwise(lit(negated))
}

/// One row of `subquery` if it has any: enough to tell, where no outer row has a say in it.
fn one_row(subquery: Subquery) -> Result<Subquery> {
    if !outer_references(&subquery.subquery).is_empty() {
        return Ok(subquery);
    }
    let row = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone()).limit(0, Some(1))?.build()?;
    Ok(Subquery { subquery: Arc::new(row), ..subquery })
}

/// Whether `subquery` has a row for whose comparison with `expr` it holds `that`, or not, if `negated`; NULL where it may be so.
fn found(
    expr: Expr,
    subquery: &Subquery,
    negated: bool,
    joined: &mut Joined,
    marks: bool,
    that: impl Fn(Expr, Expr) -> Expr,
) -> Result<Expr> {
    let exists = |subquery, joined: &mut Joined| {
        let exists = Exists { subquery, negated: false };
        if marks { mark(exists, joined) } else { predicate(exists, joined) }
    };
    let holds = rows_that(subquery, &expr, joined, &that)?;
    let holds = exists(holds, joined)?;
    if !may_be_unknown(&expr, subquery, joined)? {
        return Ok(if negated { not(holds) } else { holds });
    }
    let unknown = rows_that(subquery, &expr, joined, |outer, row| Expr::IsUnknown(Box::new(that(outer, row))))?;
    let unknown = exists(unknown, joined)?;
    when(holds, lit(!negated)).when(unknown, Expr::Literal(ScalarValue::Boolean(None), None)).otherwise(lit(negated))
}

/// The rows of `subquery` that pass `that`, given `expr`, over the outer rows, and their value.
fn rows_that(
    subquery: &Subquery,
    expr: &Expr,
    joined: &Joined,
    that: impl FnOnce(Expr, Expr) -> Expr,
) -> Result<Subquery> {
    let mut outer = subquery.outer_ref_columns.clone();
    let schema = joined.input.schema();
    let of_outer = expr.clone().up(|expr| {
        let Expr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
        let field = Arc::clone(schema.field_from_column(column)?);
        let reference = Expr::OuterReferenceColumn(field, column.clone());
        if !outer.contains(&reference) {
            outer.push(reference.clone());
        }
        Ok(Transformed::yes(reference))
    });
    let of_outer = of_outer.data()?;
    let mut plan = subquery.subquery.as_ref().clone();
    let columns = expr.column_refs();
    // The same table may be in both queries: its columns then get a name of their own in this one. So do those of the name of an outer column that is of no table, such as one of a `UNION`.
    if !has_qualifier(&plan) || plan.has(|node| Ok(columns.iter().any(|column| node.schema().has_column(column))))? {
        let value = Expr::Column(plan.schema().columns().swap_remove(0)).alias(fresh("row"));
        plan = LogicalPlanBuilder::from(plan).project([value])?.alias(fresh("rows"))?.build()?;
    }
    let column = Expr::Column(plan.schema().columns().swap_remove(0));
    let rows = LogicalPlanBuilder::from(plan).filter(that(of_outer, column))?.build()?;
    Ok(Subquery { subquery: Arc::new(rows), outer_ref_columns: outer, spans: Spans::new() })
}

/// The columns of outer queries that `plan` refers to, itself or in its own subqueries.
fn outer_references(plan: &LogicalPlan) -> Vec<Column> {
    let mut found = Vec::new();
    let visited = plan.each_node(|node| {
        found.extend(node.all_out_ref_exprs().into_iter().filter_map(|expr| match expr {
            Expr::OuterReferenceColumn(_, column) => Some(column),
            _ => None,
        }));
        Ok(TreeNodeRecursion::Continue)
    });
    debug_assert!(visited.is_ok(), "it never fails");
    found
}

fn are_within(columns: &[Column], schema: &DFSchema) -> bool {
    columns.iter().all(|column| schema.has_column(column))
}

/// What tells whether `plan` has rows, with less to do: not what they are, in which order, nor how many.
fn for_existence(plan: &LogicalPlan) -> Result<LogicalPlan> {
    Ok(match plan {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => for_existence(&sort.input)?,
        LogicalPlan::Limit(limit)
            if matches!(limit.get_skip_type()?, SkipType::Literal(0))
                && matches!(limit.get_fetch_type()?, FetchType::Literal(fetch) if fetch != Some(0)) =>
        {
            for_existence(&limit.input)?
        }
        LogicalPlan::Projection(projection) => {
            LogicalPlanBuilder::from(projection.input.as_ref().clone()).project([lit(true)])?.build()?
        }
        plan => plan.clone(),
    })
}

/// Whether `exists`, as a column of `joined`.
fn mark(exists: Exists, joined: &mut Joined) -> Result<Expr> {
    let Exists { subquery, negated } = exists;
    let alias = fresh("exists");
    let subquery = Subquery { subquery: Arc::new(for_existence(&subquery.subquery)?), ..subquery };
    let is_local = are_within(&outer_references(&subquery.subquery), joined.input.schema());
    let pulled = if is_local { pulled_up(&subquery.subquery, Wanted::Existence) } else { None };
    let input = joined.input.clone();
    let plan = match pulled {
        Some((rows, pull_up)) => {
            let filter = conjunction(pull_up.join_filters).unwrap_or_else(|| lit(true));
            let inner: BTreeSet<Column> = pull_up.correlated_subquery_cols_map.into_values().flatten().collect();
            let filter = filter.up(|expr| {
                Ok(match expr {
                    Expr::Column(column) if inner.contains(&column) => {
                        Transformed::yes(Expr::Column(Column::new(Some(alias.clone()), column.name)))
                    }
                    other => Transformed::no(other),
                })
            });
            let rows = LogicalPlanBuilder::from(rows).alias(alias.clone())?.build()?;
            LogicalPlanBuilder::from(input).join_on(rows, JoinType::LeftMark, Some(filter.data()?))?.build()?
        }
        None => {
            let domain = Domain::of(&subquery, &input)?;
            if domain.is_empty() {
                // It depends on queries further out alone.
                let rows = LogicalPlanBuilder::from(Arc::unwrap_or_clone(subquery.subquery)).alias(alias.clone())?;
                let input = LogicalPlanBuilder::from(input);
                input.join_on(rows.build()?, JoinType::LeftMark, [lit(true)])?.build()?
            } else {
                let (rows, columns) = domain.unnest(&subquery.subquery)?;
                let rows = LogicalPlanBuilder::from(rows).project(columns.into_iter().map(Expr::Column))?;
                let rows = rows.distinct()?.alias(alias.clone())?.build()?;
                let columns = rows.schema().columns();
                domain.joined(input, rows, columns, JoinType::LeftMark)?
            }
        }
    };
    joined.input = plan;
    joined.changed = true;
    let mark = Expr::Column(Column::new(Some(alias), "mark"));
    Ok(if negated { not(mark) } else { mark })
}

/// The value of `subquery`: left to DataFusion where it can do it, else a column of `joined`.
fn scalar(subquery: Subquery, joined: &mut Joined) -> Result<Expr> {
    let outer = outer_references(&subquery.subquery);
    if outer.is_empty() {
        return Ok(Expr::ScalarSubquery(may_be_null(subquery)?));
    }
    let subquery = may_be_null(subquery)?;
    let subquery = match gives_one_row(&subquery.subquery) {
        true => subquery,
        false => Subquery { subquery: Arc::new(checked(&subquery.subquery)?), ..subquery },
    };
    let is_local = are_within(&outer, joined.input.schema());
    if joined.has_values && is_local && pulled_up(&subquery.subquery, Wanted::Rows).is_some() {
        return Ok(Expr::ScalarSubquery(subquery));
    }
    let domain = Domain::of(&subquery, &joined.input)?;
    let (rows, columns) = match domain.is_empty() {
        // It depends on queries further out alone.
        true => (subquery.subquery.as_ref().clone(), Vec::new()),
        false => domain.unnest(&subquery.subquery)?,
    };
    let alias = fresh("value");
    let value = Expr::Column(subquery.subquery.schema().columns().swap_remove(0));
    let value_name = fresh("of");
    let keys: Vec<Expr> = columns.into_iter().map(Expr::Column).collect();
    let rows = LogicalPlanBuilder::from(rows).project(std::iter::once(value.alias(&value_name)).chain(keys))?;
    let rows = rows.alias(alias.clone())?.build()?;
    let input = joined.input.clone();
    let plan = match domain.is_empty() {
        true => LogicalPlanBuilder::from(input).join_on(rows, JoinType::Left, [lit(true)])?.build()?,
        false => {
            let columns = rows.schema().columns().split_off(1);
            domain.joined(input, rows, columns, JoinType::Left)?
        }
    };
    joined.input = plan;
    joined.changed = true;
    Ok(Expr::Column(Column::new(Some(alias), value_name)))
}

/// An aggregate of nothing but outer columns is one of the outer query's rows. DataFusion would aggregate the rows of the subquery.
fn refuse_outer_aggregates(plan: &LogicalPlan) -> Result<()> {
    let is_outer = |call: &Expr| call.contains_outer() && !call.any_column_refs();
    let found = plan.has(|node| match node {
        LogicalPlan::Aggregate(aggregate) => Ok(aggregate.aggr_expr.iter().any(is_outer)),
        _ => Ok(false),
    })?;
    if found {
        return plan_err!(
            "an aggregate of outer columns only, in a subquery, belongs to the outer query and is not supported here; \
             compute it in the outer query, or name a column of the subquery in it"
        );
    }
    Ok(())
}

/// Whether `plan` gives a row whatever there is.
fn has_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_row(&alias.input),
        LogicalPlan::Sort(sort) => sort.fetch.is_none() && has_row(&sort.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => false,
    }
}

/// Whether column `index` of `plan` is computed from others, or a constant, and not a column of a table. What may be NULL for all that is known of it, is not
/// any more once constants in it are computed.
fn is_computed(plan: &LogicalPlan, index: usize) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => match projection.expr[index].clone().unalias() {
            Expr::Column(column) => {
                let input = &projection.input;
                input.schema().maybe_index_of_column(&column).is_none_or(|index| is_computed(input, index))
            }
            _ => true,
        },
        LogicalPlan::SubqueryAlias(alias) => is_computed(&alias.input, index),
        LogicalPlan::Sort(sort) => is_computed(&sort.input, index),
        LogicalPlan::Limit(limit) => is_computed(&limit.input, index),
        LogicalPlan::Filter(filter) => is_computed(&filter.input, index),
        LogicalPlan::Distinct(Distinct::All(input)) => is_computed(input, index),
        _ => false,
    }
}

/// `subquery` with a value that may be NULL, unless it gives a row whatever there is. DataFusion takes the value of a query without a row for what its rows would have, and
/// finds that `(SELECT 1 WHERE false) IS NULL` is false.
fn may_be_null(subquery: Subquery) -> Result<Subquery> {
    let plan = &subquery.subquery;
    if plan.schema().field(0).is_nullable() && !is_computed(plan, 0) || has_row(plan) {
        return Ok(subquery);
    }
    let (relation, field) = plan.schema().qualified_field(0);
    let column = Expr::Column(Column::from((relation, field)));
    let value = maybe().call(vec![column]).alias_qualified(relation.cloned(), field.name());
    let plan = LogicalPlanBuilder::from(plan.as_ref().clone()).project([value])?.build()?;
    Ok(Subquery { subquery: Arc::new(plan), ..subquery })
}

/// `ogee_maybe(value)`: the value, which may be NULL for all that is known. It is called volatile so that none is found out earlier.
pub(crate) fn maybe() -> ScalarUDF {
    ScalarUDF::new_from_impl(Maybe { signature: Signature::any(1, Volatility::Volatile) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Maybe {
    signature: Signature,
}

impl ScalarUDFImpl for Maybe {
    fn name(&self) -> &str {
        "ogee_maybe"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args[0].clone())
    }
}

fn gives_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => gives_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => gives_one_row(&alias.input),
        LogicalPlan::Filter(filter) => gives_one_row(&filter.input),
        LogicalPlan::Sort(sort) => gives_one_row(&sort.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        plan => plan.max_rows().is_some_and(|rows| rows <= 1),
    }
}

/// The one row of `plan`, or NULL, or an error where there are more.
fn checked(plan: &LogicalPlan) -> Result<LogicalPlan> {
    let column = Expr::Column(plan.schema().columns().swap_remove(0));
    let name = column.schema_name().to_string();
    let rows = count_udaf().call(vec![lit(1i64)]).alias(fresh("rows"));
    let first = first_value_udaf().call(vec![column]).alias(fresh("first"));
    let single = LogicalPlanBuilder::from(plan.clone()).aggregate(Vec::<Expr>::new(), vec![rows, first])?.build()?;
    let args = single.schema().columns().into_iter().map(Expr::Column).collect();
    let function = ScalarUDF::new_from_impl(OneRow { signature: Signature::any(2, Volatility::Immutable) });
    LogicalPlanBuilder::from(single).project([function.call(args).alias(name)])?.build()
}

/// `ogee_one_row(rows, value)`: the value, of at most one row.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OneRow {
    signature: Signature,
}

impl ScalarUDFImpl for OneRow {
    fn name(&self) -> &str {
        "ogee_one_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[1].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        use datafusion::arrow::{array::AsArray, datatypes::Int64Type};
        let rows = args.args[0].to_array(args.number_rows)?;
        if rows.as_primitive::<Int64Type>().iter().flatten().any(|rows| rows > 1) {
            return exec_err!("a scalar subquery returned more than one row; aggregate its rows, or add LIMIT 1");
        }
        Ok(args.args[1].clone())
    }
}
