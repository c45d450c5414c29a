//! `min`, `max`, `arg_min` and `arg_max` by lists, structs and maps over the frames of windows, in the order of `nested_order`.
//!
//! Not here: those of groups, which are the first value of an order.

use std::{cmp::Ordering, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef},
        datatypes::{DataType, Field, FieldRef},
    },
    common::{Result, ScalarValue},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
        expr::{WindowFunction, WindowFunctionParams},
        function::{AccumulatorArgs, StateFieldsArgs},
    },
};

use crate::nested_order::comparator;

/// The same as `call` of `min`, `max`, `arg_min` or `arg_max`, in the right order.
pub(crate) fn in_order(call: &mut WindowFunction) {
    let name = match call.fun.name() {
        "min" => "nested_min",
        "max" => "nested_max",
        "arg_min" => "nested_arg_min",
        _ => "nested_arg_max",
    };
    let signature = Signature::variadic_any(Volatility::Immutable);
    let function = AggregateUDF::new_from_impl(Extreme { name, signature });
    call.fun = datafusion::logical_expr::WindowFunctionDefinition::AggregateUDF(Arc::new(function));
}

/// The first argument where the last one is least, or greatest. Rows with a NULL in either do not count.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    name: &'static str,
    signature: Signature,
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        self.name
    }

    fn window_function_schema_name(&self, params: &WindowFunctionParams) -> Result<String> {
        let named = self.name.trim_start_matches("nested_");
        let args: Vec<String> = params.args.iter().map(|arg| arg.schema_name().to_string()).collect();
        Ok(format!("{named}({})", args.join(",")))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field =
            |(at, of): (usize, &FieldRef)| Arc::new(Field::new(format!("of_{at}"), of.data_type().clone(), true));
        Ok(args.input_fields.iter().enumerate().map(field).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let types = args.expr_fields.iter().map(|field| field.data_type().clone()).collect();
        let wanted = if self.name.ends_with("min") { Ordering::Less } else { Ordering::Greater };
        Ok(Box::new(Best { wanted, types, row: None }))
    }
}

/// The row that is best so far: one value of each argument.
#[derive(Debug)]
struct Best {
    wanted: Ordering,
    types: Vec<DataType>,
    row: Option<Vec<ArrayRef>>,
}

impl Accumulator for Best {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let by = &values[values.len() - 1];
        let compare = comparator(by, by)?;
        let counts = |row: &usize| values.iter().all(|array| array.is_valid(*row));
        let best = (0..by.len()).filter(counts).reduce(|best, row| match compare(row, best) == self.wanted {
            true => row,
            false => best,
        });
        let Some(best) = best else { return Ok(()) };
        let is_better = match &self.row {
            Some(row) => comparator(by, &row[row.len() - 1])?(best, 0) == self.wanted,
            None => true,
        };
        if is_better {
            self.row = Some(values.iter().map(|array| array.slice(best, 1)).collect());
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match &self.row {
            Some(row) => ScalarValue::try_from_array(&row[0], 0),
            None => ScalarValue::try_new_null(&self.types[0]),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        match &self.row {
            Some(row) => row.iter().map(|array| ScalarValue::try_from_array(array, 0)).collect(),
            None => self.types.iter().map(ScalarValue::try_new_null).collect(),
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}
