//! `median` of whole numbers of any size as a double, as in DuckDB.
//!
//! `HUGEINT` is a decimal without digits after the point, and DataFusion's median of decimals has as many digits as they: it would cut the half off. All else about
//! `median` is DataFusion's.
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
            value => return plan_err!("median takes numbers, not values of type {value}; cast the argument"),
        }])
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.inner().create_sliding_accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(args)
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
