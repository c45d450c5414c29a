//! Scalar functions: a value for each row, of the values of that row.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, UInt32Array, new_empty_array, new_null_array},
        compute::{cast, concat, take},
        datatypes::DataType,
    },
    common::ScalarValue,
    error::Result as PlanResult,
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility},
};
use ogee_functions::{Error, Result};

use super::{UserError, called, coerced, new_number, of_type, rows_without_null, some_rows};

type Body = Arc<dyn Fn(&[ArrayRef]) -> Result<ArrayRef, UserError> + Send + Sync>;

/// A scalar function of a program.
#[derive(Clone)]
pub struct ScalarFunction {
    number: u64,
    name: String,
    arguments: Vec<DataType>,
    returns: DataType,
    signature: Signature,
    sees_nulls: bool,
    body: Body,
}

impl ScalarFunction {
    /// A function called `name`, of arguments of these types: `body` gets a column for each, all of the same length, and gives one of that length, of type `returns`.
    ///
    /// The same arguments give the same value, and rows with a NULL among their arguments have NULL without `body` being asked, unless something else is said
    /// ([`volatile`](Self::volatile), [`sees_nulls`](Self::sees_nulls)). A function without arguments gives one row. `body` is called by several threads at once, for some
    /// thousand rows at a time. Its errors and panics end the statement, and nothing else.
    pub fn new(
        name: impl Into<String>,
        arguments: impl IntoIterator<Item = DataType>,
        returns: DataType,
        body: impl Fn(&[ArrayRef]) -> Result<ArrayRef, UserError> + Send + Sync + 'static,
    ) -> Self {
        let arguments: Vec<DataType> = arguments.into_iter().collect();
        let mut function = Self {
            number: new_number(),
            name: name.into().to_ascii_lowercase(),
            signature: Signature::any(0, Volatility::Immutable),
            arguments,
            returns,
            sees_nulls: false,
            body: Arc::new(body),
        };
        function.signature = function.signature_with(Volatility::Immutable);
        function
    }

    /// Each call may give something else, so it is called for every row, and never beforehand.
    #[must_use]
    pub fn volatile(mut self) -> Self {
        self.signature = self.signature_with(Volatility::Volatile);
        self
    }

    /// The function is asked about NULLs, too.
    #[must_use]
    pub fn sees_nulls(mut self) -> Self {
        self.sees_nulls = true;
        self
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn registered(self) -> ScalarUDF {
        ScalarUDF::new_from_impl(self)
    }

    fn signature_with(&self, volatility: Volatility) -> Signature {
        match self.arguments.as_slice() {
            [] => Signature::nullary(volatility),
            _ => Signature::user_defined(volatility),
        }
    }

    fn is_volatile(&self) -> bool {
        self.signature.volatility == Volatility::Volatile
    }

    /// What the body gives for `rows` rows of `columns`.
    fn values(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        if rows == 0 {
            return Ok(new_empty_array(&self.returns));
        }
        if columns.is_empty() {
            return self.values_of_none(rows);
        }
        let Some(seen) = rows_without_null(columns).filter(|_| !self.sees_nulls) else {
            return self.call(columns, rows);
        };
        let count = seen.true_count();
        if count == 0 {
            return Ok(new_null_array(&self.returns, rows));
        }
        let values = self.call(&some_rows(columns, &seen)?, count)?;
        // Each value back to its row.
        let mut next = 0;
        let places: UInt32Array = seen
            .values()
            .iter()
            .map(|seen| {
                let place = next;
                next += u32::from(seen);
                seen.then_some(place)
            })
            .collect();
        take(&values, &places, None).map_err(|error| Error::from(&error))
    }

    /// What a function without arguments gives for `rows` rows.
    fn values_of_none(&self, rows: usize) -> Result<ArrayRef> {
        if !self.is_volatile() {
            let value = self.call(&[], 1)?;
            return Ok(ScalarValue::try_from_array(&value, 0)?.to_array_of_size(rows)?);
        }
        let values = (0..rows).map(|_| self.call(&[], 1)).collect::<Result<Vec<_>>>()?;
        let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
        concat(&values).map_err(|error| Error::from(&error))
    }

    fn call(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let values = called(&self.name, || (self.body)(columns))?;
        if values.len() != rows {
            let (name, given) = (&self.name, values.len());
            return Err(Error::Execution(format!("function '{name}' gave {given} values for {rows} rows")));
        }
        of_type(&self.name, values, &self.returns)
    }
}

impl fmt::Debug for ScalarFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScalarFunction")
            .field("name", &self.name)
            .field("arguments", &self.arguments)
            .field("returns", &self.returns)
            .finish_non_exhaustive()
    }
}

impl PartialEq for ScalarFunction {
    fn eq(&self, other: &Self) -> bool {
        (self.number, self.sees_nulls, &self.signature) == (other.number, other.sees_nulls, &other.signature)
    }
}

impl Eq for ScalarFunction {}

impl Hash for ScalarFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl ScalarUDFImpl for ScalarFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> PlanResult<DataType> {
        Ok(self.returns.clone())
    }

    fn coerce_types(&self, given: &[DataType]) -> PlanResult<Vec<DataType>> {
        coerced(&self.name, given, &self.arguments)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let constant = !self.is_volatile() && args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let columns = args.args.iter().zip(&self.arguments).map(|(arg, declared)| {
            let column = arg.to_array(rows)?;
            Ok(if column.data_type() == declared { column } else { cast(&column, declared)? })
        });
        let columns = columns.collect::<PlanResult<Vec<_>>>()?;
        let values = self.values(&columns, rows)?;
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
            false => ColumnarValue::Array(values),
        })
    }
}
