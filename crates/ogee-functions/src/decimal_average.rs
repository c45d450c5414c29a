//! `decimal_average(x)`: the average of decimals as a decimal with as many digits, of two that are as near the one whose last digit is even.
//!
//! Not here: `avg`, which is a double (`averages`).

use std::{mem::size_of_val, sync::Arc};

use datafusion::{
    arrow::{
        array::{ArrayRef, AsArray},
        datatypes::{DataType, Decimal128Type, Field, FieldRef, UInt64Type},
    },
    common::{Result, ScalarValue, exec_datafusion_err, plan_err},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
};

use crate::{moments::nearest, type_names::sql_name};

const NAME: &str = "decimal_average";

/// The function to register in a session.
pub(crate) fn function() -> AggregateUDF {
    AggregateUDF::new_from_impl(Average { signature: Signature::user_defined(Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Average {
    signature: Signature,
}

impl AggregateUDFImpl for Average {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [value @ DataType::Decimal128(..)] => Ok(vec![value.clone()]),
            [value] => plan_err!("{NAME} takes decimals, not values of type {}; cast the argument", sql_name(value)),
            _ => plan_err!("{NAME} takes one argument, not {}", arg_types.len()),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn state_fields(&self, _args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |name, data_type| Arc::new(Field::new(name, data_type, true));
        Ok(vec![field("count", DataType::UInt64), field("sum", DataType::Decimal128(38, 0))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Mean { data_type: args.return_field.data_type().clone(), sum: 0, count: 0 }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

#[derive(Debug)]
struct Mean {
    data_type: DataType,
    sum: i128,
    count: u64,
}

impl Mean {
    fn add(&mut self, sum: i128, count: u64) -> Result<()> {
        self.sum = self.sum.checked_add(sum).ok_or_else(|| exec_datafusion_err!("{NAME} is out of range"))?;
        self.count += count;
        Ok(())
    }
}

impl Accumulator for Mean {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        values[0].as_primitive::<Decimal128Type>().iter().flatten().try_for_each(|value| self.add(value, 1))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let DataType::Decimal128(precision, scale) = self.data_type else {
            return ScalarValue::try_from(&self.data_type);
        };
        let mean = (self.count > 0).then(|| nearest(self.sum, self.count));
        Ok(ScalarValue::Decimal128(mean, precision, scale))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::UInt64(Some(self.count)), ScalarValue::Decimal128(Some(self.sum), 38, 0)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let counts = states[0].as_primitive::<UInt64Type>().iter();
        counts
            .zip(states[1].as_primitive::<Decimal128Type>())
            .try_for_each(|(count, sum)| self.add(sum.unwrap_or(0), count.unwrap_or(0)))
    }
}
