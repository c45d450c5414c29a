//! Functions that stand for what DataFusion has no operator for, or one that gives another answer.
//!
//! * [`INTEGER_DIVIDE`] is `//`: the quotient of whole numbers without its fraction, and that of others with it, as in DuckDB; 0 divides none of them.
//! * [`round_for_cast`] goes below casts of numbers with a fraction to whole ones, which round, as in PostgreSQL and DuckDB: floats to the nearest even, decimals away from
//!   zero. Arrow's casts would cut the fraction off.
//! * [`as_double`] takes the place of casts of decimals to doubles where Arrow's, which rounds the digits and the quotient, is not the nearest double.
//! * [`fit_for_cast`] goes below casts of doubles to floats of half their size, which Arrow makes infinite where they are too large.
//! * [`moment_text`] goes below casts of dates, timestamps and times to strings: `2024-01-02 03:04:05.5`, without the `T` of ISO 8601 and zeros at the end.
//!
//! Not here: where they are put in (`ogee_sql`: `syntax`, `checked`).

use std::{
    fmt::Write,
    sync::{Arc, LazyLock},
};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, Datum, PrimitiveArray, StringViewBuilder},
        compute::{kernels::numeric, unary},
        datatypes::{DataType, Decimal128Type, FieldRef, Float32Type, Float64Type},
        error::ArrowError,
        util::display::{ArrayFormatter, FormatOptions},
    },
    common::{Result, ScalarValue, exec_err, internal_err, plan_err},
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        binary::comparison_coercion, expr::ScalarFunction,
    },
    physical_expr_common::datum::apply,
};

use crate::{
    arithmetic::as_nullable_as_args,
    function::{Function, Shown},
    times::{far, infinite::Infinite, written},
};

/// The type of HUGEINT.
pub const HUGEINT: DataType = DataType::Decimal128(38, 0);

/// The function that `//` becomes.
pub const INTEGER_DIVIDE: &str = "ogee_integer_divide";

/// The functions that statements may name.
pub fn functions() -> Vec<ScalarUDF> {
    vec![ScalarUDF::new_from_impl(IntegerDivide { signature: Signature::user_defined(Volatility::Immutable) })]
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct IntegerDivide {
    signature: Signature,
}

impl ScalarUDFImpl for IntegerDivide {
    fn name(&self) -> &str {
        INTEGER_DIVIDE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let [left, right] = arg_types else { return plan_err!("// takes two numbers") };
        let both = match comparison_coercion(left, right) {
            Some(both) if both.is_integer() => both,
            _ if is_whole(left) && is_whole(right) => HUGEINT,
            _ => DataType::Float64,
        };
        Ok(vec![both.clone(), both])
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(format!("{} // {}", args[0], args[1]))
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(format!("{} // {}", args[0].schema_name(), args[1].schema_name()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.return_field.data_type() {
            DataType::Float64 => {}
            DataType::Decimal128(..) => {
                return apply(&args.args[0], &args.args[1], |left, right| huge_quotients(left, right));
            }
            _ => return apply(&args.args[0], &args.args[1], numeric::div),
        }
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [left, right] = [0, 1].map(|side: usize| arrays[side].as_primitive::<Float64Type>());
        let quotients = left.iter().zip(right).map(|sides| match sides {
            (Some(_), Some(0.0)) => Err(ArrowError::DivideByZero),
            (Some(left), Some(right)) => Ok(Some(left / right)),
            _ => Ok(None),
        });
        let quotients: ArrayRef = Arc::new(quotients.collect::<Result<PrimitiveArray<Float64Type>, _>>()?);
        let all_scalars = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        Ok(match all_scalars {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&quotients, 0)?),
            false => ColumnarValue::Array(quotients),
        })
    }
}

fn is_whole(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Decimal128(_, 0))
}

/// Whole quotients of integers of 128 bits: Arrow's have the digits behind the point that decimals have.
fn huge_quotients(left: &dyn Datum, right: &dyn Datum) -> Result<ArrayRef, ArrowError> {
    let ((left, left_scalar), (right, right_scalar)) = (left.get(), right.get());
    let rows = if left_scalar { right.len() } else { left.len() };
    let (left, right) = (left.as_primitive::<Decimal128Type>(), right.as_primitive::<Decimal128Type>());
    let value = |of: &PrimitiveArray<Decimal128Type>, row: usize| of.is_valid(row).then(|| of.value(row));
    let quotients = (0..rows).map(|row| {
        let sides = (value(left, if left_scalar { 0 } else { row }), value(right, if right_scalar { 0 } else { row }));
        match sides {
            (Some(_), Some(0)) => Err(ArrowError::DivideByZero),
            (Some(left), Some(right)) => Ok(Some(left.wrapping_div(right))),
            _ => Ok(None),
        }
    });
    let quotients = quotients.collect::<Result<PrimitiveArray<Decimal128Type>, _>>()?;
    Ok(Arc::new(quotients.with_data_type(HUGEINT)))
}

/// `of` for the values that a function is given, however many there are; NULL of no type, as which columns stand where a rule asks what a condition is of
/// NULL, stays NULL.
fn each(args: &ScalarFunctionArgs, of: impl Fn(&ArrayRef) -> Result<ArrayRef>) -> Result<ColumnarValue> {
    let values = &args.args[0];
    if values.data_type().is_null() {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from(args.return_field.data_type())?));
    }
    Ok(match values {
        ColumnarValue::Array(array) => ColumnarValue::Array(of(array)?),
        ColumnarValue::Scalar(scalar) => {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&of(&scalar.to_array_of_size(1)?)?, 0)?)
        }
    })
}

/// `expr`, a date, a timestamp or a time of a day, as a string.
pub fn moment_text(expr: Expr) -> Expr {
    static TEXT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Arc::new(ScalarUDF::new_from_impl(MomentText { signature: Signature::any(1, Volatility::Immutable) }))
    });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&TEXT), vec![expr]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct MomentText {
    signature: Signature,
}

impl ScalarUDFImpl for MomentText {
    fn name(&self) -> &str {
        "ogee_moment_text"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        as_nullable_as_args(self, &args)
    }

    /// A cast does not show in names.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args[0].schema_name().to_string())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        each(&args, moment_texts)
    }
}

/// The texts of `moments`, which are dates, timestamps or times of a day.
///
/// # Errors
/// A time beyond a day.
pub fn moment_texts(moments: &ArrayRef) -> Result<ArrayRef> {
    let Some((counts, _)) = far::counts(moments)? else { return time_texts(moments) };
    // Moments with a zone are shown as they are in UTC.
    let zone = match moments.data_type() {
        DataType::Timestamp(_, Some(_)) => "+00",
        _ => "",
    };
    let mut texts = StringViewBuilder::with_capacity(counts.len());
    let mut text = String::new();
    for count in &counts {
        let Some(count) = count else {
            texts.append_null();
            continue;
        };
        text.clear();
        written::write(count, moments.data_type(), &mut text);
        text.push_str(zone);
        texts.append_value(&text);
    }
    let texts: ArrayRef = Arc::new(texts.finish());
    Infinite::of(moments).map_or_else(|| Ok(Arc::clone(&texts)), |infinite| infinite.put_in(&texts))
}

/// The texts of `times`, which are times of a day.
fn time_texts(times: &ArrayRef) -> Result<ArrayRef> {
    let options = FormatOptions::default().with_time_format(Some("%H:%M:%S%.f"));
    let formatter = ArrayFormatter::try_new(times, &options)?;
    let mut texts = StringViewBuilder::with_capacity(times.len());
    let mut text = String::new();
    for row in 0..times.len() {
        if times.is_null(row) {
            texts.append_null();
            continue;
        }
        text.clear();
        write!(text, "{}", formatter.value(row))?;
        if text.contains('.') {
            text.truncate(text.trim_end_matches('0').len());
        }
        texts.append_value(&text);
    }
    Ok(Arc::new(texts.finish()))
}

/// `expr`, a float or a decimal, rounded to a whole number of its type.
pub fn round_for_cast(expr: Expr) -> Expr {
    static ROUND: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Arc::new(ScalarUDF::new_from_impl(RoundForCast { signature: Signature::any(1, Volatility::Immutable) }))
    });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&ROUND), vec![expr]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct RoundForCast {
    signature: Signature,
}

impl ScalarUDFImpl for RoundForCast {
    fn name(&self) -> &str {
        "ogee_round_for_cast"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        as_nullable_as_args(self, &args)
    }

    /// A cast does not show in names.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args[0].schema_name().to_string())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        each(&args, rounded)
    }
}

/// `array`, of floats or decimals, rounded to whole numbers of their type.
pub fn rounded(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Float32 => {
            Arc::new(unary::<_, _, Float32Type>(array.as_primitive::<Float32Type>(), f32::round_ties_even))
        }
        DataType::Float64 => {
            Arc::new(unary::<_, _, Float64Type>(array.as_primitive::<Float64Type>(), f64::round_ties_even))
        }
        DataType::Decimal128(_, scale) => {
            let Some(one) = u32::try_from(*scale).ok().and_then(|scale| 10i128.checked_pow(scale)) else {
                return Ok(Arc::clone(array));
            };
            let rounded = unary::<_, _, Decimal128Type>(array.as_primitive::<Decimal128Type>(), |value| {
                let (whole, rest) = (value / one, value % one);
                let away = rest.abs() >= one - rest.abs();
                (whole + if away { rest.signum() } else { 0 }).wrapping_mul(one)
            });
            Arc::new(rounded.with_data_type(array.data_type().clone()))
        }
        other => return internal_err!("{other} has no fraction"),
    })
}

/// The double nearest to `expr`, a decimal.
pub fn as_double(expr: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Arc::new(ScalarUDF::new_from_impl(AsDouble { signature: Signature::any(1, Volatility::Immutable) }))
    });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&FUNCTION), vec![expr]))
}

/// Whether a double may not be the nearest to a decimal of type `data_type` if it is the quotient of its digits as a double and a power of ten.
pub fn is_beyond_quotients(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal128(precision, scale) if *precision > EXACT_DIGITS || *scale > EXACT_POWER)
}

/// Digits that each double has room for.
const EXACT_DIGITS: u8 = 15;
/// The greatest power of ten that is a double.
const EXACT_POWER: i8 = 22;

#[derive(Debug, PartialEq, Eq, Hash)]
struct AsDouble {
    signature: Signature,
}

impl ScalarUDFImpl for AsDouble {
    fn name(&self) -> &str {
        "ogee_as_double"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        as_nullable_as_args(self, &args)
    }

    /// A cast does not show in names.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args[0].schema_name().to_string())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        each(&args, |decimals| {
            let DataType::Decimal128(_, scale) = *decimals.data_type() else {
                return internal_err!("{} is no decimal", decimals.data_type());
            };
            let decimals = decimals.as_primitive::<Decimal128Type>();
            Ok(Arc::new(unary::<_, _, Float64Type>(decimals, |digits| nearest_double(digits, scale))))
        })
    }
}

/// The double nearest to `digits` over ten to the power of `scale`.
pub(crate) fn nearest_double(digits: i128, scale: i8) -> f64 {
    const EXACT: u128 = 1 << f64::MANTISSA_DIGITS;
    match u32::try_from(scale) {
        // A quotient of two doubles that are what they stand for is rounded once.
        Ok(power) if scale <= EXACT_POWER && digits.unsigned_abs() <= EXACT => {
            digits as f64 / 10_u128.pow(power) as f64
        }
        _ => format!("{digits}e{}", -i32::from(scale)).parse().expect("the text of a number"),
    }
}

/// `expr`, a double that is about to become a float: an error where it is too large for one, or NULL if `tries`.
pub fn fit_for_cast(expr: Expr, tries: bool) -> Expr {
    let function = FitForCast { tries, signature: Signature::any(1, Volatility::Immutable) };
    let function = Arc::new(ScalarUDF::new_from_impl(function));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![expr]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FitForCast {
    tries: bool,
    signature: Signature,
}

impl ScalarUDFImpl for FitForCast {
    fn name(&self) -> &str {
        "ogee_fit_for_cast"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let field = as_nullable_as_args(self, &args)?;
        Ok(if self.tries { Arc::new(field.as_ref().clone().with_nullable(true)) } else { field })
    }

    /// A cast does not show in names.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args[0].schema_name().to_string())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        each(&args, |doubles| fitting(doubles, self.tries))
    }
}

/// `doubles`, if floats can be made of them all. Those of which none can be are NULL if `tries`, an error otherwise.
pub fn fitting(doubles: &ArrayRef, tries: bool) -> Result<ArrayRef> {
    let values = doubles.as_primitive::<Float64Type>();
    let fits = |value: f64| !value.is_finite() || (value as f32).is_finite();
    match values.iter().flatten().find(|value| !fits(*value)) {
        None => Ok(Arc::clone(doubles)),
        Some(_) if tries => {
            let fitting: PrimitiveArray<Float64Type> =
                values.iter().map(|value| value.filter(|value| fits(*value))).collect();
            Ok(Arc::new(fitting))
        }
        Some(value) => exec_err!("{value:e} is too large for a FLOAT"),
    }
}
/// Whether values of `from` may be other ones as values of `to`, or none: numbers of fewer bits, digits or places.
pub fn is_narrowing(from: &DataType, to: &DataType) -> bool {
    // Digits before the point that values may have, and behind it; whether there are negative ones.
    let digits = |of: &DataType| {
        Some(match of {
            DataType::Int8 => (3, 0, true),
            DataType::Int16 => (5, 0, true),
            DataType::Int32 => (10, 0, true),
            DataType::Int64 => (19, 0, true),
            DataType::UInt8 => (3, 0, false),
            DataType::UInt16 => (5, 0, false),
            DataType::UInt32 => (10, 0, false),
            DataType::UInt64 => (20, 0, false),
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale) => {
                (i16::from(*precision) - i16::from(*scale), i16::from(*scale), true)
            }
            _ => return None,
        })
    };
    if from == to || !from.is_numeric() || !to.is_numeric() || to.is_floating() {
        return false;
    }
    let (Some((before, behind, signed)), Some((to_before, to_behind, to_signed))) = (digits(from), digits(to)) else {
        return true;
    };
    // An integer has not all numbers of as many digits as the greatest one.
    let fits_whole = before < to_before || before == to_before && !to.is_integer();
    !fits_whole || behind > to_behind || signed && !to_signed
}

/// `cast`, which nothing looks through: compared with a constant, DataFusion compares what is cast with the constant of its type, also where the cast fails or rounds.
pub fn opaque_cast(cast: Expr) -> Expr {
    static OPAQUE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let taken = |given: &[DataType]| Ok(given.to_vec());
        let function =
            Function::of("ogee_opaque_cast", taken, |given| Ok(given[0].clone()), |args, _| Ok(Arc::clone(&args[0])));
        Arc::new(function.shown(Shown::Argument).registered())
    });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&OPAQUE), vec![cast]))
}
