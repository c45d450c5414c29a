//! `median` of whole numbers of any size as a double, as in DuckDB.
//!
//! `HUGEINT` is a decimal without digits after the point, and DataFusion's median of decimals has as many digits as they: it would cut the half off. Of values that have nothing between
//! them, such as texts, it is the middle one, of two the lower; of dates, timestamps and intervals what is between the two in the middle. All else about `median` is DataFusion's.
//!
//! Not here: the engine's own medians (`ogee_exec::aggregate`).

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, FieldRef},
    common::{Result, plan_err},
    functions_aggregate::median::median_udaf,
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
};

use crate::{
    aggregates::state_list,
    moments,
    quantiles::{Takes, Values, Way, is_interval},
    times::intervals::INTERVAL,
    type_names::sql_name,
};

/// How the median of values of type `data_type` is found; `None` where DataFusion's is right.
fn way(data_type: &DataType) -> Option<Way> {
    if is_discrete(data_type) {
        Some(Way::Discrete)
    } else if moments::is_moment(data_type) || is_interval(data_type) {
        Some(Way::Continuous)
    } else {
        None
    }
}

/// Whether values of type `data_type` have an order, and nothing between them.
fn is_discrete(data_type: &DataType) -> bool {
    data_type.is_string()
        || data_type.is_nested()
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
            DataType::Interval(_) => INTERVAL,
            value => match moments::taken(value) {
                Some(moment) => moment,
                None => return plan_err!("median takes no values of type {}; cast the argument", sql_name(value)),
            },
        }])
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        if let [value] = arg_types
            && way(value).is_some()
        {
            return Ok(value.clone());
        }
        self.inner.return_type(arg_types)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let data_type = args.input_fields[0].data_type();
        match way(data_type) {
            None => self.inner.state_fields(args),
            Some(_) => Ok(vec![state_list("values", data_type)]),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let data_type = args.expr_fields[0].data_type();
        match way(data_type) {
            None => self.inner.accumulator(args),
            Some(way) => {
                let takes = Takes::Middle(way);
                Ok(Box::new(Values::without_fractions(data_type, data_type, takes, args.is_distinct)))
            }
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match way(args.expr_fields[0].data_type()) {
            None => self.inner.inner().create_sliding_accumulator(args),
            Some(_) => self.accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        way(args.expr_fields[0].data_type()).is_none() && self.inner.groups_accumulator_supported(args)
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
