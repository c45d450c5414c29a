//! Variables: `SET VARIABLE x = 42`, and `getvariable('x')`, which is their value where a statement is planned; NULL of a name that none has.
//!
//! Connections of a database share them, as they share its settings.
//!
//! Not here: the text that sets one (`ogee_sql`).

use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
    sync::Arc,
};

use datafusion::{
    arrow::datatypes::{DataType, Field, FieldRef},
    common::{ScalarValue, plan_err},
    error::Result as PlanResult,
    logical_expr::{
        ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    },
};
use ogee_functions::type_names::sql_name_of;
use parking_lot::Mutex;

/// The variables of a database, by name in lower case, each with the field that says what its value is.
#[derive(Debug, Default)]
pub(crate) struct Variables(Mutex<HashMap<String, (FieldRef, ScalarValue)>>);

impl Variables {
    pub(crate) fn set(&self, name: String, field: &Field, value: ScalarValue) {
        self.0.lock().insert(name, (Arc::new(field.clone().with_nullable(true)), value));
    }

    pub(crate) fn remove(&self, name: &str) {
        self.0.lock().remove(name);
    }

    /// The names, values and types of all, by name.
    pub(crate) fn list(&self) -> Vec<(String, Option<String>, String)> {
        let told = |(name, (field, value)): (&String, &(FieldRef, ScalarValue))| {
            (name.clone(), (!value.is_null()).then(|| value.to_string()), sql_name_of(field))
        };
        let mut all: Vec<_> = self.0.lock().iter().map(told).collect();
        all.sort();
        all
    }

    /// The value of one, if there is one of that name.
    pub(crate) fn value(&self, name: &str) -> Option<ScalarValue> {
        self.0.lock().get(&name.to_lowercase()).map(|(_, value)| value.clone())
    }

    fn get(&self, name: &str) -> (FieldRef, ScalarValue) {
        let known = self.0.lock().get(&name.to_lowercase()).cloned();
        known.unwrap_or_else(|| (Arc::new(Field::new("", DataType::Null, true)), ScalarValue::Null))
    }
}

/// The function that gives the values of `variables`.
pub(crate) fn function(variables: &Arc<Variables>) -> ScalarUDF {
    let signature = Signature::any(1, Volatility::Stable);
    ScalarUDF::new_from_impl(GetVariable { variables: Arc::clone(variables), signature })
}

#[derive(Debug)]
struct GetVariable {
    variables: Arc<Variables>,
    signature: Signature,
}

impl PartialEq for GetVariable {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.variables, &other.variables)
    }
}

impl Eq for GetVariable {}

impl Hash for GetVariable {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

/// The name that is asked for.
fn name(value: Option<&ScalarValue>) -> PlanResult<String> {
    match value.and_then(ScalarValue::try_as_str) {
        Some(Some(name)) => Ok(name.to_owned()),
        _ => plan_err!("getvariable takes the name of a variable as a constant"),
    }
}

impl ScalarUDFImpl for GetVariable {
    fn name(&self) -> &str {
        "getvariable"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> PlanResult<DataType> {
        datafusion::common::internal_err!("the type of a variable is known by its name")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> PlanResult<FieldRef> {
        let name = name(args.scalar_arguments.first().copied().flatten())?;
        let field = self.variables.get(&name).0;
        Ok(Arc::new(field.as_ref().clone().with_name(self.name())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let name = match &args.args[..] {
            [ColumnarValue::Scalar(value)] => name(Some(value))?,
            _ => name(None)?,
        };
        Ok(ColumnarValue::Scalar(self.variables.get(&name).1))
    }
}
