//! Functions that mark a place of a statement for a rule, which takes them out of the plan again. None is evaluated.
//!
//! Not here: what they mark (`asof`, `recursions`).

use datafusion::{
    arrow::datatypes::DataType,
    common::{Result, exec_err},
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility},
};

/// The function `name`, a condition. It varies, so that nobody evaluates it while the statement is planned. Where it is left in a plan, `what` says what it is.
pub(crate) fn condition(name: &'static str, takes: TypeSignature, what: &'static str) -> ScalarUDF {
    ScalarUDF::new_from_impl(Marker { name, signature: Signature::new(takes, Volatility::Volatile), what })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Marker {
    name: &'static str,
    signature: Signature,
    what: &'static str,
}

impl ScalarUDFImpl for Marker {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("{} is {}", self.name, self.what)
    }
}
