//! `median` of whole numbers of any size as a double, as in DuckDB.
//!
//! `HUGEINT` is a decimal without digits after the point, and DataFusion's median of decimals has as many digits as they: it would cut the half off. Of values that have nothing between
//! them, such as texts, it is the middle one, of two the lower; of dates and timestamps the moment between the two in the middle. All else about `median` is DataFusion's.
//!
//! Not here: the engine's own medians (`ogee_exec::aggregate`).

use std::{mem::size_of_val, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, UInt64Array, new_empty_array},
        compute::{cast, concat, filter, is_not_null, partition, sort, take},
        datatypes::{DECIMAL128_MAX_PRECISION, DataType, FieldRef, Int64Type},
    },
    common::{Result, ScalarValue, plan_err, utils::SingleRowListArrayBuilder},
    functions_aggregate::median::median_udaf,
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
};

use crate::{
    aggregates::{elements, state_list},
    moments,
    type_names::sql_name,
};

/// What the median of values is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// DataFusion's.
    Number,
    /// A moment, from the two in the middle.
    Moment,
    /// One of the values.
    Discrete,
}

fn kind(data_type: &DataType) -> Kind {
    if is_discrete(data_type) {
        Kind::Discrete
    } else if moments::is_moment(data_type) {
        Kind::Moment
    } else {
        Kind::Number
    }
}

/// Whether values of type `data_type` have an order, and nothing between them.
fn is_discrete(data_type: &DataType) -> bool {
    data_type.is_string()
        || matches!(data_type, DataType::Boolean | DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

/// The `median` to register in a session.
pub fn function() -> AggregateUDF {
    AggregateUDF::new_from_impl(Median {
        inner: median_udaf(),
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Median {
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

impl AggregateUDFImpl for Median {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let [value] = arg_types else { return plan_err!("median takes one argument, not {}", arg_types.len()) };
        Ok(vec![match value {
            DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0) => DataType::Float64,
            value if value.is_floating() || value.is_decimal() => value.clone(),
            value if value.is_integer() || value.is_null() => DataType::Float64,
            DataType::Dictionary(_, values) => return self.coerce_types(&[values.as_ref().clone()]),
            value if is_discrete(value) => value.clone(),
            value => match moments::taken(value) {
                Some(moment) => moment,
                None => return plan_err!("median takes no values of type {}; cast the argument", sql_name(value)),
            },
        }])
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        if let [value] = arg_types
            && (is_discrete(value) || moments::is_moment(value))
        {
            return Ok(value.clone());
        }
        self.inner.return_type(arg_types)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        match kind(args.input_fields[0].data_type()) {
            Kind::Number => self.inner.state_fields(args),
            _ => Ok(vec![state_list("values", args.input_fields[0].data_type())]),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let data_type = args.expr_fields[0].data_type();
        match kind(data_type) {
            Kind::Number => self.inner.accumulator(args),
            kind => Ok(Box::new(Middle {
                data_type: data_type.clone(),
                kind,
                is_distinct: args.is_distinct,
                values: Vec::new(),
            })),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match kind(args.expr_fields[0].data_type()) {
            Kind::Number => self.inner.inner().create_sliding_accumulator(args),
            _ => self.accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        kind(args.expr_fields[0].data_type()) == Kind::Number && self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// The values of a group or a window.
#[derive(Debug)]
struct Middle {
    data_type: DataType,
    kind: Kind,
    /// Each value counts once.
    is_distinct: bool,
    values: Vec<ArrayRef>,
}

impl Middle {
    fn all(&self) -> Result<ArrayRef> {
        Ok(match self.values.is_empty() {
            true => new_empty_array(&self.data_type),
            false => concat(&self.values.iter().map(|values| values.as_ref()).collect::<Vec<_>>())?,
        })
    }
}

impl Accumulator for Middle {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let valid = filter(&values[0], &is_not_null(&values[0])?)?;
        if !valid.is_empty() {
            self.values.push(valid);
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut sorted = sort(&self.all()?, None)?;
        if self.is_distinct {
            let firsts = partition(&[Arc::clone(&sorted)])?.ranges().into_iter().map(|equal| equal.start as u64);
            sorted = take(&sorted, &UInt64Array::from_iter_values(firsts), None)?;
        }
        let rows = sorted.len();
        if rows == 0 {
            return ScalarValue::try_from(&self.data_type);
        }
        let (lower, upper) = ((rows - 1) / 2, rows / 2);
        if self.kind == Kind::Discrete {
            return ScalarValue::try_from_array(&sorted, lower);
        }
        let numbers = cast(&sorted, &DataType::Int64)?;
        let numbers = numbers.as_primitive::<Int64Type>();
        let between = (i128::from(numbers.value(lower)) + i128::from(numbers.value(upper))).div_euclid(2);
        ScalarValue::Int64(i64::try_from(between).ok()).cast_to(&self.data_type)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.iter().map(|values| values.get_array_memory_size()).sum::<usize>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![SingleRowListArrayBuilder::new(self.all()?).build_list_scalar()])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.values.extend(elements(&states[0]).into_iter().filter(|values| !values.is_empty()));
        Ok(())
    }
}
