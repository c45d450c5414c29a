//! Aggregate functions over whole groups: the engine's own where values are ranked, DataFusion's and users' for all others.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, BooleanArray, new_null_array},
        compute::{SortOptions, cast},
        datatypes::{DataType, Field, Schema},
    },
    error::Result,
    logical_expr::{Accumulator, EmitTo, GroupsAccumulator},
    physical_expr::{
        GroupsAccumulatorAdapter, PhysicalExpr, PhysicalSortExpr, aggregate::AggregateFunctionExpr,
        expressions::Literal,
    },
    physical_plan::{ExecutionPlan, aggregates::AggregateExec},
    scalar::ScalarValue,
};
use ogee_exec::{
    ExecError, Expr,
    aggregate::{
        Collected, CollectedAggregates, DiscreteFraction, Gather, GroupAccumulators, HolisticStates, Mode, OfSorted,
        Quantile, QuantileKind, is_storable,
    },
};
use ogee_functions::{error::to_exec, exported::EXPORT};
use ogee_vector::{normalize_array, normalize_type};

use super::{first_by, float_extremum};
use crate::expr::{translate, translate_predicate};

/// The functions of one aggregation.
#[derive(Debug)]
struct Functions(Vec<Function>);

#[derive(Clone, Debug)]
struct Function {
    expr: Arc<AggregateFunctionExpr>,
    args: Vec<Argument>,
    /// Column of the filter.
    filter: Option<usize>,
    holistic: Option<Holistic>,
    /// What it is ordered by.
    keys: Vec<(DataType, SortOptions)>,
}

/// A function that the engine has itself.
#[derive(Clone, Debug)]
enum Holistic {
    Quantile(Quantile),
    Mode(Mode),
    Gather(Gather),
    Sorted(OfSorted, DataType),
}

impl Holistic {
    /// What `expr` over `args` is, if the engine has it. `ordered`: values come in the order that it asks for.
    fn of(expr: &AggregateFunctionExpr, args: &[Argument], ordered: bool) -> Option<Self> {
        let counts = expr.fun().name() == "count" && args.len() == 1;
        if expr.is_distinct() && !counts {
            return None;
        }
        let value = match args.first()? {
            Argument::Column(_, data_type) => normalize_type(data_type),
            Argument::Constant(_) => return None,
        };
        let fraction = || match args.get(1)? {
            Argument::Constant(value) => match value.cast_to(&DataType::Float64).ok()? {
                ScalarValue::Float64(Some(fraction)) if (-1.0..=1.0).contains(&fraction) => Some(fraction),
                _ => None,
            },
            Argument::Column(..) => None,
        };
        // Below 0 it counts from the greatest.
        let descends = expr.order_bys().first().is_some_and(|by| by.options.descending);
        let fraction = || fraction().map(|fraction| (fraction.abs(), descends != (fraction < 0.0)));
        // These are ordered by their length.
        if matches!(value, DataType::Interval(_)) && matches!(expr.fun().name(), "median" | "quantile_disc") {
            return None;
        }
        Some(match expr.fun().name() {
            "median" if value.is_string() || matches!(value, DataType::Boolean | DataType::BinaryView) => {
                Self::sorted(OfSorted::Quantile(DiscreteFraction { share: 0.5, descending: false }), value)?
            }
            "median" => Self::Quantile(Quantile::new(QuantileKind::Median, value)?),
            "percentile_cont" => {
                let (fraction, descending) = fraction()?;
                let fraction = if descending { 1.0 - fraction } else { fraction };
                Self::Quantile(Quantile::new(QuantileKind::Continuous(fraction), value)?)
            }
            "quantile_disc" => {
                let (share, descending) = fraction()?;
                let fraction = DiscreteFraction { share, descending };
                match Quantile::new(QuantileKind::Discrete(fraction), value.clone()) {
                    Some(quantile) => Self::Quantile(quantile),
                    None => Self::sorted(OfSorted::Quantile(fraction), value)?,
                }
            }
            "count" if expr.is_distinct() => Self::sorted(OfSorted::CountDistinct, value)?,
            "mode" => match Mode::new(value.clone()) {
                Some(mode) => Self::Mode(mode),
                None => Self::sorted(OfSorted::Mode, value)?,
            },
            "histogram" => match normalize_type(expr.field().data_type()) {
                DataType::Map(entries, _) if has_key(&entries, &value) => {
                    Self::sorted(OfSorted::Histogram(entries), value)?
                }
                _ => return None,
            },
            "array_agg" if ordered && !expr.ignore_nulls() => match normalize_type(expr.field().data_type()) {
                DataType::List(field) if *field.data_type() == value => Self::Gather(Gather::List(field)),
                _ => return None,
            },
            "string_agg" if ordered && value == DataType::Utf8View => match args.get(1)? {
                Argument::Constant(between) => {
                    Self::Gather(Gather::Join(between.try_as_str()?.unwrap_or_default().to_owned()))
                }
                Argument::Column(..) => return None,
            },
            _ => return None,
        })
    }

    fn sorted(result: OfSorted, value: DataType) -> Option<Self> {
        result.states(&value).is_some().then_some(Self::Sorted(result, value))
    }

    fn states(&self) -> Box<dyn HolisticStates> {
        match self {
            Self::Sorted(result, value) => result.states(value).expect("asked when this was made"),
            Self::Quantile(quantile) => quantile.states(),
            Self::Mode(mode) => mode.states(),
            Self::Gather(gather) => gather.states(),
        }
    }
}

#[derive(Clone, Debug)]
enum Argument {
    /// A collected column, and the type in which the function wants it.
    Column(usize, DataType),
    Constant(ScalarValue),
}

/// Whether `entries` of a map have keys of type `value`.
fn has_key(entries: &Field, value: &DataType) -> bool {
    matches!(entries.data_type(), DataType::Struct(fields) if fields[0].data_type() == value)
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

/// `expr` as it was before it was turned round, if its values are distinct: DataFusion sorts these by the order that was turned round, and does not turn the result.
fn in_its_own_order(expr: &Arc<AggregateFunctionExpr>) -> Option<Arc<AggregateFunctionExpr>> {
    match expr.is_distinct() && expr.is_reversed() {
        true => Some(Arc::new(expr.reverse_expr()?)),
        false => Some(Arc::clone(expr)),
    }
}

/// Aggregates whose value depends on which row of a group comes first.
const IN_ORDER: [&str; 6] = ["array_agg", "first_value", "last_value", "lttb", "nth_value", "string_agg"];

/// Whether the value, or the state, of the aggregate `name` depends on that.
fn is_in_order(name: &str) -> bool {
    IN_ORDER.contains(&name.trim_start_matches(EXPORT))
}

/// Whether one of the aggregates of `node` depends on the order of rows and asks for none, where all that ask for one can sort by themselves.
fn takes_rows_as_they_lie(node: &AggregateExec) -> bool {
    let is_in_order = |expr: &AggregateFunctionExpr| is_in_order(expr.fun().name());
    let has_none =
        |expr: &AggregateFunctionExpr| is_in_order(expr) && expr.order_bys().is_empty() && !expr.is_distinct();
    let sorts = |expr: &Arc<AggregateFunctionExpr>| {
        expr.order_bys().is_empty()
            || !is_in_order(expr)
            // It sorts in any case.
            || expr.fun().name() == "string_agg"
            || matches!(Arc::clone(expr).with_beneficial_ordering(false), Ok(Some(_)))
    };
    let exprs = node.aggr_expr();
    exprs.iter().any(|expr| has_none(expr)) && exprs.iter().all(sorts)
}

/// All aggregates of `node`, whose input is raw rows, as functions over whole groups; `None` if a value has no row form.
pub(super) fn collected(node: &AggregateExec) -> Option<Collected> {
    let input = node.input().schema();
    let mut columns = Columns { input: &input, exprs: Vec::new() };
    let required: Vec<_> = match node.required_input_ordering().swap_remove(0) {
        // One that says nothing of its order has the rows as they lie: the others sort by themselves.
        Some(requirement) if !takes_rows_as_they_lie(node) => requirement.into_single().into_iter().collect(),
        _ => Vec::new(),
    };
    let mut functions = Vec::with_capacity(node.aggr_expr().len());
    for (expr, filter) in node.aggr_expr().iter().zip(node.filter_expr()) {
        let expr = &in_its_own_order(expr)?;
        // What a function is ordered by follows its arguments, as DataFusion's own operator hands it over.
        // A key that is there already, is none to the function.
        let mut keys: Vec<&PhysicalSortExpr> = Vec::with_capacity(expr.order_bys().len());
        for by in expr.order_bys() {
            if !keys.iter().any(|key| key.expr.eq(&by.expr)) {
                keys.push(by);
            }
        }
        let ordered_by = keys.iter().map(|by| Arc::clone(&by.expr));
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
        // Functions that ask for different orders sort by themselves, and so do those that were turned round to ask for the same.
        let ordered = !expr.is_reversed()
            && keys.len() <= required.len()
            && keys.iter().zip(&required).all(|(by, required)| {
                by.expr.eq(&required.expr) && required.options.is_none_or(|options| options == by.options)
            });
        // DataFusion takes an order by a key of the grouping for met, also where sets leave the key out.
        let expr = match ordered {
            true => Arc::clone(expr),
            false => match Arc::clone(expr).with_beneficial_ordering(false).ok()? {
                Some(unordered) => Arc::new(unordered),
                None => Arc::clone(expr),
            },
        };
        let holistic = Holistic::of(&expr, &args, ordered);
        let keys = keys.iter().map(|by| Some((by.expr.data_type(&input).ok()?, by.options)));
        let keys = keys.collect::<Option<Vec<_>>>()?;
        functions.push(Function { expr, args, filter, holistic, keys });
    }
    let mut order = Vec::new();
    // Values are ranked whatever their order.
    let ranks = |function: &Function| matches!(function.holistic, Some(Holistic::Quantile(_) | Holistic::Mode(_)));
    if !functions.iter().all(ranks) {
        for by in required {
            order.push((columns.index(&by.expr, false)?, by.options.unwrap_or_default()));
        }
    }
    let columns = columns.exprs.into_iter().map(|(_, expr, data_type)| (expr, data_type)).collect();
    let order_is_asked = !order.is_empty();
    Some(Collected { columns, order, order_is_asked, aggregates: Arc::new(Functions(functions)) })
}

impl CollectedAggregates for Functions {
    fn depends_on_order(&self) -> bool {
        self.0.iter().any(|function| match &function.holistic {
            Some(holistic) => matches!(holistic, Holistic::Gather(_)),
            None => is_in_order(function.expr.fun().name()),
        })
    }

    fn make(&self) -> Result<Box<dyn GroupAccumulators>, ExecError> {
        let states = self.0.iter().map(|function| {
            let states = match &function.holistic {
                Some(holistic) => States::Holistic { states: holistic.states(), in_passes: false },
                None => States::Foreign(match first_by::accumulator(&function.expr, &function.keys)? {
                    Some(accumulator) => accumulator,
                    None => accumulator(&function.expr)?,
                }),
            };
            Ok((function.clone(), states))
        });
        let functions = states.collect::<Result<_>>().map_err(to_exec)?;
        Ok(Box::new(Accumulators { functions, passes: 0 }))
    }
}

/// The function's own accumulator for many groups, or one for each group.
fn accumulator(expr: &Arc<AggregateFunctionExpr>) -> Result<Box<dyn GroupsAccumulator>> {
    let of = expr.field();
    if let Some(extremum) = float_extremum::accumulator(expr.fun().name(), of.data_type()) {
        return Ok(extremum);
    }
    if expr.groups_accumulator_supported() {
        return expr.create_groups_accumulator();
    }
    let expr = Arc::clone(expr);
    Ok(Box::new(GroupsAccumulatorAdapter::new(move || Ok(Box::new(WithRows(expr.create_accumulator()?)) as _))))
}

/// An accumulator that is asked about rows alone: filters leave batches without any, whose last one some look for.
#[derive(Debug)]
struct WithRows(Box<dyn Accumulator>);

impl Accumulator for WithRows {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if values.first().is_some_and(|values| values.is_empty()) { Ok(()) } else { self.0.update_batch(values) }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.evaluate()
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}

/// States of one function.
enum States {
    Foreign(Box<dyn GroupsAccumulator>),
    Holistic {
        states: Box<dyn HolisticStates>,
        /// It sees values several times.
        in_passes: bool,
    },
}

struct Accumulators {
    functions: Vec<(Function, States)>,
    /// Passes that are over.
    passes: usize,
}

impl Argument {
    fn of(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        Ok(match self {
            Self::Column(column, declared) if columns[*column].data_type() == declared => Arc::clone(&columns[*column]),
            Self::Column(column, declared) => cast(&columns[*column], declared)?,
            Self::Constant(value) => value.to_array_of_size(rows)?,
        })
    }
}

impl GroupAccumulators for Accumulators {
    fn expect(&mut self, rows: usize) {
        for (_, states) in &mut self.functions {
            if let States::Holistic { states, .. } = states {
                states.expect(rows);
            }
        }
    }

    fn update(&mut self, columns: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<(), ExecError> {
        for (function, states) in &mut self.functions {
            let filter = function.filter.map(|column| columns[column].as_boolean());
            match states {
                States::Holistic { states, in_passes } if self.passes == 0 || *in_passes => {
                    let Argument::Column(column, _) = function.args[0] else { unreachable!("checked by `of`") };
                    states.add(&columns[column], filter, groups, total_groups)?;
                }
                States::Foreign(states) if groups.is_empty() && total_groups > 0 => {
                    // A group of no rows: accumulators take it that each group has one, so it gets one that is filtered out.
                    let args = function.args.iter().map(|arg| match arg {
                        Argument::Column(_, declared) => Ok(new_null_array(declared, 1)),
                        Argument::Constant(value) => value.to_array_of_size(1),
                    });
                    let args = args.collect::<Result<Vec<_>>>().map_err(to_exec)?;
                    let none = BooleanArray::from(vec![false]);
                    states.update_batch(&args, &[0], Some(&none), total_groups).map_err(to_exec)?;
                }
                States::Foreign(states) if self.passes == 0 => {
                    let args = function.args.iter().map(|arg| arg.of(columns, groups.len()));
                    let args = args.collect::<Result<Vec<_>>>().map_err(to_exec)?;
                    states.update_batch(&args, groups, filter, total_groups).map_err(to_exec)?;
                }
                // It has seen all rows.
                States::Foreign(_) | States::Holistic { .. } => {}
            }
        }
        Ok(())
    }

    fn size(&self) -> usize {
        let size = |states: &States| match states {
            States::Foreign(states) => states.size(),
            States::Holistic { states, .. } => states.size(),
        };
        self.functions.iter().map(|(_, states)| size(states)).sum()
    }

    fn begin_passes(&mut self) -> bool {
        let mut any = false;
        for (_, states) in &mut self.functions {
            if let States::Holistic { states, in_passes } = states {
                *in_passes = states.begin_passes();
                any |= *in_passes;
            }
        }
        any
    }

    fn end_pass(&mut self) -> bool {
        self.passes += 1;
        let mut again = false;
        for (_, states) in &mut self.functions {
            if let States::Holistic { states, in_passes: true } = states {
                again |= states.end_pass();
            }
        }
        again
    }

    fn evaluate(&mut self) -> Result<Vec<ArrayRef>, ExecError> {
        let results = self.functions.iter_mut().map(|(_, states)| match states {
            States::Foreign(states) => Ok(normalize_array(&states.evaluate(EmitTo::All).map_err(to_exec)?)?),
            States::Holistic { states, .. } => Ok(normalize_array(&states.evaluate()?)?),
        });
        results.collect()
    }
}
