//! `equi_width_bins(least, greatest, n, nice)`: upper bounds of about `n` bins of one width, and `is_histogram_other_bin(x)`.
//!
//! Bounds go down from the greatest value in steps. If they are to be nice, a step has one digit that is 1, 2 or 5 and zeros, the first bound is a multiple of it, and there may be twice as many;
//! between moments, steps are of whole units of a calendar or a clock.
//!
//! Not here: what is counted in bins (`histograms`).

use std::sync::Arc;

use chrono::{DateTime, Datelike, Days, Months, NaiveDateTime, TimeDelta, Timelike};
use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, BooleanArray, Float64Builder, Int64Builder, ListBuilder},
        compute::cast,
        datatypes::{DataType, Field, Float64Type, Int64Type, TimeUnit},
    },
    common::{Result, ScalarValue, exec_err, plan_err},
    logical_expr::ScalarUDF,
};
use ogee_memory::BufferManager;

use crate::{arguments::wholes, function::Function, histograms, times::infinite::Infinite, type_names::sql_name};

const NAME: &str = "equi_width_bins";

/// Bins at most.
const MOST: i64 = 1_000_000;

const MOMENT: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// The functions that statements may name; lists are promised memory of `memory`.
pub(crate) fn functions(memory: &Arc<BufferManager>) -> Vec<ScalarUDF> {
    let functions = [
        Function::growing(
            NAME,
            taken,
            returned,
            |args, promises| bins(args, |row, bytes| promises.add(row, bytes)),
            memory,
        ),
        Function::of(
            "is_histogram_other_bin",
            |given| crate::arguments::taken("is_histogram_other_bin", &[crate::arguments::Argument::Any], 0, given),
            |_| Ok(DataType::Boolean),
            |args, _| is_other(&args[0]),
        ),
    ];
    functions.into_iter().map(Function::registered).collect()
}

/// The type that bounds of type `given` are computed in.
fn computed(given: &DataType) -> Option<DataType> {
    Some(match given {
        given if given.is_integer() || given.is_null() => DataType::Int64,
        DataType::Decimal128(38, 0) => DataType::Int64,
        given if given.is_floating() || given.is_decimal() => DataType::Float64,
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(_, None) => MOMENT,
        _ => return None,
    })
}

/// The bounds stay what they are: the type of the list is that of the greatest value.
pub(crate) fn taken(given: &[DataType]) -> Result<Vec<DataType>> {
    let [least, greatest, count, nice] = given else {
        return plan_err!("{NAME} takes the least and the greatest value, how many bins, and whether they are nice");
    };
    let kind = match (computed(least), computed(greatest)) {
        (Some(DataType::Int64), Some(kind)) | (Some(kind), Some(DataType::Int64)) if kind.is_numeric() => Some(kind),
        (Some(least), Some(greatest)) if least == greatest => Some(least),
        _ => None,
    };
    let Some(kind) = kind else {
        let unknown = if computed(least).is_none() { least } else { greatest };
        return plan_err!("{NAME} takes no values of type {}; cast them", sql_name(unknown));
    };
    if !(count.is_integer() || count.is_null()) || !matches!(nice, DataType::Boolean | DataType::Null) {
        return plan_err!("{NAME} takes the number of bins, and true or false");
    }
    let greatest = match greatest {
        DataType::Null => kind.clone(),
        greatest if greatest.is_decimal() && kind == DataType::Float64 => DataType::Float64,
        greatest => greatest.clone(),
    };
    Ok(vec![kind, greatest, DataType::Int64, DataType::Boolean])
}

fn returned(taken: &[DataType]) -> Result<DataType> {
    Ok(DataType::List(Arc::new(Field::new_list_field(taken[1].clone(), true))))
}

/// The bins of each row; `promise` is told how many bytes those of a row take.
pub(crate) fn bins(args: &[ArrayRef], mut promise: impl FnMut(usize, u128) -> Result<()>) -> Result<ArrayRef> {
    let (kind, result) = (args[0].data_type(), args[1].data_type());
    let (least, greatest) = (&args[0], cast(&args[1], kind)?);
    let (counts, nice) = (wholes(&args[2])?, args[3].as_boolean());
    let rows = least.len();
    let is_known =
        |row: usize| least.is_valid(row) && greatest.is_valid(row) && counts.is_valid(row) && nice.is_valid(row);
    let count = |row: usize| match counts.value(row) {
        count if count <= 0 => exec_err!("{NAME} makes 1 bin or more, not {count}"),
        count if count > MOST => exec_err!("{NAME} makes {MOST} bins at most, not {count}"),
        count => Ok(count as usize),
    };
    let reversed = "the greatest value is less than the least";
    let lists: ArrayRef = match kind {
        DataType::Float64 => {
            let (least, greatest) = (least.as_primitive::<Float64Type>(), greatest.as_primitive::<Float64Type>());
            let mut lists = ListBuilder::new(Float64Builder::new());
            for row in 0..rows {
                if !is_known(row) {
                    lists.append_null();
                    continue;
                }
                let (least, greatest, count) = (least.value(row), greatest.value(row), count(row)?);
                if !least.is_finite() || !greatest.is_finite() {
                    return exec_err!("{NAME} takes no infinite bounds, nor NaN");
                }
                if greatest < least {
                    return exec_err!("{NAME}: {reversed}");
                }
                let bins = of_floats(least, greatest, count, nice.value(row));
                promise(row, bins.len() as u128 * 8)?;
                lists.values().append_slice(&bins);
                lists.append(true);
            }
            Arc::new(lists.finish())
        }
        _ => {
            let is_moment = *kind == MOMENT;
            if Infinite::of(least).is_some() || Infinite::of(&greatest).is_some() {
                return exec_err!("{NAME} takes no infinite bounds, nor NaN");
            }
            let (least, greatest) = (cast(least, &DataType::Int64)?, cast(&greatest, &DataType::Int64)?);
            let (least, greatest) = (least.as_primitive::<Int64Type>(), greatest.as_primitive::<Int64Type>());
            let mut lists = ListBuilder::new(Int64Builder::new());
            for row in 0..rows {
                if !is_known(row) {
                    lists.append_null();
                    continue;
                }
                let (least, greatest, count) = (least.value(row), greatest.value(row), count(row)?);
                if greatest < least {
                    return exec_err!("{NAME}: {reversed}");
                }
                let bins = match is_moment && nice.value(row) {
                    true => of_moments(least, greatest, count)?,
                    false => of_integers(least, greatest, count, nice.value(row)),
                };
                promise(row, bins.len() as u128 * 8)?;
                lists.values().append_slice(&bins);
                lists.append(true);
            }
            Arc::new(lists.finish())
        }
    };
    let of = |of: &DataType| DataType::List(Arc::new(Field::new_list_field(of.clone(), true)));
    Ok(cast(&cast(&lists, &of(kind))?, &of(result))?)
}

/// Parts of a whole number that bounds are computed in, so that steps need not be whole.
const PARTS: i128 = 1000;

fn of_integers(least: i64, greatest: i64, count: usize, nice: bool) -> Vec<i64> {
    if least == greatest {
        return vec![greatest];
    }
    let low = i128::from(least) * PARTS;
    let mut bound = i128::from(greatest) * PARTS;
    let mut step = (bound - low) / count as i128;
    let mut most = count;
    if nice {
        let nicer = nice_integer(step);
        if nicer > 0 {
            let up = up_to_multiple(bound, nicer);
            if up != low {
                (bound, step) = (up, nicer);
            }
        }
        most *= 2;
    }
    let mut bins: Vec<i64> = Vec::new();
    // A step of nothing would lead nowhere.
    let step = step.max(1);
    while bound > low {
        let value = (bound / PARTS).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        bound -= step;
        match bins.last() {
            Some(_) if value < least || bins.len() >= most => break,
            Some(last) if *last == value => {}
            _ => bins.push(value),
        }
    }
    bins.reverse();
    bins
}

fn up_to_multiple(value: i128, of: i128) -> i128 {
    (value + (of - 1)) / of * of
}

/// The multiples of powers of ten that a step may be rounded to, by the power below it.
fn divisors<T: PartialOrd + Copy + std::ops::Mul<Output = T>>(power: T, step: T, of: impl Fn(i32) -> T) -> [T; 2] {
    let (two, five) = (power * of(2), power);
    [if power * of(3) <= step { two * of(5) } else { two }, if power * of(2) <= step { five * of(5) } else { five }]
}

fn nice_integer(step: i128) -> i128 {
    let mut power = 1;
    while power < step {
        power *= 10;
    }
    let power = power / 10;
    let nearest = |divisor: i128| if divisor == 0 { step } else { (step + divisor / 2) / divisor * divisor };
    let [two, five] = divisors(power, step, i128::from).map(nearest);
    if (step - two).abs() < (step - five).abs() { two } else { five }
}

/// The power of ten that is less than `value`, or equal to it if that is below 1.
fn power_below(value: f64) -> f64 {
    let mut power = 1.0;
    if value < 1.0 {
        while power > value && power > 0.0 {
            power /= 10.0;
        }
        return power;
    }
    while power < value {
        power *= 10.0;
    }
    power / 10.0
}

fn nice_float(step: f64) -> f64 {
    let nearest = |divisor: f64| {
        let rounded = (step / divisor).round() * divisor;
        if rounded.is_finite() { rounded } else { step }
    };
    let [two, five] = divisors(power_below(step), step, f64::from).map(nearest);
    if (step - two).abs() < (step - five).abs() { two } else { five }
}

fn of_floats(least: f64, greatest: f64, count: usize, nice: bool) -> Vec<f64> {
    if least == greatest {
        return vec![greatest];
    }
    let span = greatest - least;
    let mut step = match span.is_finite() {
        true => span / count as f64,
        false => greatest / count as f64 - least / count as f64,
    };
    let digits = 10.0 / power_below(step);
    let (mut bound, mut most) = (greatest, count);
    if nice {
        step = nice_float(step);
        let up = (greatest / step).ceil() * step;
        bound = if up.is_finite() { up } else { greatest };
        most *= 2;
    }
    let mut bins: Vec<f64> = Vec::new();
    while bound > least {
        // Sums of binary fractions miss decimal ones by a little.
        let rounded = (bound * digits).round() / digits;
        let value = if nice && rounded.is_finite() { rounded } else { bound };
        let next = bound - step;
        if bins.last() != Some(&value) {
            if value <= least || bins.len() >= most {
                break;
            }
            bins.push(value);
        }
        if next >= bound {
            break;
        }
        bound = next;
    }
    bins.reverse();
    bins
}

const MICROS_OF_SECOND: i64 = 1_000_000;
const MICROS_OF_MINUTE: i64 = 60 * MICROS_OF_SECOND;
const MICROS_OF_HOUR: i64 = 60 * MICROS_OF_MINUTE;
const MICROS_OF_DAY: i64 = 24 * MICROS_OF_HOUR;

/// A step from one moment to another.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    months: i64,
    days: i64,
    micros: i64,
}

impl Step {
    /// A part of the way from `least` to `greatest`; what is left of months goes to days, and of days to the time.
    fn between(least: NaiveDateTime, greatest: NaiveDateTime, count: usize) -> Self {
        let months_of = |moment: NaiveDateTime| i64::from(moment.year()) * 12 + i64::from(moment.month());
        let time = |moment: NaiveDateTime| {
            i64::from(moment.num_seconds_from_midnight()) * MICROS_OF_SECOND + i64::from(moment.nanosecond() / 1000)
        };
        let each = |far: i64| far as f64 / count as f64;
        let months = each(months_of(greatest) - months_of(least));
        let mut days = each(i64::from(greatest.day()) - i64::from(least.day()));
        let mut micros = each(time(greatest) - time(least));
        if months > 0.0 {
            days += (months - months.floor()) * 30.0;
        }
        if days > 0.0 {
            micros += (days - days.floor()) * MICROS_OF_DAY as f64;
        }
        Self { months: months as i64, days: days as i64, micros: micros as i64 }
    }

    /// In whole units that are not far smaller than the step.
    fn nice(mut self) -> Self {
        let whole = |micros: i64, unit: i64| (micros + unit / 2) / unit * unit;
        if self.months >= 6 {
            (self.days, self.micros) = (0, 0);
        } else if self.months > 0 || self.days >= 5 {
            self.micros = 0;
        } else {
            let unit = match self.micros {
                _ if self.days > 0 => MICROS_OF_HOUR,
                micros if micros >= 6 * MICROS_OF_HOUR => MICROS_OF_HOUR,
                micros if micros >= MICROS_OF_HOUR => 15 * MICROS_OF_MINUTE,
                micros if micros >= 10 * MICROS_OF_MINUTE => MICROS_OF_MINUTE,
                micros if micros >= MICROS_OF_MINUTE => 15 * MICROS_OF_SECOND,
                micros if micros >= 10 * MICROS_OF_SECOND => MICROS_OF_SECOND,
                _ => 1,
            };
            self.micros = whole(self.micros, unit);
        }
        self
    }

    /// The first moment at `moment` or behind it that is whole in the unit below the step's.
    fn up(self, moment: NaiveDateTime) -> Option<NaiveDateTime> {
        let midnight = moment.date().and_hms_opt(0, 0, 0)?;
        if self.months >= 12 {
            let first = midnight.with_day(1)?;
            return if first == moment { Some(first) } else { first.checked_add_months(Months::new(1)) };
        }
        if self.months > 0 || self.days >= 1 {
            return if midnight == moment { Some(midnight) } else { midnight.checked_add_days(Days::new(1)) };
        }
        let unit = match self.micros {
            micros if micros >= MICROS_OF_HOUR => MICROS_OF_HOUR,
            micros if micros >= MICROS_OF_MINUTE => MICROS_OF_MINUTE,
            micros if micros >= MICROS_OF_SECOND => MICROS_OF_SECOND,
            _ => 1,
        };
        let rest = (moment - midnight).num_microseconds()? % unit;
        moment.checked_add_signed(TimeDelta::microseconds((unit - rest) % unit))
    }

    fn before(self, moment: NaiveDateTime) -> Option<NaiveDateTime> {
        let months = Months::new(u32::try_from(self.months).ok()?);
        let moment = moment.checked_sub_months(months)?.checked_sub_signed(TimeDelta::try_days(self.days)?)?;
        moment.checked_sub_signed(TimeDelta::microseconds(self.micros))
    }
}

fn of_moments(least: i64, greatest: i64, count: usize) -> Result<Vec<i64>> {
    let moment = |micros: i64| DateTime::from_timestamp_micros(micros).map(|moment| moment.naive_utc());
    let (Some(low), Some(high)) = (moment(least), moment(greatest)) else {
        return exec_err!("{NAME}: a moment is out of range");
    };
    let step = Step::between(low, high, count).nice();
    let mut bound = step.up(high);
    let is_nothing = step.months <= 0 && step.days <= 0 && step.micros <= 0;
    let step = if is_nothing { Step { months: 0, days: 0, micros: 1 } } else { step };
    let step = Step { months: step.months.max(0), ..step };
    let mut bins = Vec::new();
    while let Some(at) = bound.filter(|at| *at >= low && bins.len() < count) {
        bins.push(at.and_utc().timestamp_micros());
        bound = step.before(at).filter(|before| *before < at);
    }
    bins.reverse();
    Ok(bins)
}

/// Whether each of `values` stands for all that are in no bin.
fn is_other(values: &ArrayRef) -> Result<ArrayRef> {
    let other = histograms::other(values.data_type())?;
    let is_other = |row: usize| -> Result<Option<bool>> {
        if values.is_null(row) {
            return Ok(None);
        }
        let Some(other) = &other else { return Ok(Some(false)) };
        Ok(Some(ScalarValue::try_from_array(values, row)? == *other))
    };
    if values.data_type().is_null() {
        return Ok(Arc::new(BooleanArray::new_null(values.len())));
    }
    Ok(Arc::new((0..values.len()).map(is_other).collect::<Result<BooleanArray>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_in_nice_steps() {
        assert_eq!(of_integers(0, 1734, 10, true), [200, 400, 600, 800, 1000, 1200, 1400, 1600, 1800]);
        assert_eq!(of_integers(0, 1734, 10, false), [173, 346, 520, 693, 867, 1040, 1213, 1387, 1560, 1734]);
        assert_eq!(of_integers(9, 11, 2, true), [10, 11]);
        let bins = of_integers(i64::MIN, i64::MAX, 5, true);
        assert_eq!(bins, [-5_000_000_000_000_000_000, 0, 5_000_000_000_000_000_000, i64::MAX]);
        assert_eq!(of_integers(0, 10, 5999, true).len(), 11);
    }

    #[test]
    fn floats_have_few_digits() {
        assert_eq!(of_floats(0.0, 1.0, 5, true), [0.2, 0.4, 0.6, 0.8, 1.0]);
        assert_eq!(of_floats(-1.0, 1.0, 5, true), [-0.5, 0.0, 0.5, 1.0]);
        assert_eq!(of_floats(0.0, 3.974, 5, true), [1.0, 2.0, 3.0, 4.0]);
    }
}
