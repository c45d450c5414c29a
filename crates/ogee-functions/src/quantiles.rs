//! `quantile_disc(x, f)`, `quantile_cont(x, f)` and `mad(x)`, and the medians that are not of plain numbers.
//!
//! A fraction below 0 counts from the greatest value, and a list of fractions gives a list. Between two values lies a float of integers, a decimal of decimals, whose further digits are cut
//! off, a timestamp of dates, a moment of moments. How far values are from their median is an interval where they are moments.
//!
//! Not here: the engine's own quantiles of numbers (`ogee_exec::aggregate`), which take one fraction.

use std::{mem::size_of_val, sync::Arc};

use datafusion::{
    arrow::{
        array::{
            Array, ArrayRef, AsArray, Decimal128Array, Float32Array, Float64Array, Int64Array,
            IntervalMonthDayNanoArray, UInt32Array, new_empty_array,
        },
        compute::{cast, concat, filter, is_not_null, take},
        datatypes::{
            DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef, Float32Type, Float64Type, Int64Type,
            IntervalMonthDayNano, IntervalUnit,
        },
    },
    common::{Result, ScalarValue, exec_err, internal_err, plan_err, utils::SingleRowListArrayBuilder},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
};
use ogee_exec::aggregate::DiscreteFraction;

use crate::{
    aggregates::{elements, state_list},
    moments,
    places::{places, ranked},
    times::intervals::{INTERVAL, intervals, length, of_length},
    type_names::sql_name,
};

/// The functions to register in a session.
pub(crate) fn functions() -> Vec<AggregateUDF> {
    let signature = || Signature::user_defined(Volatility::Immutable);
    vec![
        AggregateUDF::new_from_impl(Quantile { is_continuous: false, aliases: Vec::new(), signature: signature() }),
        AggregateUDF::new_from_impl(Quantile {
            is_continuous: true,
            aliases: vec!["quantile_cont".to_owned()],
            signature: signature(),
        }),
        AggregateUDF::new_from_impl(Deviation { signature: signature() }),
    ]
}

/// How a value at a fraction is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// One of the values.
    Discrete,
    /// One between two values.
    Continuous,
}

/// The type in which values of type `given` are, that have others between them; `None` if they have none.
pub(crate) fn continuous(given: &DataType) -> Option<DataType> {
    Some(match given {
        DataType::Dictionary(_, values) => return continuous(values),
        DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0) | DataType::Null => DataType::Float64,
        DataType::Decimal128(..) | DataType::Float32 | DataType::Float64 => given.clone(),
        DataType::Float16 => DataType::Float32,
        given if given.is_integer() || given.is_decimal() => DataType::Float64,
        given => return moments::taken(given),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Quantile {
    is_continuous: bool,
    aliases: Vec<String>,
    signature: Signature,
}

fn list_of(field: &FieldRef) -> DataType {
    DataType::List(Arc::new(field.as_ref().clone().with_name(Field::LIST_FIELD_DEFAULT_NAME).with_nullable(true)))
}

impl AggregateUDFImpl for Quantile {
    fn name(&self) -> &str {
        if self.is_continuous { "percentile_cont" } else { "quantile_disc" }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let name = if self.is_continuous { "quantile_cont" } else { self.name() };
        let [value, fraction] = arg_types else {
            return plan_err!("{name} takes a value and a fraction, or a list of fractions");
        };
        let fraction = match fraction {
            DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _)
                if of.data_type().is_numeric() =>
            {
                DataType::List(Arc::new(Field::new_list_field(DataType::Float64, true)))
            }
            fraction if fraction.is_numeric() => DataType::Float64,
            _ => return plan_err!("{name} takes a value and a fraction, or a list of fractions"),
        };
        let value = match self.is_continuous {
            false => value.clone(),
            true => match continuous(value) {
                Some(value) => value,
                None => {
                    return plan_err!(
                        "{name} takes no values of type {}, which have none between them; use quantile_disc",
                        sql_name(value)
                    );
                }
            },
        };
        Ok(vec![value, fraction])
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        internal_err!("the type of a quantile follows from the fields of its arguments")
    }

    /// As the values are, which may be marked text.
    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        let field = match arg_fields[1].data_type() {
            DataType::List(_) => Field::new(self.name(), list_of(&arg_fields[0]), true),
            _ => arg_fields[0].as_ref().clone().with_name(self.name()).with_nullable(true),
        };
        Ok(Arc::new(field))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![state_list("values", args.input_fields[0].data_type()), state_list("fractions", &DataType::Float64)])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let way = if self.is_continuous { Way::Continuous } else { Way::Discrete };
        Ok(Box::new(Values {
            data_type: args.expr_fields[0].data_type().clone(),
            result: args.return_field.data_type().clone(),
            way,
            takes: Takes::Fractions,
            fractions: None,
            descends: args.order_bys.first().is_some_and(|by| by.options.descending),
            is_distinct: args.is_distinct,
            values: Vec::new(),
        }))
    }

    /// Whether it descends is told only to a function that an order matters to; it sorts by itself.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Beneficial
    }

    fn with_beneficial_ordering(self: Arc<Self>, _beneficial: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }
}

/// The median of how far values are from their median.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Deviation {
    signature: Signature,
}

impl AggregateUDFImpl for Deviation {
    fn name(&self) -> &str {
        "mad"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [value] if let Some(value) = continuous(value) => Ok(vec![value]),
            _ => crate::arguments::refused(self.name(), arg_types),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(if moments::is_moment(&arg_types[0]) { INTERVAL } else { arg_types[0].clone() })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![state_list("values", args.input_fields[0].data_type())])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let data_type = args.expr_fields[0].data_type();
        let result = args.return_field.data_type();
        Ok(Box::new(Values::without_fractions(data_type, result, Takes::Deviation, args.is_distinct)))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// What is taken of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Those at the fractions that come with the values.
    Fractions,
    /// The one in the middle.
    Middle(Way),
    /// How far they are from that.
    Deviation,
}

/// The values of a group or a frame.
#[derive(Debug)]
pub(crate) struct Values {
    data_type: DataType,
    result: DataType,
    way: Way,
    takes: Takes,
    fractions: Option<Vec<f64>>,
    descends: bool,
    /// Each value counts once.
    is_distinct: bool,
    values: Vec<ArrayRef>,
}

impl Values {
    /// Values of type `data_type`, of which what is taken is of type `result`.
    pub(crate) fn without_fractions(data_type: &DataType, result: &DataType, takes: Takes, is_distinct: bool) -> Self {
        let way = if let Takes::Middle(way) = takes { way } else { Way::Continuous };
        Self {
            data_type: data_type.clone(),
            result: result.clone(),
            way,
            takes,
            fractions: Some(vec![0.5]),
            descends: false,
            is_distinct,
            values: Vec::new(),
        }
    }

    fn name(&self) -> &'static str {
        if self.way == Way::Continuous { "quantile_cont" } else { "quantile_disc" }
    }

    fn set_fractions(&mut self, fractions: Vec<Option<f64>>) -> Result<()> {
        let mut known = Vec::with_capacity(fractions.len());
        for fraction in fractions {
            match fraction {
                Some(fraction) if (-1.0..=1.0).contains(&fraction) => known.push(fraction),
                Some(fraction) => {
                    return exec_err!("{} takes fractions between -1 and 1, not {fraction}", self.name());
                }
                None => return exec_err!("{} takes no NULL for a fraction", self.name()),
            }
        }
        if *self.fractions.get_or_insert_with(|| known.clone()) != known {
            return exec_err!("{} takes the same fraction for all rows of a group", self.name());
        }
        Ok(())
    }

    fn read_fractions(&mut self, given: &ArrayRef) -> Result<()> {
        match given.data_type() {
            DataType::List(_) => {
                let lists = given.as_list::<i32>();
                for row in 0..lists.len() {
                    if lists.is_null(row) {
                        return exec_err!("{} takes no NULL for a list of fractions", self.name());
                    }
                    self.set_fractions(lists.value(row).as_primitive::<Float64Type>().iter().collect())?;
                }
            }
            _ => {
                let given = given.as_primitive::<Float64Type>();
                let first = given.iter().next();
                let is_one = given.null_count() == 0 && given.values().windows(2).all(|pair| pair[0] == pair[1]);
                match first {
                    Some(first) if is_one => self.set_fractions(vec![first])?,
                    _ => given.iter().try_for_each(|fraction| self.set_fractions(vec![fraction]))?,
                }
            }
        }
        Ok(())
    }

    fn all(&self) -> Result<ArrayRef> {
        Ok(match self.values.as_slice() {
            [] => new_empty_array(&self.data_type),
            [one] => Arc::clone(one),
            several => concat(&several.iter().map(|values| values.as_ref()).collect::<Vec<_>>())?,
        })
    }

    /// All values in their order.
    fn sorted(&self) -> Result<ArrayRef> {
        let all = self.all()?;
        let mut rows = ranked(&all, false)?;
        if self.is_distinct {
            let places = places(&all, false)?;
            rows.dedup_by_key(|row| places.row(*row as usize));
        }
        Ok(take(&all, &UInt32Array::from(rows), None)?)
    }
}

/// The values at `fractions` of `sorted`, which has some.
fn at_fractions(sorted: &ArrayRef, way: Way, fractions: &[f64], descends: bool) -> Result<ArrayRef> {
    let count = sorted.len();
    let descending = |fraction: f64| descends != (fraction < 0.0);
    if way == Way::Discrete {
        let ranks = fractions.iter().map(|&fraction| {
            DiscreteFraction { share: fraction.abs(), descending: descending(fraction) }.rank(count as u64) as u32
        });
        return Ok(take(sorted, &UInt32Array::from_iter_values(ranks), None)?);
    }
    let mut lower = Vec::with_capacity(fractions.len());
    let mut upper = Vec::with_capacity(fractions.len());
    let mut shares = Vec::with_capacity(fractions.len());
    for &fraction in fractions {
        let place = (count - 1) as f64 * fraction.abs();
        let rank = |place: f64| match descending(fraction) {
            true => (count - 1) as u32 - place as u32,
            false => place as u32,
        };
        lower.push(rank(place.floor()));
        upper.push(rank(place.ceil()));
        shares.push(place - place.floor());
    }
    let of =
        |ranks: Vec<u32>| Ok::<_, datafusion::error::DataFusionError>(take(sorted, &UInt32Array::from(ranks), None)?);
    between(&of(lower)?, &of(upper)?, &shares)
}

/// For each pair of values the one that lies `share` of the way from the lower to the upper.
fn between(lower: &ArrayRef, upper: &ArrayRef, shares: &[f64]) -> Result<ArrayRef> {
    let data_type = lower.data_type();
    let float = |(lower, upper): (f64, f64), share: f64| match lower == upper {
        true => lower,
        false => lower * (1.0 - share) + upper * share,
    };
    Ok(match data_type {
        DataType::Float64 => {
            let pairs =
                lower.as_primitive::<Float64Type>().values().iter().zip(upper.as_primitive::<Float64Type>().values());
            Arc::new(Float64Array::from_iter_values(
                pairs.zip(shares).map(|((lower, upper), share)| float((*lower, *upper), *share)),
            ))
        }
        DataType::Float32 => {
            let pairs =
                lower.as_primitive::<Float32Type>().values().iter().zip(upper.as_primitive::<Float32Type>().values());
            Arc::new(Float32Array::from_iter_values(
                pairs
                    .zip(shares)
                    .map(|((lower, upper), share)| float((f64::from(*lower), f64::from(*upper)), *share) as f32),
            ))
        }
        DataType::Decimal128(precision, scale) => {
            let pairs = lower
                .as_primitive::<Decimal128Type>()
                .values()
                .iter()
                .zip(upper.as_primitive::<Decimal128Type>().values());
            let values = pairs.zip(shares).map(|((lower, upper), share)| cut(*lower, *upper, *share));
            Arc::new(Decimal128Array::from_iter_values(values).with_precision_and_scale(*precision, *scale)?)
        }
        DataType::Interval(_) => {
            let (lower, upper) = (intervals(lower)?, intervals(upper)?);
            let pairs = lower.values().iter().zip(upper.values()).zip(shares);
            let values = pairs.map(|((lower, upper), share)| match length(*lower) == length(*upper) {
                true => Ok(*lower),
                false => made_of(length(*lower) + part(length(*upper) - length(*lower), *share)),
            });
            Arc::new(IntervalMonthDayNanoArray::from(values.collect::<Result<Vec<_>>>()?))
        }
        _ => {
            let (lower, upper) = (cast(lower, &DataType::Int64)?, cast(upper, &DataType::Int64)?);
            let pairs =
                lower.as_primitive::<Int64Type>().values().iter().zip(upper.as_primitive::<Int64Type>().values());
            let values = pairs.zip(shares).map(|((lower, upper), share)| {
                let far = ((i128::from(*upper) - i128::from(*lower)) as f64 * share).round() as i128;
                // Between two numbers of 64 bits.
                (i128::from(*lower) + far) as i64
            });
            cast(&Int64Array::from_iter_values(values), data_type)?
        }
    })
}

/// The decimal that lies `share` of the way from `lower` to `upper`, without further digits.
fn cut(lower: i128, upper: i128, share: f64) -> i128 {
    // Between decimals of 38 digits there are more than 128 bits.
    let between = upper.checked_sub(lower).map_or_else(|| upper as f64 - lower as f64, |between| between as f64);
    let far = between * share;
    let down = lower + far.floor() as i128;
    if down < 0 { lower + far.ceil() as i128 } else { down }
}

/// `share` of `whole`, without a fraction.
fn part(whole: i128, share: f64) -> i128 {
    (whole as f64 * share) as i128
}

/// The interval of so many nanoseconds.
fn made_of(nanoseconds: i128) -> Result<IntervalMonthDayNano> {
    match of_length(nanoseconds) {
        Some(interval) => Ok(interval),
        None => exec_err!("an interval between others is out of range"),
    }
}

/// How far each of `values` is from the one value of `middle`, in the order of that.
fn distances(values: &ArrayRef, middle: &ArrayRef) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::Float64 => {
            let middle = middle.as_primitive::<Float64Type>().value(0);
            Arc::new(values.as_primitive::<Float64Type>().unary::<_, Float64Type>(|value| (value - middle).abs()))
        }
        DataType::Float32 => {
            let middle = middle.as_primitive::<Float32Type>().value(0);
            Arc::new(values.as_primitive::<Float32Type>().unary::<_, Float32Type>(|value| (value - middle).abs()))
        }
        DataType::Decimal128(precision, scale) => {
            let middle = middle.as_primitive::<Decimal128Type>().value(0);
            let far =
                values.as_primitive::<Decimal128Type>().unary::<_, Decimal128Type>(|value| (value - middle).abs());
            Arc::new(far.with_precision_and_scale(*precision, *scale)?)
        }
        _ => {
            let (values, middle) = (cast(values, &DataType::Int64)?, cast(middle, &DataType::Int64)?);
            let middle = middle.as_primitive::<Int64Type>().value(0);
            let far = |value: i64| made_of((i128::from(value) - i128::from(middle)).abs() * 1000);
            let far = values.as_primitive::<Int64Type>().values().iter().map(|value| far(*value));
            Arc::new(IntervalMonthDayNanoArray::from(far.collect::<Result<Vec<_>>>()?))
        }
    })
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if self.takes == Takes::Fractions {
            self.read_fractions(&values[1])?;
        }
        let valid = filter(&values[0], &is_not_null(&values[0])?)?;
        if !valid.is_empty() {
            self.values.push(valid);
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let (Some(fractions), false) = (&self.fractions, self.values.is_empty()) else {
            return ScalarValue::try_from(&self.result);
        };
        let sorted = self.sorted()?;
        let found = at_fractions(&sorted, self.way, fractions, self.descends)?;
        let found = match self.takes {
            Takes::Deviation => {
                let far = distances(&sorted, &found)?;
                let far = take(&far, &UInt32Array::from(ranked(&far, false)?), None)?;
                at_fractions(&far, Way::Continuous, &[0.5], false)?
            }
            _ => found,
        };
        match &self.result {
            DataType::List(_) if self.takes == Takes::Fractions => {
                let list = SingleRowListArrayBuilder::new(found).build_list_scalar();
                list.cast_to(&self.result)
            }
            _ => ScalarValue::try_from_array(&found, 0)?.cast_to(&self.result),
        }
    }

    /// Twice: they are copied where they are sorted.
    fn size(&self) -> usize {
        size_of_val(self) + 2 * self.values.iter().map(|values| values.get_array_memory_size()).sum::<usize>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let list = |array: ArrayRef| SingleRowListArrayBuilder::new(array).build_list_scalar();
        let mut state = vec![list(self.all()?)];
        if self.takes == Takes::Fractions {
            state.push(match &self.fractions {
                Some(fractions) => list(Arc::new(Float64Array::from(fractions.clone()))),
                None => ScalarValue::try_from(state_list("", &DataType::Float64).data_type())?,
            });
        }
        Ok(state)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        if self.takes == Takes::Fractions {
            for fractions in elements(&states[1]) {
                self.set_fractions(fractions.as_primitive::<Float64Type>().iter().collect())?;
            }
        }
        self.values.extend(elements(&states[0]).into_iter().filter(|values| !values.is_empty()));
        Ok(())
    }
}

/// Whether `data_type` is that of intervals as they are here.
pub(crate) fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(IntervalUnit::MonthDayNano))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn fractions_below_zero_count_from_the_greatest() {
        let values: ArrayRef = Arc::new(Float64Array::from_iter_values((0..5).map(f64::from)));
        let found = at_fractions(&values, Way::Continuous, &[0.25, -0.25, 0.3], false).unwrap();
        assert_eq!(found.as_primitive::<Float64Type>().values()[..2], [1.0, 3.0]);
        let found = at_fractions(&values, Way::Discrete, &[0.0, -0.01, 1.0], false).unwrap();
        assert_eq!(found.as_primitive::<Float64Type>().values()[..], [0.0, 4.0, 4.0]);
    }

    #[test]
    fn decimals_between_others_are_cut_off() {
        assert_eq!((cut(250, 375, 0.7), cut(1, 4, 0.5), cut(-5, -2, 0.5), cut(-2, -2, 0.5)), (337, 2, -3, -2));
    }
}
