//! The bins of a histogram where nobody says how to find them: `n` of one width, in nice steps, of numbers and moments, else the most frequent values.
//!
//! Not here: bins that are found as a statement says (`ogee-sql`, `syntax::histograms`).

use std::{cmp::Ordering, mem::size_of_val, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray},
        datatypes::{DataType, Field, FieldRef, Int64Type},
    },
    common::{Result, ScalarValue},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::{AggregateOrderSensitivity, format_state_name},
    },
};

use crate::{
    aggregates::state_list,
    arguments::{Argument, taken},
    bins, histograms,
    shapes::Top,
};

/// The name of the function.
pub const BINS: &str = "ogee_histogram_bins";

/// The function to register in a session.
pub(crate) fn function() -> AggregateUDF {
    AggregateUDF::new_from_impl(Bins { signature: Signature::user_defined(Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bins {
    signature: Signature,
}

impl AggregateUDFImpl for Bins {
    fn name(&self) -> &str {
        BINS
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let mut types = taken("histogram", &[Argument::Any, Argument::Whole], 0, arg_types)?;
        match &types[0] {
            DataType::Decimal128(38, 0) => {}
            value if value.is_decimal() => types[0] = DataType::Float64,
            DataType::Timestamp(unit, Some(_)) => types[0] = DataType::Timestamp(*unit, None),
            DataType::Null => types[0] = DataType::Int64,
            _ => {}
        }
        Ok(types)
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(state_list("", &arg_types[0]).data_type().clone())
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let name = |part| format_state_name(args.name, part);
        let value = args.input_fields[0].data_type();
        let field = |part, of: &DataType| Arc::new(Field::new(name(part), of.clone(), true));
        Ok(match histograms::has_width(value) {
            true => vec![field("least", value), field("greatest", value), field("n", &DataType::Int64)],
            false => vec![
                state_list(&name("values"), value),
                state_list(&name("counts"), &DataType::UInt64),
                field("n", &DataType::Int64),
            ],
        })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let data_type = args.expr_fields[0].data_type();
        if !histograms::has_width(data_type) {
            return Ok(Box::new(Top::new(data_type, false)));
        }
        let none = ScalarValue::try_from(data_type)?;
        Ok(Box::new(Width { least: none.clone(), greatest: none, count: None }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// Between which values bins are.
#[derive(Debug)]
struct Width {
    least: ScalarValue,
    greatest: ScalarValue,
    count: Option<i64>,
}

impl Width {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        for row in (0..values.len()).filter(|row| values.is_valid(*row)) {
            let value = ScalarValue::try_from_array(values, row)?;
            // NaN and infinities are in no bin of any width.
            let is_finite = match &value {
                ScalarValue::Float64(Some(value)) => value.is_finite(),
                ScalarValue::Float32(Some(value)) => value.is_finite(),
                _ => true,
            };
            if !is_finite {
                continue;
            }
            if self.least.is_null() || value.partial_cmp(&self.least) == Some(Ordering::Less) {
                self.least = value.clone();
            }
            if self.greatest.is_null() || value.partial_cmp(&self.greatest) == Some(Ordering::Greater) {
                self.greatest = value;
            }
        }
        Ok(())
    }
}

impl Accumulator for Width {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.count = values[1].as_primitive::<Int64Type>().iter().next().flatten().or(self.count);
        self.add(&values[0])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let nice = ScalarValue::Boolean(Some(true));
        let args = [&self.least, &self.greatest, &ScalarValue::Int64(self.count), &nice];
        let args = args.map(|arg| arg.to_array()).into_iter().collect::<Result<Vec<ArrayRef>>>()?;
        let types: Vec<DataType> = args.iter().map(|arg| arg.data_type().clone()).collect();
        let types = bins::taken(&types)?;
        let args = args.iter().zip(&types).map(|(arg, to)| Ok(datafusion::arrow::compute::cast(arg, to)?));
        ScalarValue::try_from_array(&bins::bins(&args.collect::<Result<Vec<_>>>()?, |_, _| Ok(()))?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.least.clone(), self.greatest.clone(), ScalarValue::Int64(self.count)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.count = states[2].as_primitive::<Int64Type>().iter().flatten().next().or(self.count);
        self.add(&states[0])?;
        self.add(&states[1])
    }
}
