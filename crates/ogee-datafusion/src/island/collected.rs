//! DataFusion's aggregate functions over whole groups: those that the engine has no kernels for, and users' own.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{ArrayRef, AsArray},
        compute::cast,
        datatypes::{DataType, Schema},
    },
    error::Result,
    logical_expr::{EmitTo, GroupsAccumulator},
    physical_expr::{GroupsAccumulatorAdapter, PhysicalExpr, aggregate::AggregateFunctionExpr, expressions::Literal},
    physical_plan::{ExecutionPlan, aggregates::AggregateExec},
    scalar::ScalarValue,
};
use ogee_exec::{
    ExecError, Expr,
    aggregate::{Collected, CollectedAggregates, GroupAccumulators, is_storable},
};
use ogee_vector::{normalize_array, normalize_type};

use crate::{
    error::to_exec,
    expr::{translate, translate_predicate},
};

/// The functions of one aggregation.
#[derive(Debug)]
struct Functions(Vec<Function>);

#[derive(Clone, Debug)]
struct Function {
    expr: Arc<AggregateFunctionExpr>,
    args: Vec<Argument>,
    /// Column of the filter.
    filter: Option<usize>,
}

#[derive(Clone, Debug)]
enum Argument {
    /// A collected column, and the type in which the function wants it.
    Column(usize, DataType),
    Constant(ScalarValue),
}

/// Columns that are collected, each once.
struct Columns<'a> {
    input: &'a Schema,
    exprs: Vec<(Arc<dyn PhysicalExpr>, Expr, DataType)>,
}

impl Columns<'_> {
    fn index(&mut self, expr: &Arc<dyn PhysicalExpr>, predicate: bool) -> Option<usize> {
        if let Some(known) = self.exprs.iter().position(|(other, ..)| other == expr) {
            return Some(known);
        }
        let data_type = normalize_type(&expr.data_type(self.input).ok()?);
        if !is_storable(&data_type) {
            return None;
        }
        let translated = match predicate {
            true => translate_predicate(expr, self.input).ok()?,
            false => translate(expr, self.input).ok()?,
        };
        self.exprs.push((Arc::clone(expr), translated, data_type));
        Some(self.exprs.len() - 1)
    }
}

/// All aggregates of `node`, whose input is raw rows, as functions over whole groups; `None` if a value has no row form.
pub(super) fn collected(node: &AggregateExec) -> Option<Collected> {
    let input = node.input().schema();
    let mut columns = Columns { input: &input, exprs: Vec::new() };
    let mut functions = Vec::with_capacity(node.aggr_expr().len());
    for (expr, filter) in node.aggr_expr().iter().zip(node.filter_expr()) {
        // What a function is ordered by follows its arguments, as DataFusion's own operator hands it over.
        let ordered_by = expr.order_bys().iter().map(|by| Arc::clone(&by.expr));
        let args = expr.expressions().into_iter().chain(ordered_by).map(|arg| {
            if let Some(literal) = arg.downcast_ref::<Literal>() {
                return Some(Argument::Constant(literal.value().clone()));
            }
            let declared = arg.data_type(&input).ok()?;
            Some(Argument::Column(columns.index(&arg, false)?, declared))
        });
        let args = args.collect::<Option<Vec<_>>>()?;
        let filter = match filter {
            Some(filter) => Some(columns.index(filter, true)?),
            None => None,
        };
        functions.push(Function { expr: Arc::clone(expr), args, filter });
    }
    let mut order = Vec::new();
    if let Some(requirement) = node.required_input_ordering().swap_remove(0) {
        for by in requirement.into_single() {
            order.push((columns.index(&by.expr, false)?, by.options.unwrap_or_default()));
        }
    }
    let columns = columns.exprs.into_iter().map(|(_, expr, data_type)| (expr, data_type)).collect();
    Some(Collected { columns, order, aggregates: Arc::new(Functions(functions)) })
}

impl CollectedAggregates for Functions {
    fn make(&self) -> Result<Box<dyn GroupAccumulators>, ExecError> {
        let states = self.0.iter().map(|function| Ok((function.clone(), accumulator(&function.expr)?)));
        Ok(Box::new(Accumulators(states.collect::<Result<_>>().map_err(to_exec)?)))
    }
}

/// The function's own accumulator for many groups, or one for each group.
fn accumulator(expr: &Arc<AggregateFunctionExpr>) -> Result<Box<dyn GroupsAccumulator>> {
    if expr.groups_accumulator_supported() {
        return expr.create_groups_accumulator();
    }
    let expr = Arc::clone(expr);
    Ok(Box::new(GroupsAccumulatorAdapter::new(move || expr.create_accumulator())))
}

struct Accumulators(Vec<(Function, Box<dyn GroupsAccumulator>)>);

impl GroupAccumulators for Accumulators {
    fn update(&mut self, columns: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<(), ExecError> {
        for (function, states) in &mut self.0 {
            let args = function.args.iter().map(|arg| {
                Ok(match arg {
                    Argument::Column(column, declared) if columns[*column].data_type() == declared => {
                        Arc::clone(&columns[*column])
                    }
                    Argument::Column(column, declared) => cast(&columns[*column], declared)?,
                    Argument::Constant(value) => value.to_array_of_size(groups.len())?,
                })
            });
            let args = args.collect::<Result<Vec<_>>>().map_err(to_exec)?;
            let filter = function.filter.map(|column| columns[column].as_boolean());
            states.update_batch(&args, groups, filter, total_groups).map_err(to_exec)?;
        }
        Ok(())
    }

    fn size(&self) -> usize {
        self.0.iter().map(|(_, states)| states.size()).sum()
    }

    fn evaluate(&mut self) -> Result<Vec<ArrayRef>, ExecError> {
        self.0
            .iter_mut()
            .map(|(_, states)| Ok(normalize_array(&states.evaluate(EmitTo::All).map_err(to_exec)?)?))
            .collect()
    }
}
