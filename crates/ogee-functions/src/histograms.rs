//! `histogram(x, bins)`: how many values are in each bin, of which `bins` are the upper bounds, and `histogram_exact(x, bins)`: how many are each of `bins`.
//!
//! What is in no bin is counted under a value that stands for it: the greatest of its type, infinity, an empty text or list. Types without such a value count nothing more. `histogram_bins`
//! chooses bins for the table functions of these names (`ogee-sql`, `syntax::histograms`).
//!
//! Not here: `histogram(x)` of all values (`aggregates`), bins of one width (`bins`).

use std::{mem::size_of_val, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, MapArray, StructArray, UInt32Array, UInt64Array, new_empty_array},
        buffer::OffsetBuffer,
        compute::{cast, concat, take},
        datatypes::{DataType, Field, FieldRef, Fields, TimeUnit, UInt64Type},
    },
    common::{Result, ScalarValue, exec_err, plan_err, utils::SingleRowListArrayBuilder},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
};

use crate::{
    aggregates::{elements, entry_fields, state_list},
    lists::element,
    marks::Mark,
    places::{places, ranked},
};

/// What `histogram` of two arguments becomes.
pub const BINNED: &str = "ogee_histogram";
/// What counts for the table functions: values in bins, or of those that `histogram_bins` has found.
pub const COUNTED: &str = "ogee_histogram_counts";

/// The functions to register in a session.
pub(crate) fn functions() -> Vec<AggregateUDF> {
    let function = |name, kind| {
        AggregateUDF::new_from_impl(Histogram { name, kind, signature: Signature::user_defined(Volatility::Immutable) })
    };
    vec![function(BINNED, Kind::UpTo), function("histogram_exact", Kind::Each), function(COUNTED, Kind::ByTechnique)]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    UpTo,
    Each,
    /// As the third argument says.
    ByTechnique,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Histogram {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

impl Histogram {
    fn shown(&self) -> &'static str {
        if self.kind == Kind::Each { self.name } else { "histogram" }
    }
}

/// Whether bins for `technique` are found by their width where nothing is said, and else are values.
pub(crate) fn has_width(data_type: &DataType) -> bool {
    data_type.is_numeric() || matches!(data_type, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))
}

impl AggregateUDFImpl for Histogram {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let (value, bins) = match (arg_types, self.kind) {
            ([value, bins], Kind::UpTo | Kind::Each) | ([value, bins, _], Kind::ByTechnique) => (value, bins),
            _ => return plan_err!("{} takes values and a list of bins", self.shown()),
        };
        let Some(bin) = element(bins).map(|bin| bin.data_type()) else {
            return plan_err!("{} takes its bins as a list that is not NULL", self.shown());
        };
        let value = match (value, bin) {
            (DataType::Null, DataType::Null) => DataType::Int64,
            (DataType::Null, bin) => bin.clone(),
            (value, _) if value.is_decimal() && *value != DataType::Decimal128(38, 0) => DataType::Float64,
            (value, _) => value.clone(),
        };
        let list = DataType::List(Arc::new(Field::new_list_field(value.clone(), true)));
        let technique = arg_types.get(2).map(|_| DataType::Utf8);
        Ok([value, list].into_iter().chain(technique).collect())
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        let entries = DataType::Struct(entry_fields(&arg_types[0]));
        Ok(DataType::Map(Arc::new(Field::new("entries", entries, false)), false))
    }

    /// Keys as the values are, which may be marked text.
    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        let value = &arg_fields[0];
        if Mark::of(value) == Some(Mark::Enum) {
            return plan_err!("{} of values of an ENUM is not supported; cast them to VARCHAR", self.shown());
        }
        let key = value.as_ref().clone().with_name("key").with_nullable(false);
        let fields = Fields::from(vec![key, Field::new("value", DataType::UInt64, true)]);
        let entries = Field::new("entries", DataType::Struct(fields), false);
        Ok(Arc::new(Field::new(self.name, DataType::Map(Arc::new(entries), false), true)))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let counts = [state_list("bins", args.input_fields[0].data_type()), state_list("counts", &DataType::UInt64)];
        Ok(counts.into_iter().chain([Arc::new(Field::new("exact", DataType::Boolean, true))]).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let data_type = args.expr_fields[0].data_type().clone();
        let other = match Mark::of(&args.expr_fields[0]) {
            Some(_) => None,
            None => other(&data_type)?,
        };
        let is_exact = match self.kind {
            Kind::UpTo => Some(false),
            Kind::Each => Some(true),
            Kind::ByTechnique => None,
        };
        let result = args.return_field.data_type().clone();
        Ok(Box::new(Binned { name: self.shown(), data_type, result, other, is_exact, bins: None, counts: Vec::new() }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// What stands for the values of type `data_type` that are in no bin.
pub(crate) fn other(data_type: &DataType) -> Result<Option<ScalarValue>> {
    use ScalarValue as S;
    /// Of the year 9999, the last that other systems know.
    const LAST_DAY: i32 = 2_932_896;
    const LAST_MICROSECOND: i64 = 253_402_300_799_999_999;
    Ok(Some(match data_type {
        DataType::Int8 => S::Int8(Some(i8::MAX)),
        DataType::Int16 => S::Int16(Some(i16::MAX)),
        DataType::Int32 => S::Int32(Some(i32::MAX)),
        DataType::Int64 => S::Int64(Some(i64::MAX)),
        DataType::UInt8 => S::UInt8(Some(u8::MAX)),
        DataType::UInt16 => S::UInt16(Some(u16::MAX)),
        DataType::UInt32 => S::UInt32(Some(u32::MAX)),
        DataType::UInt64 => S::UInt64(Some(u64::MAX)),
        DataType::Float32 => S::Float32(Some(f32::INFINITY)),
        DataType::Float64 => S::Float64(Some(f64::INFINITY)),
        DataType::Decimal128(precision, scale) => {
            S::Decimal128(Some(10_i128.pow((*precision).into()) - 1), *precision, *scale)
        }
        DataType::Date32 => S::Date32(Some(LAST_DAY)),
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => S::TimestampNanosecond(Some(i64::MAX), zone.clone()),
        DataType::Timestamp(..) => S::TimestampMicrosecond(Some(LAST_MICROSECOND), None)
            .cast_to(&DataType::Timestamp(TimeUnit::Microsecond, None))?
            .cast_to(data_type)?,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => S::Utf8(Some(String::new())).cast_to(data_type)?,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            S::Binary(Some(Vec::new())).cast_to(data_type)?
        }
        DataType::List(field) => S::List(Arc::new(datafusion::arrow::array::ListArray::new(
            Arc::clone(field),
            OffsetBuffer::from_lengths([0]),
            new_empty_array(field.data_type()),
            None,
        ))),
        DataType::Struct(fields) => {
            let nulls = fields.iter().map(|field| datafusion::arrow::array::new_null_array(field.data_type(), 1));
            S::Struct(Arc::new(StructArray::new(fields.clone(), nulls.collect(), None)))
        }
        _ => return Ok(None),
    }))
}

/// How many values of a group are in each bin.
#[derive(Debug)]
struct Binned {
    name: &'static str,
    data_type: DataType,
    result: DataType,
    other: Option<ScalarValue>,
    is_exact: Option<bool>,
    /// The bins in their order, and their places.
    bins: Option<(ArrayRef, Vec<Box<[u8]>>)>,
    /// Of each bin, and of what is in none.
    counts: Vec<u64>,
}

impl Binned {
    /// Of the first row, if there are none yet.
    fn set_bins(&mut self, bins: ArrayRef) -> Result<()> {
        if bins.null_count() > 0 {
            return exec_err!("{} takes no NULL for a bin", self.name);
        }
        if self.bins.is_some() {
            return Ok(());
        }
        let mut rows = ranked(&bins, false)?;
        let of = places(&bins, false)?;
        rows.dedup_by_key(|row| of.row(*row as usize));
        let known = rows.iter().map(|row| of.row(*row as usize).as_ref().into()).collect();
        self.counts = vec![0; rows.len() + 1];
        self.bins = Some((take(&bins, &UInt32Array::from(rows), None)?, known));
        Ok(())
    }

    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        let Some((_, known)) = &self.bins else { return Ok(()) };
        let of = places(values, false)?;
        for row in (0..values.len()).filter(|row| values.is_valid(*row)) {
            let place = of.row(row);
            let bin = known.partition_point(|bin| **bin < *place.as_ref());
            let is_within = match self.is_exact {
                Some(true) => known.get(bin).is_some_and(|bin| **bin == *place.as_ref()),
                _ => bin < known.len(),
            };
            self.counts[if is_within { bin } else { known.len() }] += 1;
        }
        Ok(())
    }
}

/// Whether bins that were found by `technique` are values.
fn is_of_values(technique: &str, data_type: &DataType) -> bool {
    technique == "sample" || technique == "auto" && !has_width(data_type)
}

impl Accumulator for Binned {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        // Of no values there is no histogram.
        if values[0].null_count() == values[0].len() {
            return Ok(());
        }
        if self.is_exact.is_none()
            && let Some(technique) = values.get(2)
            && technique.is_valid(0)
        {
            self.is_exact = Some(is_of_values(technique.as_string::<i32>().value(0), &self.data_type));
        }
        let lists = values[1].as_list::<i32>();
        if lists.is_null(0) {
            return exec_err!("{} takes a list of bins that is not NULL", self.name);
        }
        self.set_bins(lists.value(0))?;
        self.add(&values[0])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let Some((bins, known)) = &self.bins else { return ScalarValue::try_from(&self.result) };
        let (mut keys, mut counts) = (Arc::clone(bins), self.counts[..known.len()].to_vec());
        let rest = self.counts[known.len()];
        if let Some(other) = self.other.as_ref().filter(|_| rest > 0) {
            keys = concat(&[&keys, &cast(&other.to_array_of_size(1)?, &self.data_type)?])?;
            counts.push(rest);
        }
        let DataType::Map(entries, _) = &self.result else { return ScalarValue::try_from(&self.result) };
        let DataType::Struct(fields) = entries.data_type() else { return ScalarValue::try_from(&self.result) };
        let offsets = OffsetBuffer::from_lengths([keys.len()]);
        let values = StructArray::new(fields.clone(), vec![keys, Arc::new(UInt64Array::from(counts))], None);
        Ok(ScalarValue::Map(Arc::new(MapArray::new(Arc::clone(entries), offsets, values, None, false))))
    }

    fn size(&self) -> usize {
        let bins = self.bins.as_ref().map_or(0, |(bins, known)| {
            bins.get_array_memory_size() + known.iter().map(|bin| bin.len() + size_of::<Box<[u8]>>()).sum::<usize>()
        });
        size_of_val(self) + bins + self.counts.capacity() * size_of::<u64>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let list = |array| SingleRowListArrayBuilder::new(array).build_list_scalar();
        let exact = ScalarValue::Boolean(self.is_exact);
        Ok(match &self.bins {
            Some((bins, _)) => {
                vec![list(Arc::clone(bins)), list(Arc::new(UInt64Array::from(self.counts.clone()))), exact]
            }
            None => vec![
                ScalarValue::try_from(state_list("", &self.data_type).data_type())?,
                ScalarValue::try_from(state_list("", &DataType::UInt64).data_type())?,
                exact,
            ],
        })
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        if let Some(exact) = states[2].as_boolean().iter().flatten().next() {
            self.is_exact.get_or_insert(exact);
        }
        for (bins, counts) in elements(&states[0]).into_iter().zip(elements(&states[1])) {
            let counts = counts.as_primitive::<UInt64Type>();
            self.set_bins(Arc::clone(&bins))?;
            let Some((_, known)) = &self.bins else { continue };
            let of = places(&bins, false)?;
            let are_same =
                known.len() == bins.len() && known.iter().enumerate().all(|(at, bin)| **bin == *of.row(at).as_ref());
            if !are_same {
                return exec_err!("{} takes the same bins for all rows of a group", self.name);
            }
            self.counts.iter_mut().zip(counts.values()).for_each(|(sum, count)| *sum += count);
        }
        Ok(())
    }
}
