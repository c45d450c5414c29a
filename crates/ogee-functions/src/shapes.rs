//! What a group of numbers is like beyond its mean: `product`, `sem`, `skewness`, `kurtosis`, `entropy`.
//!
//! All but `entropy`, which is of values of any type, take numbers as doubles. `approx_top_k(x, k)` is the list of the most frequent values, here exactly.
//!
//! Not here: variances and what two columns have in common, which the engine computes; how far values are from their median (`quantiles`).

use std::{collections::HashMap, mem::size_of_val, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, Float64Array, UInt64Array, new_empty_array},
        compute::cast,
        datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type, UInt64Type},
    },
    common::{Result, ScalarValue, exec_err, utils::SingleRowListArrayBuilder},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::{AggregateOrderSensitivity, format_state_name},
    },
};

use crate::{
    aggregates::{elements, state_list},
    arguments::{Argument, doubles, taken},
};

/// The functions to register in a session.
pub fn functions() -> Vec<AggregateUDF> {
    let shapes = [
        ("product", Shape::Product),
        ("sem", Shape::Error),
        ("skewness", Shape::Skewness),
        ("kurtosis", Shape::Kurtosis),
        ("kurtosis_pop", Shape::PopulationKurtosis),
        ("entropy", Shape::Entropy),
    ];
    let function = |(name, shape)| {
        AggregateUDF::new_from_impl(OfShape { name, shape, signature: Signature::user_defined(Volatility::Immutable) })
    };
    let top = AggregateUDF::new_from_impl(TopK { signature: Signature::user_defined(Volatility::Immutable) });
    shapes.into_iter().map(function).chain([top]).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Shape {
    Product,
    /// How far the mean may be off: the standard deviation by the root of how many there are.
    Error,
    Skewness,
    /// Of a sample.
    Kurtosis,
    PopulationKurtosis,
    /// How many bits a value takes.
    Entropy,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfShape {
    name: &'static str,
    shape: Shape,
    signature: Signature,
}

impl AggregateUDFImpl for OfShape {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let argument = if self.shape == Shape::Entropy { Argument::Any } else { Argument::Double };
        taken(self.name, &[argument], 0, arg_types)
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let name = |part| format_state_name(args.name, part);
        Ok(match self.shape {
            Shape::Entropy => vec![
                state_list(&name("values"), args.input_fields[0].data_type()),
                state_list(&name("counts"), &DataType::UInt64),
            ],
            _ => vec![state_list(&name("sums"), &DataType::Float64)],
        })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        // Each value once.
        let seen = args.is_distinct.then(HashMap::new);
        Ok(match self.shape {
            Shape::Entropy => {
                let data_type = args.exprs[0].data_type(args.schema)?;
                Box::new(Counts { data_type, counts: HashMap::new(), bytes: 0, is_distinct: args.is_distinct })
            }
            shape => Box::new(Sums { shape, sums: Moments::default(), seen }),
        })
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    /// Nothing takes no bits, also in a frame without rows.
    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        match self.shape {
            Shape::Entropy => Ok(ScalarValue::Float64(Some(0.0))),
            _ => ScalarValue::try_from(data_type),
        }
    }
}

/// How many values there are, their product, mean, and the sums of powers of how far they are from that.
#[derive(Clone, Copy, Debug)]
struct Moments {
    count: f64,
    product: f64,
    mean: f64,
    second: f64,
    third: f64,
    fourth: f64,
}

impl Default for Moments {
    fn default() -> Self {
        Self { count: 0.0, product: 1.0, mean: 0.0, second: 0.0, third: 0.0, fourth: 0.0 }
    }
}

impl Moments {
    const PARTS: usize = 6;

    fn of(value: f64) -> Self {
        Self { count: 1.0, product: value, mean: value, ..Self::default() }
    }

    fn parts(self) -> [f64; Self::PARTS] {
        [self.count, self.product, self.mean, self.second, self.third, self.fourth]
    }

    /// Those of these and of other values (Pébay 2008).
    fn with(self, other: Self) -> Self {
        if self.count == 0.0 {
            return other;
        }
        let (a, b) = (self.count, other.count);
        let count = a + b;
        let by = other.mean - self.mean;
        let second = self.second + other.second + by * by * a * b / count;
        let third = self.third
            + other.third
            + by.powi(3) * a * b * (a - b) / (count * count)
            + 3.0 * by * (a * other.second - b * self.second) / count;
        let fourth = self.fourth
            + other.fourth
            + by.powi(4) * a * b * (a * a - a * b + b * b) / count.powi(3)
            + 6.0 * by * by * (a * a * other.second + b * b * self.second) / (count * count)
            + 4.0 * by * (a * other.third - b * self.third) / count;
        Self { count, product: self.product * other.product, mean: self.mean + by * b / count, second, third, fourth }
    }

    /// Nothing where there are too few values for it.
    fn shape(self, shape: Shape) -> Option<f64> {
        let Self { count, product, second, third, fourth, .. } = self;
        match shape {
            Shape::Product => (count > 0.0).then_some(product),
            Shape::Error => (count > 0.0).then(|| (second / count).sqrt() / count.sqrt()),
            Shape::Skewness if count > 2.0 => {
                let spread = (second / count).powf(1.5);
                let skew = third / count / spread;
                (spread > 0.0).then(|| (count * (count - 1.0)).sqrt() / (count - 2.0) * skew)
            }
            Shape::PopulationKurtosis if count > 1.0 && second > 0.0 => Some(count * fourth / (second * second) - 3.0),
            Shape::Kurtosis if count > 3.0 && second > 0.0 => {
                let excess = count * fourth / (second * second) - 3.0;
                Some((count - 1.0) / ((count - 2.0) * (count - 3.0)) * ((count + 1.0) * excess + 6.0))
            }
            _ => None,
        }
    }
}

/// Moments of the values of a group.
#[derive(Debug)]
struct Sums {
    shape: Shape,
    sums: Moments,
    /// The values that there were, if each counts once.
    seen: Option<HashMap<u64, ()>>,
}

/// One form of equal numbers.
fn bits(value: f64) -> u64 {
    if value == 0.0 {
        0
    } else if value.is_nan() {
        f64::NAN.to_bits()
    } else {
        value.to_bits()
    }
}

impl Sums {
    fn add(&mut self, value: f64) {
        if self.seen.as_mut().is_none_or(|seen| seen.insert(bits(value), ()).is_none()) {
            self.sums = self.sums.with(Moments::of(value));
        }
    }
}

fn list(values: Vec<f64>) -> ScalarValue {
    SingleRowListArrayBuilder::new(Arc::new(Float64Array::from(values))).build_list_scalar()
}

impl Accumulator for Sums {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        doubles(&values[0])?.iter().flatten().for_each(|value| self.add(value));
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let name = match self.shape {
            Shape::Skewness => "skewness",
            Shape::Kurtosis => "kurtosis",
            Shape::PopulationKurtosis => "kurtosis_pop",
            _ => return Ok(ScalarValue::Float64(self.sums.shape(self.shape))),
        };
        let value = self.sums.shape(self.shape);
        let moments = [self.sums.second, self.sums.third, self.sums.fourth];
        match moments.into_iter().chain(value).all(f64::is_finite) {
            true => Ok(ScalarValue::Float64(value)),
            false => exec_err!("{name} is out of range"),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.seen.as_ref().map_or(0, |seen| seen.capacity() * (size_of::<u64>() + 1))
    }

    /// The parts of the moments, or the values themselves.
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![list(match &self.seen {
            Some(seen) => seen.keys().map(|bits| f64::from_bits(*bits)).collect(),
            None => self.sums.parts().into(),
        })])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for state in elements(&states[0]) {
            let state = state.as_primitive::<Float64Type>();
            match (&self.seen, &state.values()[..]) {
                (None, &[count, product, mean, second, third, fourth]) if count > 0.0 => {
                    self.sums = self.sums.with(Moments { count, product, mean, second, third, fourth });
                }
                (None, _) => {}
                (Some(_), values) => values.iter().for_each(|value| self.add(*value)),
            }
        }
        Ok(())
    }
}

/// How often each value of a group occurs.
#[derive(Debug)]
struct Counts {
    data_type: DataType,
    counts: HashMap<ScalarValue, u64>,
    /// Of the values, beyond the table itself.
    bytes: usize,
    is_distinct: bool,
}

impl Counts {
    fn add(&mut self, values: &ArrayRef, count: impl Fn(usize) -> u64) -> Result<()> {
        let nulls = values.logical_nulls();
        let Self { counts, bytes, .. } = self;
        for row in (0..values.len()).filter(|&row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))) {
            let mut value = ScalarValue::try_from_array(values, row)?;
            value.compact();
            *counts.entry(value).or_insert_with_key(|value| {
                *bytes += value.size();
                0
            }) += count(row);
        }
        Ok(())
    }
}

impl Accumulator for Counts {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0], |_| 1)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let count = |count: &u64| if self.is_distinct { 1.0 } else { *count as f64 };
        let mut counts: Vec<f64> = self.counts.values().map(count).collect();
        // The same sum whatever the order of the table.
        counts.sort_unstable_by(f64::total_cmp);
        let all: f64 = counts.iter().sum();
        let bits: f64 = counts.iter().map(|count| count / all * (all / count).log2()).sum();
        // Of nothing the sum is -0.
        Ok(ScalarValue::Float64(Some(bits + 0.0)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.counts.capacity() * (size_of::<(ScalarValue, u64)>() + 1) + self.bytes
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let (values, counts): (Vec<ScalarValue>, Vec<u64>) = self.counts.drain().unzip();
        let values = match values.is_empty() {
            true => new_empty_array(&self.data_type),
            false => cast(&ScalarValue::iter_to_array(values)?, &self.data_type)?,
        };
        let list = |array| SingleRowListArrayBuilder::new(array).build_list_scalar();
        Ok(vec![list(values), list(Arc::new(UInt64Array::from(counts)))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for (values, counts) in elements(&states[0]).iter().zip(elements(&states[1])) {
            let counts = counts.as_primitive::<UInt64Type>();
            self.add(values, |row| counts.value(row))?;
        }
        Ok(())
    }
}

/// The most frequent values, the most frequent first; of those that are as frequent the least.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TopK {
    signature: Signature,
}

/// Values that `approx_top_k` gives, at most.
const TOP_MAX: i64 = 1_000_000;

impl AggregateUDFImpl for TopK {
    fn name(&self) -> &str {
        "approx_top_k"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        taken(self.name(), &[Argument::Any, Argument::Whole], 0, arg_types)
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(state_list("", &arg_types[0]).data_type().clone())
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let name = |part| format_state_name(args.name, part);
        Ok(vec![
            state_list(&name("values"), args.input_fields[0].data_type()),
            state_list(&name("counts"), &DataType::UInt64),
            Arc::new(Field::new(name("k"), DataType::Int64, true)),
        ])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let data_type = args.exprs[0].data_type(args.schema)?;
        Ok(Box::new(Top::new(&data_type, args.is_distinct)))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// The most frequent values of a group.
#[derive(Debug)]
pub(crate) struct Top {
    counts: Counts,
    k: Option<i64>,
}

impl Top {
    /// Of none, of type `data_type`.
    pub(crate) fn new(data_type: &DataType, is_distinct: bool) -> Self {
        let counts = Counts { data_type: data_type.clone(), counts: HashMap::new(), bytes: 0, is_distinct };
        Self { counts, k: None }
    }

    fn set_k(&mut self, ks: &ArrayRef) -> Result<()> {
        for k in ks.as_primitive::<Int64Type>() {
            let Some(k) = k else { return exec_err!("approx_top_k gives 1 to {TOP_MAX} values, not NULL") };
            if !(1..=TOP_MAX).contains(&k) {
                return exec_err!("approx_top_k gives 1 to {TOP_MAX} values, not {k}");
            }
            if *self.k.get_or_insert(k) != k {
                return exec_err!("approx_top_k gives as many values for all rows of a group");
            }
        }
        Ok(())
    }
}

impl Accumulator for Top {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.set_k(&values[1])?;
        self.counts.add(&values[0], |_| 1)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let of = &self.counts;
        let mut top: Vec<(&ScalarValue, u64)> =
            of.counts.iter().map(|(value, count)| (value, if of.is_distinct { 1 } else { *count })).collect();
        top.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.partial_cmp(b.0).unwrap_or(std::cmp::Ordering::Equal)));
        top.truncate(self.k.and_then(|k| usize::try_from(k).ok()).unwrap_or(0));
        if top.is_empty() {
            return ScalarValue::try_from(state_list("", &of.data_type).data_type());
        }
        let values = ScalarValue::iter_to_array(top.into_iter().map(|(value, _)| value.clone()))?;
        Ok(SingleRowListArrayBuilder::new(cast(&values, &of.data_type)?).build_list_scalar())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.counts.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok([self.counts.state()?, vec![ScalarValue::Int64(self.k)]].concat())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let known = states[2].as_primitive::<Int64Type>().iter().flatten();
        self.set_k(&(Arc::new(known.map(Some).collect::<datafusion::arrow::array::Int64Array>()) as ArrayRef))?;
        self.counts.merge_batch(&states[..2])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_parts_are_those_of_all() {
        let values = [1.0, 2.5, -3.0, 7.0, 7.0, 0.5];
        let of = |values: &[f64]| values.iter().fold(Moments::default(), |sums, value| sums.with(Moments::of(*value)));
        for cut in 0..=values.len() {
            let (one, other) = values.split_at(cut);
            let (parts, all) = (of(one).with(of(other)), of(&values));
            if cut < values.len() {
                for (part, all) in parts.parts().iter().zip(all.parts()) {
                    assert!((part - all).abs() < 1e-9 * all.abs().max(1.0), "{cut}: {parts:?}");
                }
            }
        }
    }
}
