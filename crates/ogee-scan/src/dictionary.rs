//! Columns that may stay dictionary-encoded from the file to the operators.
//!
//! A column may where every page of it, in every row group of the file, refers to a small dictionary.
//!
//! Not here: decoding pages (`decode`).

use arrow_schema::DataType;
use parquet::{
    basic::{ConvertedType, Encoding},
    file::metadata::{ColumnChunkMetaData, ParquetMetaData},
    schema::types::ColumnDescriptor,
};

/// Bytes of a dictionary in the file, compressed, up to which a column is kept so.
const DICTIONARY_BYTES_MAX: i64 = 64 << 10;

/// Bytes held for each byte of a dictionary page: the page, the values decoded from it, their views (16 bytes for at least 4 in the page).
pub(crate) const HELD_PER_BYTE: usize = 6;

/// Whether values of a column of byte arrays are what the table has as `wanted`.
pub(crate) fn is_text_of(descriptor: &ColumnDescriptor, wanted: &DataType) -> bool {
    // As the library tells strings from binary.
    match descriptor.converted_type() {
        ConvertedType::UTF8 => *wanted == DataType::Utf8View,
        ConvertedType::DECIMAL => false,
        _ => *wanted == DataType::BinaryView,
    }
}

/// Whether all pages of column `leaf` refer to small dictionaries, in all row groups.
pub(crate) fn is_of_codes(leaf: usize, metadata: &ParquetMetaData) -> bool {
    metadata.row_groups().iter().all(|row_group| is_encoded(row_group.column(leaf)))
}

/// Whether all pages of a column chunk refer to a small dictionary.
fn is_encoded(chunk: &ColumnChunkMetaData) -> bool {
    let by_code = |encoding| matches!(encoding, Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY);
    let only_codes = match chunk.page_encoding_stats_mask() {
        Some(of_pages) => of_pages.encodings().all(by_code),
        // Levels have encodings too. A plain page may be the dictionary or one that did not fit there.
        None => chunk.encodings().all(|encoding| by_code(encoding) || encoding == Encoding::RLE),
    };
    let dictionary = chunk.dictionary_page_offset().and_then(|start| chunk.data_page_offset().checked_sub(start));
    only_codes && dictionary.is_some_and(|bytes| (0..=DICTIONARY_BYTES_MAX).contains(&bytes))
}
