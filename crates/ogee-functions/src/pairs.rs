//! Correlation and regression for the aggregates and windows that DataFusion runs, with the results of the engine's kernels.
//!
//! DataFusion's give NULL where one of the arguments is constant.
//!
//! Not here: the functions of pairs that agree (`covar_pop`, `regr_sxx` and others).

use std::{mem::size_of_val, sync::Arc};

use datafusion::{
    arrow::{
        array::{ArrayRef, AsArray},
        datatypes::{DataType, Field, FieldRef, Float64Type, UInt64Type},
    },
    common::{Result, ScalarValue},
    functions_aggregate::{
        correlation::corr_udaf,
        regr::{regr_r2_udaf, regr_slope_udaf},
    },
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Signature,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::{AggregateOrderSensitivity, format_state_name},
    },
};
use ogee_exec::aggregate::{AggregateFunction, Moments, RegrKind};

/// The functions to register in a session.
pub fn functions() -> Vec<AggregateUDF> {
    let function = |inner, function| AggregateUDF::new_from_impl(OfPairs { inner, function });
    vec![
        function(corr_udaf(), AggregateFunction::Correlation),
        function(regr_slope_udaf(), AggregateFunction::Regression(RegrKind::Slope)),
        function(regr_r2_udaf(), AggregateFunction::Regression(RegrKind::R2)),
    ]
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfPairs {
    inner: Arc<AggregateUDF>,
    function: AggregateFunction,
}

impl AggregateUDFImpl for OfPairs {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    /// [`Moments::parts`].
    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |name: &str, data_type| Arc::new(Field::new(format_state_name(args.name, name), data_type, false));
        let floats = ["mean_y", "mean_x", "yy", "xx", "xy"].map(|name| field(name, DataType::Float64));
        Ok([field("count", DataType::UInt64)].into_iter().chain(floats).collect())
    }

    fn accumulator(&self, _args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Pairs { moments: Moments::default(), function: self.function }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

#[derive(Debug)]
struct Pairs {
    moments: Moments,
    function: AggregateFunction,
}

impl Accumulator for Pairs {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (y, x) = (values[0].as_primitive::<Float64Type>(), values[1].as_primitive::<Float64Type>());
        for (y, x) in y.iter().zip(x) {
            if let (Some(y), Some(x)) = (y, x) {
                self.moments.add(y, x);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.moments.result(self.function)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let (count, floats) = self.moments.parts();
        let floats = floats.map(|part| ScalarValue::Float64(Some(part)));
        Ok([ScalarValue::UInt64(Some(count))].into_iter().chain(floats).collect())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let counts = states[0].as_primitive::<UInt64Type>();
        for row in 0..counts.len() {
            let part = |nth: usize| states[1 + nth].as_primitive::<Float64Type>().value(row);
            self.moments.merge(&Moments::of_parts(counts.value(row), [0, 1, 2, 3, 4].map(part)));
        }
        Ok(())
    }
}
