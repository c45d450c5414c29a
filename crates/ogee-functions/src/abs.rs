//! `abs`, in the order of whose values nothing is known where nothing is known of its argument's.
//!
//! DataFusion's `abs` looks at the least and greatest values of its argument to tell its own order, and fails if those have no type, which is so for most
//! operators and functions. The failure then makes the sort below a window one that is in another order than the window needs.
//!
//! Not here: what it computes.

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::DataType,
    common::Result,
    functions::math::abs,
    logical_expr::{
        ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        sort_properties::{ExprProperties, SortProperties},
    },
};

/// The function.
pub fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(Abs { inner: abs() })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Abs {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Abs {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.inner.invoke_with_args(args)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(self.inner.output_ordering(inputs).unwrap_or(SortProperties::Unordered))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
