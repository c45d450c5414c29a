//! Aggregations: DataFusion's node as the engine's specification.

use std::{collections::HashMap, fmt, sync::Arc};

use datafusion::{
    arrow::{
        array::{ArrayRef, UInt8Array, UInt16Array, UInt32Array, UInt64Array},
        datatypes::{DataType, Schema},
    },
    physical_expr::{
        PhysicalExpr,
        aggregate::AggregateFunctionExpr,
        expressions::{CastExpr, Literal},
    },
    physical_plan::{
        ExecutionPlan,
        aggregates::{AggregateExec, AggregateInputMode, AggregateMode as DataFusionMode, PhysicalGroupBy},
    },
};
use ogee_exec::{
    Expr,
    aggregate::{
        AggregateCall, AggregateFunction, AggregateMode, AggregateSpec, GroupKey, GroupingSet, RegrKind, finer_sets,
        supports,
    },
};
use ogee_vector::{PhysicalType, normalize_schema, normalize_type};

use super::collected;
use crate::expr::{translate, translate_predicate};

/// An aggregation that the engine runs.
#[derive(Clone, Debug)]
pub struct Aggregate {
    spec: AggregateSpec,
    expressions: Vec<Arc<dyn PhysicalExpr>>,
    description: String,
}

impl Aggregate {
    /// What `node` does, or `None` if it has an aggregate that the engine does not.
    pub fn of(node: &AggregateExec) -> Option<Self> {
        let mode = match node.mode() {
            DataFusionMode::Single | DataFusionMode::SinglePartitioned => AggregateMode::Single,
            DataFusionMode::Partial => AggregateMode::Partial,
            DataFusionMode::Final | DataFusionMode::FinalPartitioned => AggregateMode::Final,
            DataFusionMode::PartialReduce => return None,
        };
        Self::with(node, mode, &node.schema())
    }

    /// What `last` makes of the states of `first`, in one step: the engine needs no two, and not all aggregates have states that can be passed
    /// on. DataFusion plans two steps for grouping sets.
    pub fn of_both(first: &AggregateExec, last: &AggregateExec) -> Option<Self> {
        let two_steps = *first.mode() == DataFusionMode::Partial
            && matches!(last.mode(), DataFusionMode::Final | DataFusionMode::FinalPartitioned);
        two_steps.then(|| Self::with(first, AggregateMode::Single, &last.schema())).flatten()
    }

    /// What `first` begins, in one step from rows to the columns of `output`.
    pub fn single(first: &AggregateExec, output: &Schema) -> Option<Self> {
        match first.mode() {
            DataFusionMode::Single | DataFusionMode::SinglePartitioned | DataFusionMode::Partial => {
                Self::with(first, AggregateMode::Single, output)
            }
            _ => None,
        }
    }

    /// `function` of other arguments, over rows of `input`.
    pub fn call(
        function: &AggregateFunctionExpr,
        exprs: Vec<Arc<dyn PhysicalExpr>>,
        filter: Option<&Arc<dyn PhysicalExpr>>,
        input: &Schema,
    ) -> Option<AggregateCall> {
        let filter = filter.map(|filter| translate_predicate(filter, input)).transpose().ok()?;
        let exact = function.fun().name() == "avg";
        let call = call_of(function, raw_input(exprs, filter, input, exact)?)?;
        supports(&call, AggregateMode::Single).then_some(call)
    }

    /// The first of two steps with a join in between: `calls`, described as `described`, for each combination of `keys`, as states.
    pub fn before_join(
        keys: &PhysicalGroupBy,
        calls: Vec<AggregateCall>,
        expressions: Vec<Arc<dyn PhysicalExpr>>,
        described: &[String],
        input: &Schema,
        output: &Schema,
    ) -> Option<Self> {
        let spec = AggregateSpec {
            keys: group_keys(keys, input)?,
            grouping_sets: None,
            aggregates: calls,
            collected: None,
            mode: AggregateMode::Partial,
            schema: normalize_schema(output),
        };
        let description = describe(keys, described, &spec);
        Some(Self { spec, expressions, description })
    }

    /// The second step: what `whole` would give, of states.
    pub fn after_join(
        whole: &Self,
        keys: &PhysicalGroupBy,
        calls: Vec<AggregateCall>,
        described: &[String],
        input: &Schema,
    ) -> Option<Self> {
        let spec = AggregateSpec {
            keys: group_keys(keys, input)?,
            aggregates: calls,
            mode: AggregateMode::Final,
            ..whole.spec.clone()
        };
        let description = describe(keys, described, &spec);
        Some(Self { spec, expressions: keys.input_exprs(), description })
    }

    fn with(node: &AggregateExec, mode: AggregateMode, output: &Schema) -> Option<Self> {
        let input = node.input().schema();
        let groups = node.group_expr();
        let keys = group_keys(groups, &input)?;
        let schema = normalize_schema(output);
        let grouping_sets = match groups.has_grouping_set() {
            true => Some(grouping_sets(groups, schema.field(keys.len()).data_type())?),
            false => None,
        };
        let (aggregates, collected) = match calls(node, mode, keys.len()) {
            Some(calls) => (calls, None),
            None if mode == AggregateMode::Single => (Vec::new(), Some(collected::collected(node)?)),
            None => return None,
        };
        let expressions = expressions(node);
        let spec = AggregateSpec { keys, grouping_sets, aggregates, collected, mode, schema };
        let description = describe(groups, &described(node), &spec);
        Some(Self { spec, expressions, description })
    }

    /// Whether values of a group must come in an order, which the engine then makes itself.
    pub fn orders_values(&self) -> bool {
        self.spec.collected.as_ref().is_some_and(|collected| !collected.order.is_empty())
    }

    /// The specification, for one run.
    pub fn spec(&self) -> &AggregateSpec {
        &self.spec
    }

    /// The expressions over the input.
    pub fn expressions(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.expressions.clone()
    }
}

impl fmt::Display for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.description)
    }
}

fn group_keys(groups: &PhysicalGroupBy, input: &Schema) -> Option<Vec<GroupKey>> {
    let key = |(expr, _): &(Arc<dyn PhysicalExpr>, String)| {
        let data_type = normalize_type(&expr.data_type(input).ok()?);
        PhysicalType::of(&data_type).ok()?;
        Some(GroupKey { expr: translate(expr, input).ok()?, data_type })
    };
    groups.expr().iter().map(key).collect()
}

fn describe(groups: &PhysicalGroupBy, calls: &[String], spec: &AggregateSpec) -> String {
    let key = |(expr, name): &(Arc<dyn PhysicalExpr>, String)| {
        let text = expr.to_string();
        match text.rsplit_once('@') {
            Some((column, _)) if column == name => text,
            _ => format!("{text} as {name}"),
        }
    };
    let keys: Vec<_> = groups.expr().iter().map(key).collect();
    let mut text = format!("mode={:?}, keys=[{}]", spec.mode, keys.join(", "));
    if groups.has_grouping_set() {
        let set = |nulls: &Vec<bool>| {
            let present = nulls.iter().zip(groups.expr()).filter(|(null, _)| !**null);
            let names: Vec<_> = present.map(|(_, (_, name))| name.as_str()).collect();
            format!("({})", names.join(", "))
        };
        let sets = groups.groups();
        let described = sets.iter().zip(finer_sets(spec)).map(|(nulls, finer)| match finer {
            Some(finer) => format!("{} of {}", set(nulls), set(&sets[finer])),
            None => set(nulls),
        });
        text.push_str(&format!(", sets=[{}]", described.collect::<Vec<_>>().join(", ")));
    }
    text.push_str(&format!(
        ", {}=[{}]",
        if spec.collected.is_some() { "collected" } else { "aggregates" },
        calls.join(", ")
    ));
    text
}

/// Its aggregates, in words.
pub(crate) fn described(node: &AggregateExec) -> Vec<String> {
    let calls = node.aggr_expr().iter().zip(node.filter_expr());
    calls
        .map(|(call, filter)| match filter {
            Some(filter) if node.mode().input_mode() == AggregateInputMode::Raw && !call.name().contains("FILTER") => {
                format!("{} FILTER ({filter})", call.name())
            }
            _ => call.name().to_owned(),
        })
        .collect()
}

fn expressions(node: &AggregateExec) -> Vec<Arc<dyn PhysicalExpr>> {
    let mut all = node.group_expr().input_exprs();
    if node.mode().input_mode() == AggregateInputMode::Raw {
        all.extend(node.aggr_expr().iter().flat_map(|call| call.expressions()));
        all.extend(node.filter_expr().iter().flatten().cloned());
    }
    all
}

/// The aggregates of `node` for which the engine has kernels, after `keys` key columns; `None` if there is one without.
fn calls(node: &AggregateExec, mode: AggregateMode, keys: usize) -> Option<Vec<AggregateCall>> {
    let input = node.input().schema();
    // States follow the group columns of the partial aggregation, which are the keys of the final one.
    let mut next_state = keys;
    let mut aggregates = Vec::new();
    for (function, filter) in node.aggr_expr().iter().zip(node.filter_expr()) {
        let call = if node.mode().input_mode() == AggregateInputMode::Partial {
            let states = function.state_fields().ok()?;
            let first = next_state;
            next_state += states.len();
            call_of(
                function,
                AggregateCallInput {
                    args: (first..next_state).map(Expr::Column).collect(),
                    arg_types: states.iter().map(|field| normalize_type(field.data_type())).collect(),
                    filter: None,
                },
            )?
        } else {
            let filter = match filter {
                Some(filter) => Some(translate_predicate(filter, &input).ok()?),
                None => None,
            };
            let exact = mode == AggregateMode::Single && function.fun().name() == "avg";
            call_of(function, raw_input(function.expressions(), filter, &input, exact)?)?
        };
        if !supports(&call, mode) {
            return None;
        }
        aggregates.push(call);
    }
    Some(aggregates)
}

/// What an aggregate reads.
struct AggregateCallInput {
    args: Vec<Expr>,
    arg_types: Vec<DataType>,
    filter: Option<Expr>,
}

/// The arguments `exprs` over rows of `input`. `exact`: integers that were to become floats stay what they are, since they are added up exactly.
fn raw_input(
    mut exprs: Vec<Arc<dyn PhysicalExpr>>,
    filter: Option<Expr>,
    input: &Schema,
    exact: bool,
) -> Option<AggregateCallInput> {
    if exact && let [expr] = exprs.as_mut_slice() {
        let integer = expr.downcast_ref::<CastExpr>().filter(|cast| *cast.cast_type() == DataType::Float64);
        let integer = integer.map(|cast| Arc::clone(cast.expr()));
        let is_integer = |expr: &Arc<dyn PhysicalExpr>| expr.data_type(input).is_ok_and(|of| of.is_integer());
        if let Some(integer) = integer.filter(is_integer) {
            *expr = integer;
        }
    }
    let arg_types =
        exprs.iter().map(|expr| expr.data_type(input).ok().map(|t| normalize_type(&t))).collect::<Option<Vec<_>>>()?;
    let args = exprs.iter().map(|expr| translate(expr, input).ok()).collect::<Option<Vec<_>>>()?;
    Some(AggregateCallInput { args, arg_types, filter })
}

fn call_of(call: &AggregateFunctionExpr, input: AggregateCallInput) -> Option<AggregateCall> {
    use AggregateFunction as F;
    let AggregateCallInput { mut args, mut arg_types, filter } = input;
    let ordered = !call.order_bys().is_empty();
    let mut distinct = call.is_distinct();
    let function = match call.fun().name() {
        "count" => {
            // count(*) arrives as count(1).
            let counts_rows = call
                .expressions()
                .iter()
                .all(|expr| expr.downcast_ref::<Literal>().is_some_and(|literal| !literal.value().is_null()));
            if counts_rows && !distinct { F::CountStar } else { F::Count }
        }
        "sum" => F::Sum,
        "avg" => F::Avg,
        "min" => F::Min,
        "max" => F::Max,
        "any_value" if !ordered => F::AnyValue,
        "first_value" if !ordered => F::FirstValue { ignore_nulls: call.ignore_nulls() },
        "mode" if !distinct => F::Mode,
        "arg_min" => F::ArgMin,
        "arg_max" => F::ArgMax,
        "bool_and" => F::BoolAnd,
        "bool_or" => F::BoolOr,
        "bit_and" => F::BitAnd,
        "bit_or" => F::BitOr,
        "bit_xor" => F::BitXor,
        "var" | "var_samp" => F::VarSample,
        "var_pop" => F::VarPopulation,
        "stddev" | "stddev_samp" => F::StddevSample,
        "stddev_pop" => F::StddevPopulation,
        "covar_samp" => F::CovarSample,
        "covar_pop" => F::CovarPopulation,
        "corr" => F::Correlation,
        "regr_slope" => F::Regression(RegrKind::Slope),
        "regr_intercept" => F::Regression(RegrKind::Intercept),
        "regr_count" => F::Regression(RegrKind::Count),
        "regr_r2" => F::Regression(RegrKind::R2),
        "regr_avgx" => F::Regression(RegrKind::AvgX),
        "regr_avgy" => F::Regression(RegrKind::AvgY),
        "regr_sxx" => F::Regression(RegrKind::Sxx),
        "regr_syy" => F::Regression(RegrKind::Syy),
        "regr_sxy" => F::Regression(RegrKind::Sxy),
        _ => return None,
    };
    // Repeated values change nothing for these.
    if matches!(
        function,
        F::Min
            | F::Max
            | F::ArgMin
            | F::ArgMax
            | F::BoolAnd
            | F::BoolOr
            | F::BitAnd
            | F::BitOr
            | F::AnyValue
            | F::FirstValue { .. }
    ) {
        distinct = false;
    }
    if matches!(function, F::CountStar) && args.iter().all(|arg| matches!(arg, Expr::Literal(_))) {
        args.clear();
        arg_types.clear();
    }
    Some(AggregateCall {
        function,
        args,
        arg_types,
        filter,
        distinct,
        output: normalize_type(call.field().data_type()),
    })
}

/// The sets with the values of `__grouping_id`: a bit for each key that is NULL in the set, the last key's lowest, and above them how
/// many equal sets came before.
fn grouping_sets(groups: &PhysicalGroupBy, id_type: &DataType) -> Option<Vec<GroupingSet>> {
    let mut seen: HashMap<&[bool], u64> = HashMap::new();
    groups
        .groups()
        .iter()
        .map(|nulls| {
            let ordinal = seen.entry(nulls).or_insert(0);
            let bits = nulls.iter().fold(0_u64, |bits, &null| bits << 1 | u64::from(null));
            let shifted = if nulls.len() < 64 { *ordinal << nulls.len() } else { 0 };
            *ordinal += 1;
            let id = bits | shifted;
            let id: ArrayRef = match id_type {
                DataType::UInt8 => Arc::new(UInt8Array::from(vec![u8::try_from(id).ok()?])),
                DataType::UInt16 => Arc::new(UInt16Array::from(vec![u16::try_from(id).ok()?])),
                DataType::UInt32 => Arc::new(UInt32Array::from(vec![u32::try_from(id).ok()?])),
                DataType::UInt64 => Arc::new(UInt64Array::from(vec![id])),
                _ => return None,
            };
            Some(GroupingSet { nulls: nulls.clone(), id })
        })
        .collect()
}
