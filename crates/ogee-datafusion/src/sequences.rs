//! Sequences: `CREATE SEQUENCE`, `nextval('s')`, `currval('s')` and `setval('s', 7)`.
//!
//! The sequences of a database are a list of names and numbers that its functions share. Each row has a value of its own; which row has which is not said, since rows come in no order. Values that
//! were taken stay taken, also where the statement fails or its transaction is put back.
//!
//! Not here: which columns have one as their default (`table`).

use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
    sync::Arc,
};

use datafusion::{
    arrow::{
        array::{Array, AsArray, Int64Array},
        datatypes::{DataType, Int64Type},
    },
    common::{cast::as_string_view_array, exec_datafusion_err, exec_err},
    error::Result as PlanResult,
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility},
    sql::sqlparser::ast::{Expr, ObjectName, SequenceOptions, UnaryOperator, Value},
};
use ogee_functions::{Error, Result};
use parking_lot::Mutex;

/// The sequences of a database, by name.
#[derive(Debug, Default)]
pub(crate) struct Sequences(Mutex<HashMap<String, Sequence>>);

#[derive(Clone, Debug)]
struct Sequence {
    first: i64,
    /// The next value, if there is one.
    next: Option<i64>,
    /// The last that was taken.
    last: Option<i64>,
    step: i64,
    least: i64,
    greatest: i64,
    cycles: bool,
}

impl Sequence {
    fn take(&mut self, name: &str) -> PlanResult<i64> {
        let value = match self.next {
            Some(value) => value,
            None if self.cycles => {
                if self.step > 0 {
                    self.least
                } else {
                    self.greatest
                }
            }
            None => {
                let (end, bound) = if self.step > 0 { ("greatest", self.greatest) } else { ("least", self.least) };
                return exec_err!("sequence '{name}' has given its {end} value, {bound}");
            }
        };
        let within = |next: &i64| (self.least..=self.greatest).contains(next);
        self.next = value.checked_add(self.step).filter(within);
        self.last = Some(value);
        Ok(value)
    }

    /// Goes on behind `value`, or, if it was not `called`, with it.
    fn set(&mut self, name: &str, value: i64, called: bool) -> PlanResult<i64> {
        let within = |next: &i64| (self.least..=self.greatest).contains(next);
        if !within(&value) {
            let (least, greatest) = (self.least, self.greatest);
            return exec_err!("sequence '{name}' has values from {least} to {greatest}, and {value} is none");
        }
        match called {
            true => (self.next, self.last) = (value.checked_add(self.step).filter(within), Some(value)),
            false => self.next = Some(value),
        }
        Ok(value)
    }
}

/// A sequence, as it is told of.
pub(crate) struct SequenceInfo {
    pub(crate) start: i64,
    pub(crate) step: i64,
    pub(crate) least: i64,
    pub(crate) greatest: i64,
    pub(crate) cycles: bool,
    pub(crate) last: Option<i64>,
}

impl Sequences {
    /// All of them, by name.
    pub(crate) fn list(&self) -> Vec<(String, SequenceInfo)> {
        let told = |(name, of): (&String, &Sequence)| {
            let Sequence { first, step, least, greatest, cycles, last, .. } = *of;
            (name.clone(), SequenceInfo { start: first, step, least, greatest, cycles, last })
        };
        let mut all: Vec<_> = self.0.lock().iter().map(told).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// `CREATE SEQUENCE`. Gives whether there is a new one.
    ///
    /// # Errors
    /// There is one already, or its options are none.
    pub(crate) fn create(
        &self,
        name: &ObjectName,
        options: &[SequenceOptions],
        if_not_exists: bool,
        replaces: bool,
    ) -> Result<()> {
        let key = key(name)?;
        let mut sequences = self.0.lock();
        if sequences.contains_key(&key) && !replaces {
            return match if_not_exists {
                true => Ok(()),
                false => Err(Error::Plan(format!("there is a sequence '{key}' already"))),
            };
        }
        let (mut step, mut first, mut least, mut greatest, mut cycles) = (1, None, None, None, false);
        for option in options {
            match option {
                SequenceOptions::IncrementBy(by, _) => step = number(by)?,
                SequenceOptions::StartWith(value, _) => first = Some(number(value)?),
                SequenceOptions::MinValue(value) => least = value.as_ref().map(number).transpose()?,
                SequenceOptions::MaxValue(value) => greatest = value.as_ref().map(number).transpose()?,
                SequenceOptions::Cycle(not) => cycles = !not,
                SequenceOptions::Cache(_) => {
                    return Err(Error::Unsupported("CACHE of a sequence is not supported; leave it out".to_owned()));
                }
            }
        }
        if step == 0 {
            return Err(Error::Plan(format!("sequence '{key}' has INCREMENT 0; use another number")));
        }
        let least = least.unwrap_or(if step > 0 { 1 } else { i64::MIN });
        let greatest = greatest.unwrap_or(if step > 0 { i64::MAX } else { -1 });
        let first = first.unwrap_or(if step > 0 { least } else { greatest });
        if least > greatest || !(least..=greatest).contains(&first) {
            return Err(Error::Plan(format!(
                "sequence '{key}' starts with {first}, which is not within {least} and {greatest}"
            )));
        }
        sequences.insert(key, Sequence { first, next: Some(first), last: None, step, least, greatest, cycles });
        Ok(())
    }

    /// `DROP SEQUENCE`
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn remove(&self, name: &ObjectName, if_exists: bool) -> Result<()> {
        let key = key(name)?;
        match self.0.lock().remove(&key) {
            None if !if_exists => Err(Error::Plan(format!("there is no sequence '{key}'"))),
            _ => Ok(()),
        }
    }

    fn with<T>(&self, name: &str, what: impl FnOnce(&mut Sequence) -> PlanResult<T>) -> PlanResult<T> {
        let name = name.rsplit('.').next().unwrap_or(name).trim_matches('"');
        let mut sequences = self.0.lock();
        let exact = sequences.contains_key(name);
        let key = if exact { name.to_owned() } else { name.to_ascii_lowercase() };
        match sequences.get_mut(&key) {
            Some(sequence) => what(sequence),
            None => exec_err!("there is no sequence '{name}'; use CREATE SEQUENCE"),
        }
    }
}

/// The name of a sequence, which is of no schema.
fn key(name: &ObjectName) -> Result<String> {
    let last = name.0.last().and_then(|part| part.as_ident());
    let last = last.ok_or_else(|| Error::Plan(format!("'{name}' is no name of a sequence")))?;
    Ok(if last.quote_style.is_some() { last.value.clone() } else { last.value.to_ascii_lowercase() })
}

fn number(expr: &Expr) -> Result<i64> {
    let digits = match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.clone(),
            other => other.to_string(),
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => format!("-{expr}"),
        other => other.to_string(),
    };
    digits.parse().map_err(|_| Error::Plan(format!("'{digits}' is no whole number of 64 bits for a sequence")))
}

/// The functions of `sequences`.
pub(crate) fn functions(sequences: &Arc<Sequences>) -> [ScalarUDF; 3] {
    [Of::Next, Of::Current, Of::Set].map(|of| {
        let name = || vec![DataType::Utf8View];
        let named = |others: &[DataType]| TypeSignature::Exact(name().into_iter().chain(others.to_vec()).collect());
        let signature = match of {
            Of::Next | Of::Current => Signature::exact(name(), Volatility::Volatile),
            Of::Set => {
                let taken = vec![named(&[DataType::Int64]), named(&[DataType::Int64, DataType::Boolean])];
                Signature::one_of(taken, Volatility::Volatile)
            }
        };
        ScalarUDF::from(Values { sequences: Arc::clone(sequences), of, signature })
    })
}

/// What a function does with a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Of {
    /// `nextval` takes a value.
    Next,
    /// `currval` gives the last one.
    Current,
    /// `setval` says which was the last one, or, with `false`, is the next.
    Set,
}

#[derive(Debug)]
struct Values {
    sequences: Arc<Sequences>,
    of: Of,
    signature: Signature,
}

impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        self.of == other.of && Arc::ptr_eq(&self.sequences, &other.sequences)
    }
}

impl Eq for Values {}

impl Hash for Values {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.of.hash(state);
    }
}

impl ScalarUDFImpl for Values {
    fn name(&self) -> &str {
        match self.of {
            Of::Next => "nextval",
            Of::Current => "currval",
            Of::Set => "setval",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> PlanResult<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let rows = args.number_rows;
        let args = ColumnarValue::values_to_arrays(&args.args)?;
        let names = as_string_view_array(&args[0])?;
        let (set, called) =
            (args.get(1).map(|set| set.as_primitive::<Int64Type>()), args.get(2).map(|by| by.as_boolean()));
        let place = |row: usize| if names.len() == rows { row } else { 0 };
        let value = |row: usize| {
            let at = place(row);
            if args.iter().any(|arg| arg.is_null(at)) {
                return Ok(None);
            }
            let name = names.value(at);
            self.sequences
                .with(name, |sequence| match self.of {
                    Of::Next => sequence.take(name),
                    Of::Set => {
                        let value = set.map_or(0, |set| set.value(at));
                        sequence.set(name, value, called.is_none_or(|called| called.value(at)))
                    }
                    Of::Current => sequence.last.ok_or_else(|| {
                        exec_datafusion_err!("sequence '{name}' has given no value yet; use nextval('{name}')")
                    }),
                })
                .map(Some)
        };
        let values = (0..rows).map(value).collect::<PlanResult<Int64Array>>()?;
        Ok(ColumnarValue::Array(Arc::new(values)))
    }
}
