//! What DataFusion's pull-up of correlated conditions does right.
//!
//! It takes correlated conditions out of a subquery's filters and makes them conditions of a join. That is right where nothing between the filter and the join tells the
//! rows of one outer row from those of another: projections, inner joins, groups of more keys, one aggregate of all rows directly below what is selected. Where it is not,
//! DataFusion loses rows of empty groups, rows that an outer join keeps, limits, and columns of equal names, and does not say so. Those are left to the `domain`.
//!
//! Not here: the pull-up, and the joins.

use std::collections::BTreeSet;

use datafusion::{
    arrow::datatypes::DataType,
    common::{Column, tree_node::TreeNode},
    logical_expr::{Expr, JoinType, LogicalPlan},
    optimizer::decorrelate::PullUpCorrelatedExpr,
};

use super::outer_references;
use crate::trees::Tree;

/// What is asked of the rows of a subquery.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Whether there are any.
    Existence,
    /// Whether a value is among those of the first column.
    Membership,
    /// All of them, or the one that there is.
    Rows,
}

/// `plan` with what correlates it pulled up, if that is right.
pub(super) fn pulled_up(plan: &LogicalPlan, wanted: Wanted) -> Option<(LogicalPlan, PullUpCorrelatedExpr)> {
    if !is_pullable(plan, wanted, true) {
        return None;
    }
    let mut pull_up = match wanted {
        Wanted::Existence => PullUpCorrelatedExpr::new().with_exists_sub_query(true),
        Wanted::Membership | Wanted::Rows => PullUpCorrelatedExpr::new().with_need_handle_count_bug(true),
    };
    let rows = plan.clone().rewrite(&mut pull_up).ok()?.data;
    let is_right = pull_up.can_pull_up && pull_up.pull_up_having_expr.is_none() && exposes(&rows, &pull_up, wanted);
    is_right.then_some((rows, pull_up))
}

/// Whether `plan` gives what is `wanted` once its conditions are above it; `is_selected`: nothing but projections is above.
fn is_pullable(plan: &LogicalPlan, wanted: Wanted, is_selected: bool) -> bool {
    if outer_references(plan).is_empty() {
        return true;
    }
    match plan {
        LogicalPlan::Projection(projection) => is_pullable(&projection.input, wanted, is_selected),
        LogicalPlan::SubqueryAlias(alias) => is_pullable(&alias.input, wanted, is_selected),
        LogicalPlan::Filter(filter) => is_pullable(&filter.input, wanted, false),
        LogicalPlan::Sort(sort) => sort.fetch.is_none() && is_pullable(&sort.input, wanted, false),
        // Rows that are equal need not come from one outer row.
        LogicalPlan::Distinct(distinct) => wanted != Wanted::Rows && is_pullable(distinct.input(), wanted, false),
        LogicalPlan::Aggregate(aggregate) => {
            let is_grouped = match aggregate.group_expr.as_slice() {
                // A row comes of no rows. DataFusion knows of that for values that are selected as they are.
                [] => wanted == Wanted::Rows && is_selected,
                [Expr::GroupingSet(_)] => false,
                _ => wanted != Wanted::Rows || !aggregate.aggr_expr.is_empty(),
            };
            is_grouped && !has_outer_intervals(&aggregate.input) && is_pullable(&aggregate.input, wanted, false)
        }
        LogicalPlan::Join(join) => {
            use JoinType::{Full, Inner, Right, RightAnti, RightMark, RightSemi};
            // What may be missing from the rows of a join is not missing because of an outer row.
            let (left, right) = match join.join_type {
                Inner => (true, true),
                Full => (false, false),
                Right | RightAnti | RightMark | RightSemi => (false, true),
                _ => (true, false),
            };
            [(&join.left, left), (&join.right, right)].into_iter().all(|(side, is_kept)| match is_kept {
                true => is_pullable(side, wanted, false),
                false => outer_references(side).is_empty(),
            })
        }
        _ => false,
    }
}

/// Whether `plan` refers to an outer interval. Intervals are equal by their lengths, and DataFusion takes no equality of what is computed above groups.
fn has_outer_intervals(plan: &LogicalPlan) -> bool {
    let is_one = |expr: &Expr| matches!(expr, Expr::OuterReferenceColumn(field, _) if matches!(field.data_type(), DataType::Interval(_)));
    // What looks never fails.
    plan.has(|node| Ok(node.all_out_ref_exprs().iter().any(is_one))).unwrap_or(false)
}

/// Whether `rows` have the columns of the conditions that were pulled up from them, each under a name that no other column has: the join knows them by it. DataFusion drops
/// those of a condition that is below another one and a derived table.
fn exposes(rows: &LogicalPlan, pulled: &PullUpCorrelatedExpr, wanted: Wanted) -> bool {
    let inner: BTreeSet<&Column> = pulled.correlated_subquery_cols_map.values().flatten().collect();
    let columns = pulled.join_filters.iter().flat_map(Expr::column_refs);
    let schema = rows.schema();
    let is_alone = |name: &str| schema.fields().iter().filter(|field| field.name() == name).count() == 1;
    let of_conditions = columns
        .filter(|column| inner.contains(column))
        .all(|column| schema.has_column(column) && is_alone(column.name()));
    of_conditions && (wanted != Wanted::Membership || is_alone(schema.field(0).name()))
}
