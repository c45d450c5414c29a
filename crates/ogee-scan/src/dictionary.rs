//! Columns that stay dictionary-encoded from the file to the operators: the codes of a batch become the selection vector over the values.
//!
//! A column is kept so where every page of it, in every row group of the file, refers to a small dictionary. Whoever reads the
//! column then does once for each value what it would otherwise do for each row.
//!
//! Not here: decoding pages.

use arrow_array::{Array, ArrayRef, UInt32Array, cast::AsArray, new_null_array, types::UInt32Type};
use arrow_schema::DataType;
use ogee_exec::ExecError;
use ogee_vector::{Column, Selection, normalize_array};
use parquet::{
    basic::{ConvertedType, Encoding, Type as PhysicalType},
    file::metadata::{ColumnChunkMetaData, ParquetMetaData},
    schema::types::ColumnDescriptor,
};

/// Bytes of a dictionary in the file, compressed, up to which a column is kept so.
const DICTIONARY_BYTES_MAX: i64 = 64 << 10;

/// Bytes held for each byte of a dictionary page: the page, the values decoded from it, their views (16 bytes for at least 4 in the page).
pub(crate) const HELD_PER_BYTE: usize = 6;

/// The type in which to read column `leaf` of a file so that its codes are kept; `None` if it is not worth it, or if the table does not
/// have its strings as `wanted`.
pub(crate) fn dictionary_type(
    leaf: usize,
    descriptor: &ColumnDescriptor,
    wanted: &DataType,
    metadata: &ParquetMetaData,
) -> Option<DataType> {
    // As the library tells strings from binary.
    let is_text = descriptor.converted_type() == ConvertedType::UTF8;
    let values = match wanted {
        DataType::Utf8View if is_text => DataType::Utf8,
        DataType::BinaryView if !is_text => DataType::Binary,
        _ => return None,
    };
    let is_flat = descriptor.max_rep_level() == 0 && descriptor.path().parts().len() == 1;
    let worthwhile = descriptor.physical_type() == PhysicalType::BYTE_ARRAY
        && is_flat
        && metadata.row_groups().iter().all(|row_group| is_encoded(row_group.column(leaf)));
    worthwhile.then(|| DataType::Dictionary(Box::new(DataType::UInt32), Box::new(values)))
}

/// Whether all pages of a column chunk refer to a small dictionary.
fn is_encoded(chunk: &ColumnChunkMetaData) -> bool {
    let by_code = |encoding| matches!(encoding, Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY);
    let only_codes = match chunk.page_encoding_stats_mask() {
        Some(of_pages) => of_pages.encodings().all(by_code),
        // Levels have encodings too. A plain page may be the dictionary or one that did not fit there.
        None => chunk.encodings().all(|encoding| by_code(encoding) || encoding == Encoding::RLE),
    };
    let dictionary = chunk.dictionary_page_offset().map(|start| chunk.data_page_offset() - start);
    only_codes && dictionary.is_some_and(|bytes| (0..=DICTIONARY_BYTES_MAX).contains(&bytes))
}

/// The values of the dictionary that a lane met last in a column.
#[derive(Default)]
pub(crate) struct DictionaryValues {
    /// As decoded; while it is held here, no other dictionary has its place in memory.
    decoded: Option<ArrayRef>,
    views: Option<ArrayRef>,
    /// The same with NULL after them.
    with_null: Option<ArrayRef>,
}

impl DictionaryValues {
    /// The first `rows` rows of `array`, a dictionary array with codes of 32 bits.
    pub(crate) fn column(&mut self, array: &ArrayRef, rows: usize) -> Result<Column, ExecError> {
        let array = array.as_dictionary::<UInt32Type>();
        if !self.decoded.as_ref().is_some_and(|decoded| is_same(decoded, array.values())) {
            *self = Self {
                views: Some(normalize_array(array.values())?),
                decoded: Some(ArrayRef::clone(array.values())),
                with_null: None,
            };
        }
        let views = self.views.as_ref().expect("set above");
        let codes = array.keys().slice(0, rows);
        if codes.null_count() == 0 {
            return Ok(Column { array: ArrayRef::clone(views), selection: Some(codes.values().clone().into()) });
        }
        let null = views.len() as u32;
        if self.with_null.is_none() {
            let one = new_null_array(views.data_type(), 1);
            self.with_null = Some(arrow_select::concat::concat(&[views.as_ref(), one.as_ref()])?);
        }
        let array = ArrayRef::clone(self.with_null.as_ref().expect("set above"));
        Ok(Column { array, selection: Some(positions(&codes, null)) })
    }
}

/// The codes, with `null` for NULL.
fn positions(codes: &UInt32Array, null: u32) -> Selection {
    let positions: Vec<u32> = codes.iter().map(|code| code.unwrap_or(null)).collect();
    Selection::new(&positions)
}

/// Whether two arrays, of which both are alive, are the same bytes in memory.
fn is_same(a: &ArrayRef, b: &ArrayRef) -> bool {
    let place = |array: &ArrayRef| match array.data_type() {
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            (array.value_offsets().as_ptr(), array.value_data().as_ptr())
        }
        _ => {
            let array = array.as_binary::<i32>();
            (array.value_offsets().as_ptr(), array.value_data().as_ptr())
        }
    };
    a.data_type() == b.data_type() && a.len() == b.len() && place(a) == place(b)
}
