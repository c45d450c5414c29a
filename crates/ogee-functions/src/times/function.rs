//! A scalar function made of few parts: its name, the type of its result, what it does, and the zone it does that in.
//!
//! Not here: any function.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use datafusion::{
    arrow::{array::ArrayRef, datatypes::DataType},
    common::{Result, ScalarValue},
    logical_expr::{
        ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, expr::ScalarFunction,
    },
};

use super::Zone;

/// How a function shows in the names of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shown {
    /// As a call.
    Call,
    /// As an operator between its arguments.
    Operator(&'static str),
}

/// See the module. Two are the same if they have one name and one zone.
#[derive(Clone, Debug)]
pub struct Function {
    pub name: &'static str,
    pub shown: Shown,
    pub zone: Zone,
    pub signature: Signature,
    pub returns: fn(&[DataType]) -> Result<DataType>,
    pub body: fn(&[ArrayRef], &Zone) -> Result<ArrayRef>,
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        (self.name, &self.zone) == (other.name, &other.zone)
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.name, &self.zone).hash(state);
    }
}

impl Function {
    /// A function of any arguments that shows as a call, in UTC.
    pub fn new(
        name: &'static str,
        args: usize,
        returns: fn(&[DataType]) -> Result<DataType>,
        body: fn(&[ArrayRef], &Zone) -> Result<ArrayRef>,
    ) -> Self {
        let signature = Signature::any(args, Volatility::Immutable);
        Self { name, shown: Shown::Call, zone: Zone::UTC, signature, returns, body }
    }

    pub fn shown(self, shown: Shown) -> Self {
        Self { shown, ..self }
    }

    pub fn in_zone(self, zone: &Zone) -> Self {
        Self { zone: *zone, ..self }
    }

    /// The call of it.
    pub fn call(self, args: Vec<Expr>) -> Expr {
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::new_from_impl(self)), args))
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        (self.returns)(arg_types)
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let name = |at: usize| args[at].schema_name().to_string();
        Ok(match self.shown {
            Shown::Operator(operator) => format!("{} {operator} {}", name(0), name(1)),
            Shown::Call => {
                let args: Vec<String> = (0..args.len()).map(name).collect();
                format!("{}({})", self.name, args.join(","))
            }
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let arrays = args.args.into_iter().map(|arg| arg.into_array(rows)).collect::<Result<Vec<_>>>()?;
        let result = (self.body)(&arrays, &self.zone)?;
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }
}
