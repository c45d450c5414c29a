//! Where everything is in a row.

use std::sync::Arc;

use arrow_schema::DataType;
use ogee_memory::PAGE_SIZE;
use ogee_vector::{PhysicalType, VectorError};

use crate::partition::OWN_BASE_BYTES;

/// One column of a row.
#[derive(Clone, Debug)]
pub struct RowColumn {
    /// Its SQL type, normalized.
    pub data_type: DataType,
    /// Its physical type.
    pub physical: PhysicalType,
    /// Byte offset in the row.
    pub offset: usize,
    /// Byte and mask of its validity bit (set: not NULL); `None` if the column has no NULLs.
    pub validity: Option<(usize, u8)>,
}

/// Byte offsets of columns and state in a row. Types and widths only; it does not know what an operator does with them.
#[derive(Debug)]
pub struct RowLayout {
    columns: Vec<RowColumn>,
    keys: usize,
    /// Bytes from the start of the row to the end of the keys that are no views.
    fixed_key_end: usize,
    /// Offsets of the key columns that are views.
    key_views: Vec<usize>,
    /// Offsets of all columns that are views.
    views: Vec<usize>,
    state_offset: usize,
    state_bytes: usize,
    width: usize,
}

/// Collects what a row must hold.
#[derive(Debug, Default)]
pub struct RowLayoutBuilder {
    keys: Vec<(DataType, bool)>,
    payload: Vec<(DataType, bool)>,
    state_bytes: usize,
}

impl RowLayoutBuilder {
    /// Adds a key column; returns the column's index. All keys come before payload columns.
    pub fn key(&mut self, data_type: DataType, nullable: bool) -> usize {
        assert!(self.payload.is_empty(), "keys come first");
        self.keys.push((data_type, nullable));
        self.keys.len() - 1
    }

    /// Adds a payload column; returns the column's index.
    pub fn payload(&mut self, data_type: DataType, nullable: bool) -> usize {
        self.payload.push((data_type, nullable));
        self.keys.len() + self.payload.len() - 1
    }

    /// Reserves `bytes` of operator's state; returns their offset from [`RowLayout::state_offset`].
    pub fn state(&mut self, bytes: usize) -> usize {
        let offset = self.state_bytes;
        self.state_bytes += bytes;
        offset
    }

    /// The layout.
    ///
    /// # Errors
    /// [`VectorError::UnsupportedType`]; [`VectorError::RowTooWide`] if a row would not fit on a page.
    pub fn build(self) -> Result<Arc<RowLayout>, VectorError> {
        let keys = self.keys.len();
        let mut validity = [Validity::default(), Validity::default()];
        let mut columns = Vec::with_capacity(keys + self.payload.len());
        for (i, (data_type, nullable)) in self.keys.into_iter().chain(self.payload).enumerate() {
            let physical = PhysicalType::of(&data_type)?;
            let bit = (nullable || physical == PhysicalType::Null).then(|| validity[usize::from(i >= keys)].next());
            columns.push(RowColumn { data_type, physical, offset: 0, validity: bit });
        }
        let (key_columns, payload_columns) = columns.split_at_mut(keys);
        let [key_validity, payload_validity] = validity;
        // The keys that are equal if their bytes are come first, then those that may point elsewhere.
        let mut offset = HASH_BYTES;
        offset = place(offset, key_columns, key_validity, |column| !column.physical.has_heap());
        let fixed_key_end = offset;
        // Words that are compared as a part of the key must hold nothing else.
        offset = offset.next_multiple_of(8);
        offset = place(offset, key_columns, Validity::default(), |column| column.physical.has_heap());
        offset = place(offset, payload_columns, payload_validity, |_| true);
        let key_views = columns[..keys].iter().filter(|c| c.physical.has_heap()).map(|c| c.offset).collect();
        let state_offset = offset;
        let state_bytes = self.state_bytes;
        let width = (offset + state_bytes).next_multiple_of(8);
        let views: Vec<usize> = columns.iter().filter(|c| c.physical.has_heap()).map(|c| c.offset).collect();
        // A page with strings of its own rows ends with the address that they are right for.
        let most = if views.is_empty() { PAGE_SIZE } else { PAGE_SIZE - OWN_BASE_BYTES };
        if width > most {
            return Err(VectorError::RowTooWide { width, most });
        }
        Ok(Arc::new(RowLayout { columns, keys, fixed_key_end, key_views, views, state_offset, state_bytes, width }))
    }
}

/// Bytes of the hash, which a row begins with.
const HASH_BYTES: usize = 4;

/// Validity bits given out so far.
#[derive(Clone, Copy, Default)]
struct Validity {
    bits: usize,
}

impl Validity {
    /// Byte (counted from the first of these) and mask of the next bit.
    fn next(&mut self) -> (usize, u8) {
        let bit = self.bits;
        self.bits += 1;
        (bit / 8, 1 << (bit % 8))
    }
}

/// Places `validity` at `offset`, then those of `columns` that are `wanted`; returns where they end.
fn place(offset: usize, columns: &mut [RowColumn], validity: Validity, wanted: impl Fn(&RowColumn) -> bool) -> usize {
    let mut end = offset + validity.bits.div_ceil(8);
    if validity.bits > 0 {
        columns.iter_mut().filter_map(|column| column.validity.as_mut()).for_each(|(byte, _)| *byte += offset);
    }
    for column in columns.iter_mut().filter(|column| wanted(column)) {
        column.offset = end;
        end += column.physical.row_width();
    }
    end
}

impl RowLayout {
    /// All columns: keys, then payload.
    pub fn columns(&self) -> &[RowColumn] {
        &self.columns
    }

    /// Column `index`.
    pub fn column(&self, index: usize) -> &RowColumn {
        &self.columns[index]
    }

    /// Number of key columns.
    pub fn num_keys(&self) -> usize {
        self.keys
    }

    /// Bytes of a row, a multiple of 8.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Offset of the operator's state.
    pub fn state_offset(&self) -> usize {
        self.state_offset
    }

    /// Bytes of the operator's state.
    pub(crate) fn state_bytes(&self) -> usize {
        self.state_bytes
    }

    /// Whether rows may have bytes on heap pages.
    pub fn has_heap(&self) -> bool {
        !self.views.is_empty()
    }

    /// Pages that rows being appended to one partition keep pinned: one of rows, and one of their strings.
    pub fn open_pages(&self) -> usize {
        if self.has_heap() { 2 } else { 1 }
    }

    /// Offsets of all columns that may point to a heap page.
    pub fn views(&self) -> &[usize] {
        &self.views
    }

    pub(crate) fn key_views(&self) -> &[usize] {
        &self.key_views
    }

    /// Words of 8 bytes at the start of a row that are equal if hash and keys are, but for the keys that are views.
    #[inline(always)]
    pub fn key_words(&self) -> usize {
        self.fixed_key_end.div_ceil(8)
    }

    /// Words of 8 bytes at the start of a row that hash and keys take, views included.
    #[inline(always)]
    pub fn key_span_words(&self) -> usize {
        self.key_words() + 2 * self.key_views.len()
    }

    /// Whether some key may point to a heap page.
    #[inline(always)]
    pub fn has_key_views(&self) -> bool {
        !self.key_views.is_empty()
    }

    /// Where the bytes of the keys and their validity are, if no key is a view.
    pub fn key_bytes(&self) -> Option<std::ops::Range<usize>> {
        self.key_views.is_empty().then_some(HASH_BYTES..self.fixed_key_end)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use arrow_array::{Array, ArrayRef, StringViewArray, cast::AsArray};
    use ogee_memory::{BufferManager, MemoryConfig};

    use super::*;
    use crate::{PartitionedRows, RadixBits, RowStage, gather_column};

    fn with_state(strings: bool, state_bytes: usize) -> Result<Arc<RowLayout>, VectorError> {
        let mut builder = RowLayoutBuilder::default();
        if strings {
            builder.payload(DataType::Utf8View, false);
        }
        builder.state(state_bytes);
        builder.build()
    }

    #[test]
    fn rows_that_are_wider_than_a_page_are_an_error() {
        for (strings, least, most) in [(false, 8, PAGE_SIZE), (true, 8 + 16, PAGE_SIZE - OWN_BASE_BYTES)] {
            let widest = with_state(strings, most - least).unwrap();
            assert_eq!(widest.width(), most);
            let error = with_state(strings, most - least + 1).unwrap_err();
            assert_eq!(error.code(), "OGEE_V003");
            let text = error.to_string();
            assert!(text.contains(&(most + 8).to_string()) && text.contains(&most.to_string()), "{text}");
        }
        let mut many = RowLayoutBuilder::default();
        (0..PAGE_SIZE / 16).for_each(|_| {
            many.key(DataType::Utf8View, true);
        });
        assert!(matches!(many.build(), Err(VectorError::RowTooWide { width, .. }) if width > PAGE_SIZE));
    }

    #[test]
    fn a_row_that_takes_all_of_a_page_is_kept_with_its_strings() {
        let layout = with_state(true, PAGE_SIZE - OWN_BASE_BYTES - 24).unwrap();
        let texts: Vec<String> = (0..5).map(|i| "a string on a heap page ".repeat(i * i)).collect();
        let array: ArrayRef = Arc::new(StringViewArray::from_iter_values(&texts));
        for with_rows in [false, true] {
            let config = MemoryConfig { limit: 8 << 20, counts_process: false, ..MemoryConfig::default() };
            let memory = BufferManager::new(config).unwrap();
            let mut rows = PartitionedRows::new(Arc::clone(&layout), memory, "test", RadixBits::new(1), false);
            if with_rows {
                rows.keep_strings_with_rows();
            }
            let mut stage = RowStage::default();
            stage.reset(&layout, texts.len());
            stage.write_column(&layout, 0, &array, None);
            // SAFETY: the rows are staged, and the array is alive.
            unsafe { rows.append((0..texts.len()).map(|row| stage.row(row)), &mut Vec::new()).unwrap() };
            let mut found = Vec::new();
            for mut partition in rows.into_partitions() {
                for index in 0..partition.num_pages() {
                    let page = partition.pin_page(index).unwrap();
                    let addresses: Vec<*const u8> = (0..page.len()).map(|row| page.row(row).cast_const()).collect();
                    // SAFETY: the page is pinned with its strings.
                    let column = unsafe { gather_column(&layout, 0, &addresses).unwrap() };
                    found.extend((0..column.len()).map(|row| column.as_string_view().value(row).to_owned()));
                }
            }
            assert_eq!(found, texts, "{with_rows}");
        }
    }
}
