//! Types of outer columns within subqueries, as they are when types are coerced.
//!
//! A subquery is planned with the types that the columns around it have then. Those of a union, or of what other rules compute in another type, are told later: its
//! comparisons would be of values of different types, which kernels refuse. Where one has changed, types are coerced again.
//!
//! Not here: types within one query, which DataFusion follows up.

use std::sync::Arc;

use datafusion::{
    common::{
        DFSchema, Result,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    config::ConfigOptions,
    logical_expr::{Expr, LogicalPlan, Subquery, utils::merge_schema},
    optimizer::{AnalyzerRule, analyzer::type_coercion::TypeCoercion},
};

use ogee_functions::marks::is_alike;

use super::has_subquery;
use crate::{
    common_types::CommonTypes,
    quotients::Division,
    trees::{Nodes, Tree},
};

/// See the module; after DataFusion's coercion of types.
#[derive(Debug)]
pub(crate) struct OuterTypes(pub(crate) Arc<Division>);

impl AnalyzerRule for OuterTypes {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let told = with_outer_types(plan)?;
        if !told.transformed {
            return Ok(told.data);
        }
        let plan = told.data.nodes_up(|plan| plan.recompute_schema().map(Transformed::yes)).data()?;
        TypeCoercion::new().analyze(CommonTypes(Arc::clone(&self.0)).analyze(plan, config)?, config)
    }

    fn name(&self) -> &str {
        "outer_types"
    }
}

/// `plan` with outer columns within its subqueries of the types and marks that the columns have now.
pub(crate) fn with_outer_types(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !has_any(&plan)? {
        return Ok(Transformed::no(plan));
    }
    in_plan(plan, &mut Vec::new())
}

/// Whether a subquery is anywhere in `plan`.
fn has_any(plan: &LogicalPlan) -> Result<bool> {
    plan.has(|node| {
        let mut any = matches!(node, LogicalPlan::Subquery(_));
        node.each_expression(|expr| {
            any |= has_subquery(expr);
            Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(any)
    })
}

/// `around`: the columns around the plan, the nearest ones last.
fn in_plan(plan: LogicalPlan, around: &mut Vec<DFSchema>) -> Result<Transformed<LogicalPlan>> {
    let told = plan.with_expressions(|expr| expr.up(|expr| Ok(with_type(expr, around))))?;
    let here = merge_schema(&told.data.inputs());
    let told = told.transform_data(|plan| {
        // The side of a lateral join is no subquery of an expression, and may have a name.
        let beside = matches!(plan, LogicalPlan::Join(_));
        if beside {
            around.push(here.clone());
        }
        let told = plan.map_children(|child| match child {
            LogicalPlan::Subquery(subquery) => within(subquery, &here, around),
            child => in_plan(child, around),
        });
        if beside {
            around.pop();
        }
        told
    })?;
    told.transform_data(|plan| {
        plan.map_subqueries(|plan| match plan {
            LogicalPlan::Subquery(subquery) => within(subquery, &here, around),
            plan => Ok(Transformed::no(plan)),
        })
    })
}

fn within(subquery: Subquery, here: &DFSchema, around: &mut Vec<DFSchema>) -> Result<Transformed<LogicalPlan>> {
    let Subquery { subquery, outer_ref_columns, spans } = subquery;
    around.push(here.clone());
    let told = in_plan(Arc::unwrap_or_clone(subquery), around);
    let columns: Vec<Expr> = outer_ref_columns.into_iter().map(|column| with_type(column, around).data).collect();
    around.pop();
    Ok(told?.update_data(|plan| {
        LogicalPlan::Subquery(Subquery { subquery: Arc::new(plan), outer_ref_columns: columns, spans })
    }))
}

fn with_type(expr: Expr, around: &[DFSchema]) -> Transformed<Expr> {
    let Expr::OuterReferenceColumn(field, column) = expr else { return Transformed::no(expr) };
    let found = around.iter().rev().find_map(|schema| schema.qualified_field_from_column(&column).ok());
    match found {
        Some((_, now)) if now.data_type() != field.data_type() || !is_alike(now, &field) => {
            Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(now), column))
        }
        _ => Transformed::no(Expr::OuterReferenceColumn(field, column)),
    }
}
