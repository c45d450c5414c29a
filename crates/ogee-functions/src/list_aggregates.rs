//! Aggregates of the elements of a list: `list_sum(l)`, `list_aggregate(l, 'sum')`.
//!
//! Each is the aggregate of that name in the session that they are registered in, of the elements of one list at a time.
//!
//! Not here: the aggregates.

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
    sync::Arc,
};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, ListArray, UInt64Array, make_comparator, new_empty_array, new_null_array},
        compute::{SortOptions, cast, take},
        datatypes::{DataType, Field, FieldRef, Schema},
    },
    common::{Result, ScalarValue, exec_err, internal_err, not_impl_err, plan_err},
    execution::FunctionRegistry,
    logical_expr::{
        AggregateUDF, ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility, function::AccumulatorArgs, type_coercion::functions::fields_with_udf,
    },
    physical_expr::{
        PhysicalExpr,
        expressions::{Column, Literal},
    },
    prelude::SessionContext,
};
use ogee_vector::canonical_floats;

use crate::{
    floats::counts_values,
    lists::{self, is_list},
    marks::{CHOOSING_AGGREGATES, has_mark},
    times::extremum::interval_extremum,
};

/// What comes behind `list_`, and the aggregate of the session.
const AGGREGATES: [(&str, &str); 29] = [
    ("any_value", "any_value"),
    ("approx_count_distinct", "approx_distinct"),
    ("avg", "avg"),
    ("bit_and", "bit_and"),
    ("bit_or", "bit_or"),
    ("bit_xor", "bit_xor"),
    ("bool_and", "bool_and"),
    ("bool_or", "bool_or"),
    ("count", "count"),
    ("entropy", "entropy"),
    ("first", "first_value"),
    ("histogram", "histogram"),
    ("kurtosis", "kurtosis"),
    ("kurtosis_pop", "kurtosis_pop"),
    ("last", "last_value"),
    ("mad", "mad"),
    ("max", "max"),
    ("median", "median"),
    ("min", "min"),
    ("mode", "mode"),
    ("product", "product"),
    ("sem", "sem"),
    ("skewness", "skewness"),
    ("stddev_pop", "stddev_pop"),
    ("stddev_samp", "stddev"),
    ("string_agg", "string_agg"),
    ("sum", "sum"),
    ("var_pop", "var_pop"),
    ("var_samp", "var"),
];

/// Other names, of those that `list_aggregate` is told.
const OTHER_NAMES: [(&str, &str); 16] = [
    ("approx_quantile", "quantile_disc"),
    ("arbitrary", "first"),
    ("array_agg", "array_agg"),
    ("favg", "avg"),
    ("fsum", "sum"),
    ("group_concat", "string_agg"),
    ("kahan_sum", "sum"),
    ("list", "array_agg"),
    ("listagg", "string_agg"),
    ("mean", "avg"),
    ("quantile", "quantile_disc"),
    ("sumkahan", "sum"),
    ("stddev", "stddev_samp"),
    ("variance", "var_samp"),
    ("quantile_cont", "quantile_cont"),
    ("quantile_disc", "quantile_disc"),
];

/// Registers the functions in `context`, which has the aggregates.
///
/// # Errors
/// If there is no aggregate of a name.
pub fn register(context: &SessionContext) -> Result<()> {
    let mut known = BTreeMap::new();
    for (name, aggregate) in AGGREGATES {
        let aggregate = context.udaf(aggregate)?;
        known.insert(name, Arc::clone(&aggregate));
        let which = Which::One(aggregate);
        let aliases = vec![format!("array_{name}")];
        context.register_udf(ScalarUDF::new_from_impl(ListAggregate::new(format!("list_{name}"), aliases, which)));
    }
    for (name, other) in OTHER_NAMES {
        let aggregate = match known.get(other) {
            Some(aggregate) => Arc::clone(aggregate),
            None => context.udaf(other)?,
        };
        known.insert(name, aggregate);
    }
    let aliases = ["array_aggregate", "list_aggr", "array_aggr", "aggregate"].map(str::to_owned).into();
    let named = ListAggregate::new("list_aggregate".to_owned(), aliases, Which::Named(known));
    context.register_udf(ScalarUDF::new_from_impl(named));
    Ok(())
}

/// Which aggregate it is.
#[derive(Debug, PartialEq, Eq)]
enum Which {
    One(Arc<AggregateUDF>),
    /// The one that the second argument names.
    Named(BTreeMap<&'static str, Arc<AggregateUDF>>),
}

#[derive(Debug, PartialEq, Eq)]
struct ListAggregate {
    name: String,
    aliases: Vec<String>,
    which: Which,
    signature: Signature,
}

impl Hash for ListAggregate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ListAggregate {
    fn new(name: String, aliases: Vec<String>, which: Which) -> Self {
        Self { name, aliases, which, signature: Signature::user_defined(Volatility::Immutable) }
    }

    /// The aggregate, and how many arguments come before those that it has beside the elements.
    fn aggregate(&self, name: Option<&ScalarValue>) -> Result<(&Arc<AggregateUDF>, usize)> {
        match &self.which {
            Which::One(aggregate) => Ok((aggregate, 1)),
            Which::Named(known) => {
                let Some(name) = name.and_then(|name| name.try_as_str().flatten()) else {
                    return plan_err!("{} takes the name of an aggregate as a constant", self.name);
                };
                match known.get(name.to_ascii_lowercase().as_str()) {
                    Some(aggregate) => Ok((aggregate, 2)),
                    None => {
                        let names: Vec<&str> = known.keys().copied().collect();
                        plan_err!("{} knows no aggregate '{name}'; it knows {}", self.name, names.join(", "))
                    }
                }
            }
        }
    }
}

/// What `aggregate` takes beside the elements if nothing is said: texts are put together with a comma between them.
fn implied(aggregate: &AggregateUDF) -> Option<ScalarValue> {
    (aggregate.name() == "string_agg").then(|| ScalarValue::Utf8(Some(",".to_owned())))
}

/// The type of the elements of a list.
fn element(list: &DataType) -> Result<DataType> {
    match (lists::element(list), list) {
        (Some(element), _) => Ok(element.data_type().clone()),
        (None, DataType::Null) => Ok(DataType::Null),
        (None, other) => internal_err!("{other} is no list"),
    }
}

/// The fields that `aggregate` takes for elements of a list and constants.
fn fields(aggregate: &AggregateUDF, list: &DataType, constants: &[DataType]) -> Result<Vec<FieldRef>> {
    let types = std::iter::once(element(list)?).chain(constants.iter().cloned());
    let given: Vec<FieldRef> = types.map(|data_type| Arc::new(Field::new("x", data_type, true))).collect();
    fields_with_udf(&given, aggregate)
}

impl ScalarUDFImpl for ListAggregate {
    fn name(&self) -> &str {
        &self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [list, ..] if is_list(list) || list.is_null() => Ok(arg_types.to_vec()),
            _ => crate::arguments::refused(&self.name, arg_types),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        internal_err!("the type of {} follows from its aggregate", self.name)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let (aggregate, before) = self.aggregate(args.scalar_arguments.get(1).copied().flatten())?;
        let mut types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        types.extend((types.len() == before).then(|| implied(aggregate)).flatten().map(|value| value.data_type()));
        let fields = fields(aggregate, &types[0], types.get(before..).unwrap_or_default())?;
        if counts_values(aggregate.name()) && matches!(fields[0].data_type(), DataType::Interval(_)) {
            return not_impl_err!("{} of intervals is not supported; take it of their epochs", self.name);
        }
        let result = aggregate.return_field(&fields)?;
        let element = lists::element(args.arg_fields[0].data_type());
        // An element is marked text where those of the list are.
        let chosen = element.filter(|of| CHOOSING_AGGREGATES.contains(&aggregate.name()) && has_mark(of));
        if let Some(of) = chosen.filter(|of| of.data_type() == result.data_type()) {
            return Ok(Arc::new(of.as_ref().clone().with_name(&self.name).with_nullable(true)));
        }
        Ok(Arc::new(Field::new(&self.name, result.data_type().clone(), true)))
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let args: Vec<String> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        Ok(format!("{}({})", self.name, args.join(",")))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = |arg: &ColumnarValue| match arg {
            ColumnarValue::Scalar(value) => Ok(value.clone()),
            ColumnarValue::Array(_) => exec_err!("the arguments of {} behind the list are constants", self.name),
        };
        let others = args.args[1..].iter().map(constant).collect::<Result<Vec<_>>>()?;
        let (aggregate, before) = self.aggregate(others.first())?;
        let is_scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let lists = args.args[0].to_array(if is_scalar { 1 } else { args.number_rows })?;
        let result = args.return_field.data_type();
        let mut others = others[before - 1..].to_vec();
        if others.is_empty() {
            others.extend(implied(aggregate));
        }
        let values = aggregated(aggregate, &lists, &others, &args.return_field)?;
        debug_assert_eq!(values.data_type(), result);
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
            false => ColumnarValue::Array(values),
        })
    }
}

/// Which element of lists, structs and maps it is: DataFusion compares no such values within one another.
#[derive(Clone, Copy)]
enum Extreme {
    Least,
    Greatest,
}

impl Extreme {
    fn of(aggregate: &str) -> Option<Self> {
        match aggregate {
            "min" => Some(Self::Least),
            "max" => Some(Self::Greatest),
            _ => None,
        }
    }

    /// That of each of `lists`, NULL within the elements being greatest.
    fn of_lists(self, lists: &ListArray, result: &DataType) -> Result<ArrayRef> {
        let elements = canonical_floats(lists.values());
        let compare = make_comparator(&elements, &elements, SortOptions { descending: false, nulls_first: false })?;
        let best = |row: usize| {
            let (first, behind) = (lists.value_offsets()[row] as usize, lists.value_offsets()[row + 1] as usize);
            let valid = (first..behind).filter(|&at| lists.is_valid(row) && elements.is_valid(at));
            let best = match self {
                Self::Least => valid.min_by(|&a, &b| compare(a, b)),
                Self::Greatest => valid.max_by(|&a, &b| compare(a, b)),
            };
            best.map(|at| at as u64)
        };
        let chosen: UInt64Array = (0..lists.len()).map(best).collect();
        Ok(cast(&take(&elements, &chosen, None)?, result)?)
    }
}

fn aggregated(
    aggregate: &AggregateUDF,
    lists: &ArrayRef,
    constants: &[ScalarValue],
    return_field: &FieldRef,
) -> Result<ArrayRef> {
    let result = return_field.data_type();
    if lists.data_type().is_null() {
        return Ok(new_null_array(result, lists.len()));
    }
    let types: Vec<DataType> = constants.iter().map(ScalarValue::data_type).collect();
    let expr_fields = fields(aggregate, lists.data_type(), &types)?;
    let lists =
        cast(lists, &DataType::List(Arc::new(Field::new_list_field(expr_fields[0].data_type().clone(), true))))?;
    let mut lists = lists.as_list::<i32>().clone();
    if counts_values(aggregate.name()) {
        // -0.0 is 0.0, and there is one NaN.
        let field = Arc::new(Field::new_list_field(lists.value_type(), true));
        let values = canonical_floats(lists.values());
        lists = ListArray::try_new(field, lists.offsets().clone(), values, lists.nulls().cloned())?;
    }
    let by_length;
    let aggregate = match (lists.value_type(), Extreme::of(aggregate.name())) {
        (nested, Some(extreme)) if nested.is_nested() => return extreme.of_lists(&lists, result),
        (DataType::Interval(_), Some(extreme)) => {
            by_length = interval_extremum(matches!(extreme, Extreme::Greatest));
            &*by_length
        }
        _ => aggregate,
    };
    let schema = Schema::new(vec![Arc::clone(&expr_fields[0])]);
    let mut exprs: Vec<Arc<dyn PhysicalExpr>> = vec![Arc::new(Column::new("x", 0))];
    let mut others = Vec::with_capacity(constants.len());
    for (value, field) in constants.iter().zip(&expr_fields[1..]) {
        let value = value.cast_to(field.data_type())?;
        exprs.push(Arc::new(Literal::new(value.clone())));
        others.push(value);
    }
    let accumulator = || {
        aggregate.accumulator(AccumulatorArgs {
            return_field: Arc::clone(return_field),
            schema: &schema,
            ignore_nulls: false,
            order_bys: &[],
            is_reversed: false,
            name: aggregate.name(),
            is_distinct: false,
            exprs: &exprs,
            expr_fields: &expr_fields,
        })
    };
    let mut values = Vec::with_capacity(lists.len());
    for row in 0..lists.len() {
        if lists.is_null(row) {
            values.push(ScalarValue::try_from(result)?);
            continue;
        }
        let elements = lists.value(row);
        let mut batch = vec![Arc::clone(&elements)];
        for other in &others {
            batch.push(other.to_array_of_size(elements.len())?);
        }
        let mut accumulator = accumulator()?;
        accumulator.update_batch(&batch)?;
        values.push(accumulator.evaluate()?);
    }
    let values = if values.is_empty() { new_empty_array(result) } else { ScalarValue::iter_to_array(values)? };
    Ok(cast(&values, result)?)
}
