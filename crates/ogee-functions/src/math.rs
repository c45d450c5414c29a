//! Functions of numbers that DataFusion has not: signs, bits, what is next to a float, the gamma function.
//!
//! Not here: rounding (`rounding`), operators (`arithmetic`, `bits`).

use std::sync::Arc;

use arrow_array::downcast_integer_array;
use datafusion::{
    arrow::{
        array::{
            Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array,
            new_null_array,
        },
        compute::{CastOptions, binary, cast, cast_with_options},
        datatypes::{DataType, Decimal128Type, Field, FieldRef, Float32Type, Float64Type},
    },
    common::{Result, ScalarValue, exec_err, internal_err},
    logical_expr::{ReturnFieldArgs, ScalarUDF},
};
use ogee_memory::BufferManager;

use crate::{
    arguments::{Argument, doubles, refused, taken, texts, wholes},
    function::{Call, Function},
    times::{self, Zone},
};

/// The functions that statements may name; `memory` is of those that look at constants.
pub fn functions(memory: &Arc<BufferManager>) -> Vec<ScalarUDF> {
    let functions = [
        Function::of("sign", |given| taken("sign", &[Argument::Number], 0, given), |_| Ok(DataType::Int8), sign),
        Function::of(
            "signbit",
            |given| taken("signbit", &[Argument::Double], 0, given),
            |_| Ok(DataType::Boolean),
            |args, _| {
                let values = doubles(&args[0])?;
                Ok(of_doubles(&values, f64::is_sign_negative))
            },
        ),
        of_double("even", |given| taken("even", &[Argument::Double], 0, given), |args, _| each_double(args, even)),
        of_double(
            "gamma",
            |given| taken("gamma", &[Argument::Double], 0, given),
            |args, _| each_double(args, libm::tgamma),
        ),
        of_double(
            "lgamma",
            |given| taken("lgamma", &[Argument::Double], 0, given),
            |args, _| each_double(args, libm::lgamma),
        ),
        Function::of("nextafter", next_after_takes, |args| Ok(args[0].clone()), next_after),
        Function::of(
            "isinf",
            |given| may_be_infinite("isinf", given),
            |_| Ok(DataType::Boolean),
            |args, _| finiteness(args, false),
        ),
        Function::of(
            "isfinite",
            |given| may_be_infinite("isfinite", given),
            |_| Ok(DataType::Boolean),
            |args, _| finiteness(args, true),
        ),
    ];
    let round = Function::of_fields("round_even", round_even_takes, round_even_type, round_even, memory);
    let others = [
        round.also(&["roundbankers"]),
        of_double(
            "fdiv",
            |given| taken("fdiv", &[Argument::Double; 2], 0, given),
            |args, _| each_pair(args, |left, right| (left / right).floor()),
        ),
        of_double(
            "fmod",
            |given| taken("fmod", &[Argument::Double; 2], 0, given),
            |args, _| each_pair(args, |left, right| left - (left / right).floor() * right),
        ),
        Function::of(
            BINOM,
            |given| taken(BINOM, &[Argument::Whole, Argument::Whole], 0, given),
            |_| Ok(HUGEINT),
            binom,
        ),
        Function::of(ERROR, |given| taken(ERROR, &[Argument::Text], 0, given), |_| Ok(DataType::Null), error),
    ];
    functions.into_iter().chain(others).map(Function::registered).collect()
}

/// The function that `~` becomes.
pub const BIT_NOT: &str = "ogee_bit_not";

fn of_double(
    name: &'static str,
    taken: fn(&[DataType]) -> Result<Vec<DataType>>,
    body: fn(&[ArrayRef], &Zone) -> Result<ArrayRef>,
) -> Function {
    Function::of(name, taken, |_| Ok(DataType::Float64), body)
}

fn each_double(args: &[ArrayRef], of: fn(f64) -> f64) -> Result<ArrayRef> {
    Ok(Arc::new(doubles(&args[0])?.unary::<_, Float64Type>(of)))
}

fn of_doubles(values: &Float64Array, of: impl Fn(f64) -> bool) -> ArrayRef {
    Arc::new(values.iter().map(|value| value.map(&of)).collect::<BooleanArray>())
}

/// -1, 0 or 1; 0 of NaN.
fn sign(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let of_float = |value: f64| if value > 0.0 { 1 } else { -i8::from(value < 0.0) };
    let signs: Int8Array = match args[0].data_type() {
        DataType::Decimal128(..) => args[0].as_primitive::<Decimal128Type>().unary(|value: i128| value.signum() as i8),
        data_type if data_type.is_integer() => {
            let values = &args[0];
            downcast_integer_array!(
                values => values.unary(|value| if value > 0 { 1 } else { -i8::from(value != 0) }),
                _ => return internal_err!("{} is no whole number", args[0].data_type()),
            )
        }
        _ => doubles(&args[0])?.unary(of_float),
    };
    Ok(Arc::new(signs))
}

/// The next even number that is no nearer to zero.
fn even(value: f64) -> f64 {
    let away = value.abs().ceil();
    let even = if away.is_finite() && (away / 2.0).floor() * 2.0 != away { away + 1.0 } else { away };
    if value < 0.0 { -even } else { even }
}

fn each_pair(args: &[ArrayRef], of: fn(f64, f64) -> f64) -> Result<ArrayRef> {
    let pairs: Float64Array = binary(&doubles(&args[0])?, &doubles(&args[1])?, of)?;
    Ok(Arc::new(pairs))
}

const BINOM: &str = "binom";

/// HUGEINT.
const HUGEINT: DataType = DataType::Decimal128(38, 0);

/// In how many ways so many of a number of things are chosen.
fn binom(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let (all, chosen) = (wholes(&args[0])?, wholes(&args[1])?);
    let ways = all.iter().zip(&chosen).map(|(all, chosen)| match all.zip(chosen) {
        Some((all, chosen)) if all < 0 || chosen < 0 => {
            exec_err!("{BINOM} of {all} and {chosen} is undefined: it takes no negative numbers")
        }
        Some((all, chosen)) => match ways(all as u128, chosen as u128) {
            Some(ways) => Ok(Some(ways)),
            None => exec_err!("{BINOM} of {all} and {chosen} is out of the range of HUGEINT"),
        },
        None => Ok(None),
    });
    let ways = ways.collect::<Result<Decimal128Array>>()?;
    Ok(Arc::new(ways.with_precision_and_scale(38, 0)?))
}

/// `None` if they are too many. At least one of a few hundred numbers is, so that this comes to an end soon.
fn ways(all: u128, chosen: u128) -> Option<i128> {
    if chosen > all {
        return Some(0);
    }
    let mut ways: u128 = 1;
    for nth in 1..=chosen.min(all - chosen) {
        // The quotient is whole: it is itself the number of ways to choose `nth`.
        ways = ways.checked_mul(all - nth + 1)? / nth;
    }
    i128::try_from(ways).ok().filter(|ways| *ways < 10_i128.pow(38))
}

const ERROR: &str = "error";

/// Fails with the text of the first row that has one.
fn error(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    match texts(&args[0])?.iter().flatten().next() {
        Some(message) => exec_err!("{message}"),
        None => Ok(new_null_array(&DataType::Null, args[0].len())),
    }
}

/// Whole numbers and decimals stay such.
fn round_even_takes(given: &[DataType]) -> Result<Vec<DataType>> {
    let types = taken("round_even", &[Argument::Number, Argument::Whole], 0, given)?;
    Ok(match &types[0] {
        kept if kept.is_integer() || matches!(kept, DataType::Decimal128(..)) => types,
        _ => vec![DataType::Float64, DataType::Int64],
    })
}

/// Decimals lose the digits that are not asked for, where that is known.
fn round_even_type(args: &ReturnFieldArgs<'_>) -> Result<FieldRef> {
    let given = args.arg_fields[0].data_type();
    let digits = args.scalar_arguments.get(1).copied().flatten();
    let data_type = match (given, digits.map(|digits| digits.cast_to(&DataType::Int64)).transpose()?) {
        (DataType::Decimal128(precision, scale), Some(ScalarValue::Int64(Some(digits)))) => {
            DataType::Decimal128(*precision, digits.clamp(0, i64::from(*scale)) as i8)
        }
        _ => given.clone(),
    };
    Ok(Arc::new(Field::new("round_even", data_type, true)))
}

/// Digits that a double has behind the point, at most.
const DIGITS_MAX: i64 = 308;

/// To so many digits behind the point, halves to the even one.
fn round_even(call: &mut Call<'_, '_>) -> Result<ArrayRef> {
    let args = call.args;
    let digits = wholes(&args[1])?;
    let data_type = args[0].data_type();
    if data_type.is_integer() || data_type.is_decimal() {
        let scale = if let DataType::Decimal128(_, scale) = data_type { *scale } else { 0 };
        let wide = match data_type.is_decimal() {
            true => Arc::clone(&args[0]),
            false => cast(&args[0], &HUGEINT)?,
        };
        let rounded = wide.as_primitive::<Decimal128Type>().iter().zip(&digits).map(|(value, digits)| {
            let (value, digits) = (value?, digits?);
            Some(nearest_even(value, i64::from(scale).saturating_sub(digits)))
        });
        let rounded: ArrayRef = Arc::new(rounded.collect::<Decimal128Array>().with_data_type(wide.data_type().clone()));
        return Ok(cast_with_options(
            &rounded,
            call.returns.data_type(),
            &CastOptions { safe: false, ..CastOptions::default() },
        )?);
    }
    let rounded = |(value, digits): (Option<f64>, Option<i64>)| {
        let (value, digits) = (value?, digits?);
        let power = 10_f64.powi(digits.clamp(-DIGITS_MAX, DIGITS_MAX) as i32);
        let rounded = (value * power).round_ties_even() / power;
        // What has no such digits is as it is.
        Some(if rounded.is_finite() { rounded } else { value })
    };
    Ok(Arc::new(doubles(&args[0])?.iter().zip(&digits).map(rounded).collect::<Float64Array>()))
}

/// The multiple of ten to the power of `dropped` next to `value`, of two the even one.
fn nearest_even(value: i128, dropped: i64) -> i128 {
    let Ok(dropped) = u32::try_from(dropped) else { return value };
    let Some(power) = 10_i128.checked_pow(dropped) else { return 0 };
    let (down, rest) = (value.div_euclid(power), value.rem_euclid(power));
    let up: i128 = match rest.cmp(&(power - rest)) {
        std::cmp::Ordering::Less => 0,
        std::cmp::Ordering::Equal => down & 1,
        std::cmp::Ordering::Greater => 1,
    };
    // Numbers near the end of the range may have no such multiple in it.
    (down + up).checked_mul(power).unwrap_or(value)
}

fn next_after_takes(given: &[DataType]) -> Result<Vec<DataType>> {
    let both = taken("nextafter", &[Argument::Double, Argument::Double], 0, given)?;
    let are_floats = given.iter().all(|given| *given == DataType::Float32);
    Ok(if are_floats { given.to_vec() } else { both })
}

fn next_after(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    if *args[0].data_type() == DataType::Float32 {
        let [values, to] = [0, 1].map(|side: usize| args[side].as_primitive::<Float32Type>());
        let next: Float32Array = values.iter().zip(to).map(|(value, to)| Some(libm::nextafterf(value?, to?))).collect();
        return Ok(Arc::new(next));
    }
    let (values, to) = (doubles(&args[0])?, doubles(&args[1])?);
    let next: Float64Array = values.iter().zip(&to).map(|(value, to)| Some(libm::nextafter(value?, to?))).collect();
    Ok(Arc::new(next))
}

/// Whole numbers and what stands for them: HUGEINT is a decimal of 38 digits.
fn whole(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [given] if given.is_integer() || *given == DataType::Decimal128(38, 0) => Ok(vec![given.clone()]),
        [DataType::Null] => Ok(vec![DataType::Int64]),
        _ => refused(name, given),
    }
}

/// What `bit_count` of a number takes.
pub(crate) fn bits_taken(given: &[DataType]) -> Result<Vec<DataType>> {
    whole("bit_count", given)
}

/// What `~` of a number takes.
pub(crate) fn whole_taken(given: &[DataType]) -> Result<Vec<DataType>> {
    whole("~", given)
}

/// 128 bits are more than a TINYINT counts.
pub(crate) fn bit_count_type(of: &DataType) -> DataType {
    if of.is_decimal() { DataType::Int16 } else { DataType::Int8 }
}

/// How many bits are set, of a negative number in two's complement.
pub(crate) fn bit_count(args: &[ArrayRef]) -> Result<ArrayRef> {
    let values = &args[0];
    if let DataType::Decimal128(..) = values.data_type() {
        let counts: Int16Array = values.as_primitive::<Decimal128Type>().unary(|value| value.count_ones() as i16);
        return Ok(Arc::new(counts));
    }
    let counts: Int8Array = downcast_integer_array!(
        values => values.unary(|value| value.count_ones() as i8),
        _ => return internal_err!("{} is no whole number", args[0].data_type()),
    );
    Ok(Arc::new(counts))
}

/// Numbers with the other bits.
pub(crate) fn not(args: &[ArrayRef]) -> Result<ArrayRef> {
    let values = &args[0];
    if let DataType::Decimal128(..) = values.data_type() {
        let flipped = values.as_primitive::<Decimal128Type>().unary::<_, Decimal128Type>(|value| !value);
        return Ok(Arc::new(flipped.with_data_type(values.data_type().clone())));
    }
    Ok(downcast_integer_array!(
        values => Arc::new(same_type(values, values.unary(|value| !value))),
        _ => return internal_err!("{} is no whole number", args[0].data_type()),
    ))
}

/// `result`, whose type is that of `_like`.
fn same_type<T>(_like: &T, result: T) -> T {
    result
}

fn may_be_infinite(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [given] if given.is_numeric() => Ok(vec![given.clone()]),
        [given @ (DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))] => Ok(vec![given.clone()]),
        [DataType::Null] => Ok(vec![DataType::Float64]),
        _ => refused(name, given),
    }
}

/// Whole numbers and decimals are finite, all of them.
fn finiteness(args: &[ArrayRef], finite: bool) -> Result<ArrayRef> {
    if args[0].data_type().is_floating() {
        let of = |value: f64| if finite { value.is_finite() } else { value.is_infinite() };
        return Ok(of_doubles(&doubles(&args[0])?, of));
    }
    let known = times::infinite::finite(&args[0])?;
    let all = (0..args[0].len()).map(|row| args[0].is_valid(row).then(|| known.is_valid(row) == finite));
    Ok(Arc::new(all.collect::<BooleanArray>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_go_to_the_even_one() {
        for (value, dropped, expected) in
            [(245, 1, 240), (235, 1, 240), (-25, 1, -20), (-35, 1, -40), (26, 1, 30), (7, -3, 7), (5, 99, 0)]
        {
            assert_eq!(nearest_even(value, dropped), expected, "{value} {dropped}");
        }
    }

    #[test]
    fn ways_are_whole() {
        assert_eq!(ways(100, 50), Some(100_891_344_545_564_193_334_812_497_256));
        assert_eq!((ways(5, 6), ways(5, 0), ways(u128::from(u64::MAX), 1)), (Some(0), Some(1), Some(u64::MAX.into())));
        assert_eq!(ways(200, 100), None);
    }

    #[test]
    fn even_numbers_are_away_from_zero() {
        for (value, expected) in [(2.1, 4.0), (-3.0, -4.0), (2.0, 2.0), (0.0, 0.0), (-0.1, -2.0), (1e300, 1e300)] {
            assert_eq!(even(value), expected, "{value}");
        }
        assert!(even(f64::NAN).is_nan());
        assert_eq!(even(f64::NEG_INFINITY), f64::NEG_INFINITY);
    }
}
