//! Parameters of lambdas have the types of the elements that they get, also where analysis changes these.
//!
//! DataFusion finds the types of parameters while it plans, when a CASE has the type of its first branch, and a date with an interval is a date. What is selected below is of another type once it is
//! analyzed, and the plan was refused.
//!
//! Not here: what lambdas are (`syntax`).

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    arrow::datatypes::FieldRef,
    common::{
        DFSchema, Result,
        datatype::FieldExt,
        tree_node::{Transformed, TreeNodeRecursion},
    },
    config::ConfigOptions,
    logical_expr::{
        Expr, ExprSchemable, LambdaParametersProgress, LogicalPlan, ValueOrLambda, cast, expr::HigherOrderFunction,
        utils::merge_schema,
    },
    optimizer::{AnalyzerRule, analyzer::type_coercion::TypeCoercion},
};
use ogee_functions::list_reductions;

use crate::trees::{Nodes, Tree};

/// Each round settles the types of one query, or lambda, more that is within another: more than statements have.
pub(crate) const ROUNDS_MAX: usize = 32;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LambdaTypes;

impl AnalyzerRule for LambdaTypes {
    fn analyze(&self, mut plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_lambdas(&plan)? {
            return Ok(plan);
        }
        for _ in 0..ROUNDS_MAX {
            let resolved = plan.nodes_up(|plan| {
                let schema = merge_schema(&plan.inputs());
                plan.map_expressions(|expr| expr.up(|expr| Ok(resolved(expr, &schema))))
            })?;
            plan = resolved.data;
            if !resolved.transformed {
                break;
            }
            plan = TypeCoercion::new().analyze(plan, config)?;
        }
        Ok(plan)
    }

    fn name(&self) -> &str {
        "lambda_types"
    }
}

/// Whether `expr` has lambdas.
pub(crate) fn has_any(expr: &Expr) -> Result<bool> {
    expr.has(|expr| Ok(matches!(expr, Expr::HigherOrderFunction(_))))
}

/// `expr` with what the lambdas in it are given, of which `schema` has the columns. What has no type yet, or none that a function takes, stays as it is: planning tells.
pub(crate) fn with_parameters(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    // A lambda in another is resolved with that, lists before what is done with them.
    let told = expr.up(|expr| match expr {
        call @ Expr::HigherOrderFunction(_) => Ok(told(call, schema)),
        expr => Ok(Transformed::no(expr)),
    })?;
    Ok(told.data)
}

/// `expr` with the parameters of `list_reduce` in it as they are for its first two elements, before what its lambda gives is known.
pub(crate) fn with_first_parameters(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let begun = expr.up(|expr| {
        let Expr::HigherOrderFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
        if call.func.name() != list_reductions::NAME {
            return Ok(Transformed::no(Expr::HigherOrderFunction(call)));
        }
        let fields: Result<Vec<_>> = call
            .args
            .iter()
            .map(|arg| match arg {
                Expr::Lambda(_) => Ok(ValueOrLambda::Lambda(None)),
                value => value.to_field(schema).map(|(_, field)| ValueOrLambda::Value(field)),
            })
            .collect();
        let first = fields.and_then(|fields| call.func.lambda_parameters(0, &fields));
        if let Ok(LambdaParametersProgress::Partial(first)) = first
            && let [Some(first)] = &first[..]
            && let Some(Expr::Lambda(lambda)) = call.args.iter_mut().find(|arg| matches!(arg, Expr::Lambda(_)))
        {
            let named = lambda.params.iter().zip(first);
            let fields = named.map(|(name, field)| (name.clone(), Arc::clone(field).renamed(name))).collect();
            *lambda.body = with_variables(std::mem::take(&mut *lambda.body), &fields)?;
        }
        Ok(Transformed::yes(Expr::HigherOrderFunction(call)))
    })?;
    Ok(begun.data)
}

/// `expr` with these fields of parameters by their names, but for those within lambdas that have such of their own.
fn with_variables(expr: Expr, fields: &HashMap<String, FieldRef>) -> Result<Expr> {
    let set = expr.down(|expr| match expr {
        Expr::LambdaVariable(mut variable) => {
            if let Some(field) = fields.get(&variable.name) {
                variable.field = Some(Arc::clone(field));
            }
            Ok(Transformed::yes(Expr::LambdaVariable(variable)))
        }
        Expr::Lambda(mut lambda) if lambda.params.iter().any(|param| fields.contains_key(param)) => {
            let mut others = fields.clone();
            others.retain(|name, _| !lambda.params.contains(name));
            *lambda.body = with_variables(std::mem::take(&mut *lambda.body), &others)?;
            Ok(Transformed::new(Expr::Lambda(lambda), true, TreeNodeRecursion::Jump))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(set.data)
}

/// `call`, a function of lambdas, with what these are given, if that is known.
fn told(call: Expr, schema: &DFSchema) -> Transformed<Expr> {
    call.clone().resolve_lambda_variables(schema).unwrap_or_else(|_| Transformed::no(call))
}

/// `expr` with the types of its lambdas' parameters; one that is in another lambda gets them with that.
fn resolved(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Expr::HigherOrderFunction(mut call) = expr else { return Transformed::no(expr) };
    let is_cast = call.func.name() == list_reductions::NAME && as_before(&mut call, schema);
    let mut resolved = told(Expr::HigherOrderFunction(call), schema);
    resolved.transformed |= is_cast;
    resolved
}

/// Casts what the lambda of `call` gives to the type of what there is so far, which it is given next: sums and products of decimals are of a wider type with each. Whether it was another.
fn as_before(call: &mut HigherOrderFunction, schema: &DFSchema) -> bool {
    let mut any = false;
    for arg in &mut call.args {
        let Expr::Lambda(lambda) = arg else { continue };
        let Some(so_far) = lambda.params.first() else { continue };
        let mut before = None;
        let looked = lambda.body.each(|expr| {
            if let Expr::LambdaVariable(variable) = expr
                && variable.name == *so_far
            {
                before = variable.field.clone();
            }
            Ok(if before.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        });
        let (Some(before), Ok(given)) = (before.filter(|_| looked.is_ok()), lambda.body.get_type(schema)) else {
            continue;
        };
        if given != *before.data_type() {
            *lambda.body = cast(std::mem::take(&mut *lambda.body), before.data_type().clone());
            any = true;
        }
    }
    any
}

fn has_lambdas(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.each_node(|node| {
        node.each_expression(|expr| {
            found = found || has_any(expr)?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(found)
}
