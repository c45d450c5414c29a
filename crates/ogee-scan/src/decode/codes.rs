//! Values that stay codes of a dictionary: the codes of a batch become the selection vector over the values.
//!
//! Whoever reads the column then does once for each value what it would otherwise do for each row.

use std::sync::Arc;

use arrow_array::{
    ArrayRef,
    builder::{BinaryViewBuilder, StringViewBuilder},
    new_null_array,
};
use arrow_buffer::{Buffer, NullBufferBuilder, ScalarBuffer};
use arrow_schema::DataType;
use ogee_vector::Column;
use parquet::{basic::Type as PhysicalType, errors::ParquetError};

use super::{
    cursor::{DictionaryPage, Values},
    fixed::{array, check_codes, check_digits, most, plain},
    hybrid::Picks,
    strings::byte_array,
    values::{Decode, reused},
};

/// Codes, and the values that they stand for.
pub(super) struct Codes {
    physical: PhysicalType,
    data_type: DataType,
    values: ArrayRef,
    /// The same with NULL after them, once there was one.
    with_null: Option<ArrayRef>,
    /// The codes of the last batch, whose memory is used again when nobody refers to them any more.
    last: Option<Buffer>,
}

impl Codes {
    pub(super) fn new(physical: PhysicalType, data_type: DataType) -> Self {
        let values = new_null_array(&data_type, 0);
        Self { physical, data_type, values, with_null: None, last: None }
    }

    fn values_of(&self, page: &DictionaryPage<'_>) -> Result<ArrayRef, ParquetError> {
        let (bytes, count) = (page.bytes(), page.values);
        let values = match (&self.data_type, self.physical) {
            (DataType::Utf8View, _) => {
                let mut builder = StringViewBuilder::with_capacity(count.min(bytes.len() / size_of::<u32>()));
                for value in byte_arrays(bytes, count) {
                    let value = std::str::from_utf8(value?);
                    builder.append_value(value.map_err(|_| ParquetError::General("a string is not UTF-8".into()))?);
                }
                return Ok(Arc::new(builder.finish()));
            }
            (DataType::BinaryView, _) => {
                let mut builder = BinaryViewBuilder::with_capacity(count.min(bytes.len() / size_of::<u32>()));
                for value in byte_arrays(bytes, count) {
                    builder.append_value(value?);
                }
                return Ok(Arc::new(builder.finish()));
            }
            (DataType::Decimal128(..), PhysicalType::INT32) => {
                check_digits(plain::<i32>(bytes, count)?, most(&self.data_type))?;
                plain::<i32>(bytes, count)?.map(i128::from).collect::<Vec<_>>().into()
            }
            (DataType::Decimal128(..), _) => {
                check_digits(plain::<i64>(bytes, count)?, most(&self.data_type))?;
                plain::<i64>(bytes, count)?.map(i128::from).collect::<Vec<_>>().into()
            }
            (_, PhysicalType::INT32 | PhysicalType::FLOAT) => plain::<i32>(bytes, count)?.collect::<Vec<_>>().into(),
            _ => plain::<i64>(bytes, count)?.collect::<Vec<_>>().into(),
        };
        array(&self.data_type, values, count, &mut NullBufferBuilder::new(0))
    }
}

/// The values of a plain page of byte arrays: each behind its length.
fn byte_arrays(page: &[u8], count: usize) -> impl Iterator<Item = Result<&[u8], ParquetError>> {
    let mut at = 0;
    (0..count).map(move |_| {
        let ended = || ParquetError::EOF("a dictionary has fewer values than its header says".into());
        let (value, next) = byte_array(page, at).ok_or_else(ended)?;
        at = next;
        Ok(value)
    })
}

impl Decode for Codes {
    type Out = u32;

    fn set_dictionary(&mut self, page: DictionaryPage<'_>) -> Result<(), ParquetError> {
        self.values = self.values_of(&page)?;
        self.with_null = None;
        Ok(())
    }

    fn decode(
        &mut self,
        page: &[u8],
        values: &mut Values,
        count: usize,
        picks: Picks<'_>,
        out: &mut Vec<u32>,
    ) -> Result<(), ParquetError> {
        let Values::Codes(codes) = values else {
            // Of NULLs only there are no values that could be in the dictionary.
            return match count {
                0 => Ok(()),
                _ => Err(ParquetError::General("a page has values where the footer says codes".into())),
            };
        };
        let start = out.len();
        codes.read(page, count, picks, out)?;
        check_codes(&out[start..], self.values.len())
    }

    fn begin(&mut self, rows: usize) -> Vec<u32> {
        reused(self.last.take(), rows)
    }

    fn finish(&mut self, mut codes: Vec<u32>, nulls: &mut NullBufferBuilder) -> Result<Column, ParquetError> {
        let mut values = &self.values;
        if let Some(nulls) = nulls.finish() {
            let null = self.values.len() as u32;
            (!nulls.inner()).set_indices().for_each(|row| codes[row] = null);
            if self.with_null.is_none() {
                let one = new_null_array(&self.data_type, 1);
                self.with_null = Some(arrow_select::concat::concat(&[self.values.as_ref(), one.as_ref()])?);
            }
            values = self.with_null.as_ref().expect("set above");
        }
        let codes = Buffer::from_vec(codes);
        self.last = Some(codes.clone());
        Ok(Column { array: ArrayRef::clone(values), selection: Some(ScalarBuffer::<u32>::from(codes).into()) })
    }
}
