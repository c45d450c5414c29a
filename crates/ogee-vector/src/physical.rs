//! Physical types: what a value looks like in a vector and in a row, whatever it means.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, IntervalUnit, Schema, SchemaRef};

use crate::VectorError;

/// Width and interpretation of a value in memory. Several SQL types share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PhysicalType {
    /// One bit in a vector, one byte in a row.
    Bool,
    /// Signed, 1 byte.
    I8,
    /// Signed, 2 bytes.
    I16,
    /// Signed, 4 bytes: also dates and times.
    I32,
    /// Signed, 8 bytes: also timestamps and decimals of up to 18 digits in rows.
    I64,
    /// Signed, 16 bytes: decimals.
    I128,
    /// Signed, 32 bytes: decimals of up to 76 digits.
    I256,
    /// Unsigned, 1 byte.
    U8,
    /// Unsigned, 2 bytes.
    U16,
    /// Unsigned, 4 bytes.
    U32,
    /// Unsigned, 8 bytes.
    U64,
    /// Floating point, 2 bytes.
    F16,
    /// Floating point, 4 bytes.
    F32,
    /// Floating point, 8 bytes.
    F64,
    /// Months, days and nanoseconds, 16 bytes.
    MonthDayNano,
    /// 128-bit decimals of at most 18 digits: 16 bytes in a vector, 8 in a row.
    ShortDecimal,
    /// 16 bytes: length, then 12 inlined bytes or 4 of prefix and where the rest is. Strings and binary.
    View,
    /// No value but NULL; no bytes.
    Null,
    /// Lists, structs, maps and other nested values: in rows the bytes of an order-preserving encoding, as a [`Self::View`].
    Nested,
}

impl PhysicalType {
    /// The physical type of normalized SQL type `data_type` (see [`normalize_type`]).
    ///
    /// # Errors
    /// [`VectorError::UnsupportedType`].
    pub fn of(data_type: &DataType) -> Result<Self, VectorError> {
        use DataType as D;
        Ok(match data_type {
            D::Boolean => Self::Bool,
            D::Int8 => Self::I8,
            D::Int16 => Self::I16,
            D::Int32 | D::Date32 | D::Time32(_) | D::Interval(IntervalUnit::YearMonth) | D::Decimal32(..) => Self::I32,
            D::Int64 | D::Date64 | D::Time64(_) | D::Timestamp(..) | D::Duration(_) | D::Decimal64(..) => Self::I64,
            // Days and milliseconds, two 32-bit halves: compared for equality only.
            D::Interval(IntervalUnit::DayTime) => Self::I64,
            D::Decimal128(precision, _) if *precision <= 18 => Self::ShortDecimal,
            D::Decimal128(..) => Self::I128,
            D::Decimal256(..) => Self::I256,
            D::UInt8 => Self::U8,
            D::UInt16 => Self::U16,
            D::UInt32 => Self::U32,
            D::UInt64 => Self::U64,
            D::Float16 => Self::F16,
            D::Float32 => Self::F32,
            D::Float64 => Self::F64,
            D::Interval(IntervalUnit::MonthDayNano) => Self::MonthDayNano,
            D::Utf8View | D::BinaryView => Self::View,
            D::Null => Self::Null,
            D::List(_) | D::LargeList(_) | D::FixedSizeList(..) | D::Struct(_) | D::Map(..) => Self::Nested,
            D::FixedSizeBinary(_) => Self::Nested,
            other => return Err(VectorError::UnsupportedType(other.clone())),
        })
    }

    /// Bytes in a row.
    pub const fn row_width(self) -> usize {
        match self {
            Self::Null => 0,
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::F16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::ShortDecimal => 8,
            Self::I128 | Self::MonthDayNano | Self::View | Self::Nested => 16,
            Self::I256 => 32,
        }
    }

    /// Whether values are integers of at most 64 bits with a sign, or can be compared as such: dates, times, short decimals.
    pub const fn is_integer(self) -> bool {
        use PhysicalType as P;
        matches!(self, P::I8 | P::I16 | P::I32 | P::I64 | P::U8 | P::U16 | P::U32 | P::ShortDecimal)
    }

    /// Whether a row holds a view that may point to a heap page.
    pub const fn has_heap(self) -> bool {
        matches!(self, Self::View | Self::Nested)
    }
}

/// The type that values of `data_type` have inside the engine: strings and binary as views, dictionaries and run ends as their
/// values.
pub fn normalize_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Dictionary(_, values) => normalize_type(values),
        DataType::RunEndEncoded(_, values) => normalize_type(values.data_type()),
        other => other.clone(),
    }
}

/// Bytes of a row of `schema`, without its long strings; columns of types that the engine does not have count nothing.
pub fn row_width(schema: &Schema) -> usize {
    let of = |field: &Arc<Field>| PhysicalType::of(&normalize_type(field.data_type()));
    schema.fields().iter().map(|field| of(field).map_or(0, PhysicalType::row_width)).sum()
}

/// `schema` with normalized types.
pub fn normalize_schema(schema: &Schema) -> SchemaRef {
    let fields: Vec<Field> =
        schema.fields().iter().map(|f| f.as_ref().clone().with_data_type(normalize_type(f.data_type()))).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// `array` in its normalized type; shares the buffers where that is already so.
///
/// # Errors
/// [`VectorError::Arrow`] if Arrow cannot cast it.
pub fn normalize_array(array: &ArrayRef) -> Result<ArrayRef, VectorError> {
    let normalized = normalize_type(array.data_type());
    if *array.data_type() == normalized {
        return Ok(ArrayRef::clone(array));
    }
    Ok(arrow_cast::cast(array, &normalized)?)
}
