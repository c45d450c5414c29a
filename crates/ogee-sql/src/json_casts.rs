//! Casts to JSON and from it, put in the place of DataFusion's, which know JSON as text.
//!
//! What chooses among JSON, or puts it into lists and structs, is marked as what it gives. A table keeps as JSON what is JSON: what a statement writes into a column of JSON is cast to it, whatever the planner made of it before.
//!
//! Not here: what the casts do (`ogee_functions::json`).

use std::sync::Arc;

use datafusion::{
    common::{
        Column, Result,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    config::ConfigOptions,
    logical_expr::{
        DmlStatement, Expr, ExprSchemable, LogicalPlan, Projection, Union, WriteOp,
        expr::{Cast, TryCast},
    },
    optimizer::AnalyzerRule,
};
use ogee_functions::json::{Casts, field, has_json, is_json};

use crate::{kept_names, times::zone_rule::input_schema};

/// See the module.
#[derive(Debug)]
pub(crate) struct JsonCasts {
    casts: Casts,
}

impl JsonCasts {
    pub(crate) fn new(casts: Casts) -> Self {
        Self { casts }
    }

    fn rewrite_plan(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let plan = match plan {
            LogicalPlan::Dml(dml) if matches!(dml.op, WriteOp::Insert(_) | WriteOp::Update) => {
                return self.written(dml);
            }
            LogicalPlan::Union(union) => return self.united(union),
            plan => plan,
        };
        if !may_concern(&plan)? {
            return Ok(Transformed::no(plan));
        }
        let schema = input_schema(&plan)?;
        let rewritten = kept_names::map_expressions(plan, |expr| {
            // Lambdas were planned for the fields that arguments had.
            let has_lambdas = expr.exists(|expr| Ok(matches!(expr, Expr::HigherOrderFunction(_))))?;
            expr.transform_up(|expr| {
                let (of, to, tries) = match &expr {
                    Expr::Cast(Cast { expr, field }) => (expr, field, false),
                    Expr::TryCast(TryCast { expr, field }) => (expr, field, true),
                    Expr::Case(_) | Expr::ScalarFunction(_) if !has_lambdas => {
                        return Ok(match self.casts.kept(&expr, &schema)? {
                            Some(kept) => Transformed::yes(kept),
                            None => Transformed::no(expr),
                        });
                    }
                    _ => return Ok(Transformed::no(expr)),
                };
                let Ok((_, from)) = of.to_field(&schema) else { return Ok(Transformed::no(expr)) };
                Ok(match self.casts.cast(of, &from, to, tries)? {
                    Some(cast) => Transformed::yes(cast),
                    None => Transformed::no(expr),
                })
            })
        })?;
        if !rewritten.transformed {
            return Ok(rewritten);
        }
        rewritten.map_data(LogicalPlan::recompute_schema)
    }

    /// `union` with JSON in all rows of a column that has some: what stands beside it is cast.
    fn united(&self, union: Union) -> Result<Transformed<LogicalPlan>> {
        let width = union.schema.fields().len();
        let is_json_at = |input: &LogicalPlan, at: usize| input.schema().fields().get(at).is_some_and(|of| is_json(of));
        let beside: Vec<usize> = (0..width)
            .filter(|&at| union.inputs.iter().any(|input| is_json_at(input, at)))
            .filter(|&at| !union.inputs.iter().all(|input| is_json_at(input, at)))
            .collect();
        if beside.is_empty() {
            return Ok(Transformed::no(LogicalPlan::Union(union)));
        }
        let mut inputs = Vec::with_capacity(union.inputs.len());
        for input in union.inputs {
            let mut exprs = Vec::with_capacity(width);
            for (at, (qualifier, from)) in input.schema().iter().enumerate() {
                let column = Expr::Column(Column::from((qualifier, from)));
                let cast = match beside.contains(&at) && !is_json(from) {
                    true => self.casts.cast(&column, from, &field(""), false)?,
                    false => None,
                };
                exprs.push(cast.map_or(column, |cast| cast.alias_qualified(qualifier.cloned(), from.name())));
            }
            inputs.push(Arc::new(LogicalPlan::Projection(Projection::try_new(exprs, input)?)));
        }
        Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
    }

    /// `dml` with what it writes cast to JSON where its table has that.
    fn written(&self, dml: DmlStatement) -> Result<Transformed<LogicalPlan>> {
        let table = dml.target.schema();
        let written = dml.input.schema();
        if written.fields().len() != table.fields().len() || !table.fields().iter().any(|field| has_json(field)) {
            return Ok(Transformed::no(LogicalPlan::Dml(dml)));
        }
        let mut any = false;
        let mut exprs = Vec::with_capacity(table.fields().len());
        for ((qualifier, from), to) in written.iter().zip(table.fields()) {
            let is_known = from.data_type() == to.data_type() && has_json(from) == has_json(to);
            let column = Expr::Column(Column::from((qualifier, from)));
            exprs.push(match self.casts.cast(&column, from, to, false)?.filter(|_| !is_known) {
                Some(cast) => {
                    any = true;
                    cast.alias(from.name())
                }
                None => column,
            });
        }
        if !any {
            return Ok(Transformed::no(LogicalPlan::Dml(dml)));
        }
        let input = LogicalPlan::Projection(Projection::try_new(exprs, Arc::clone(&dml.input))?);
        Ok(Transformed::yes(LogicalPlan::Dml(DmlStatement { input: Arc::new(input), ..dml })))
    }
}

/// Whether `plan` casts or chooses anything. Most nodes of a statement with many tables do not, and have wide schemas.
fn may_concern(plan: &LogicalPlan) -> Result<bool> {
    let is_one =
        |expr: &Expr| matches!(expr, Expr::Cast(_) | Expr::TryCast(_) | Expr::Case(_) | Expr::ScalarFunction(_));
    let mut any = false;
    plan.apply_expressions(|expr| {
        any = expr.exists(|expr| Ok(is_one(expr)))?;
        Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(any)
}

impl AnalyzerRule for JsonCasts {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| self.rewrite_plan(plan)).data()
    }

    fn name(&self) -> &str {
        "json_casts"
    }
}
