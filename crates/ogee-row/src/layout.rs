//! Where everything is in a row.

use std::sync::Arc;

use arrow_schema::DataType;
use ogee_vector::{PhysicalType, VectorError};

/// One column of a row.
#[derive(Clone, Debug)]
pub struct RowColumn {
    /// Its SQL type, normalized.
    pub data_type: DataType,
    /// Its physical type.
    pub physical: PhysicalType,
    /// Byte offset in the row.
    pub offset: usize,
    /// Byte and mask of its validity bit (set: not NULL).
    pub validity: (usize, u8),
}

/// Byte offsets of columns, hash and state in a row. Types and widths only; it does not know what an operator does with them.
#[derive(Debug)]
pub struct RowLayout {
    columns: Vec<RowColumn>,
    keys: usize,
    /// Bytes of the key region without its views, a multiple of 8: equal keys have equal bytes here.
    fixed_key_bytes: usize,
    /// Offsets of the key columns that are views.
    key_views: Vec<usize>,
    /// Offsets of all columns that are views.
    views: Vec<usize>,
    hash_offset: usize,
    state_offset: usize,
    width: usize,
}

/// Collects what a row must hold.
#[derive(Debug, Default)]
pub struct RowLayoutBuilder {
    keys: Vec<DataType>,
    payload: Vec<DataType>,
    state_bytes: usize,
}

impl RowLayoutBuilder {
    /// Adds a key column; returns the column's index. All keys come before payload columns.
    pub fn key(&mut self, data_type: DataType) -> usize {
        assert!(self.payload.is_empty(), "keys come first");
        self.keys.push(data_type);
        self.keys.len() - 1
    }

    /// Adds a payload column; returns the column's index.
    pub fn payload(&mut self, data_type: DataType) -> usize {
        self.payload.push(data_type);
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
    /// [`VectorError::UnsupportedType`].
    pub fn build(self) -> Result<Arc<RowLayout>, VectorError> {
        let keys = self.keys.len();
        let types = |types: Vec<DataType>| {
            types.into_iter().map(|t| Ok((PhysicalType::of(&t)?, t))).collect::<Result<Vec<_>, VectorError>>()
        };
        let key_types = types(self.keys)?;
        let payload_types = types(self.payload)?;
        let mut columns: Vec<Option<RowColumn>> = vec![None; keys + payload_types.len()];
        // Validity of the keys, the keys that are equal if their bytes are, then the keys that may point elsewhere.
        let mut offset = keys.div_ceil(8);
        let mut key_views = Vec::new();
        let place = |offset: &mut usize, (physical, data_type): &(PhysicalType, DataType), validity| {
            let at = *offset;
            *offset += physical.row_width();
            RowColumn { data_type: data_type.clone(), physical: *physical, offset: at, validity }
        };
        for (i, key) in key_types.iter().enumerate().filter(|(_, (physical, _))| !physical.has_heap()) {
            columns[i] = Some(place(&mut offset, key, (i / 8, 1 << (i % 8))));
        }
        offset = offset.next_multiple_of(8);
        let fixed_key_bytes = offset;
        for (i, key) in key_types.iter().enumerate().filter(|(_, (physical, _))| physical.has_heap()) {
            key_views.push(offset);
            columns[i] = Some(place(&mut offset, key, (i / 8, 1 << (i % 8))));
        }
        let hash_offset = offset;
        offset += 8;
        let payload_validity = offset;
        offset += payload_types.len().div_ceil(8);
        for (i, payload) in payload_types.iter().enumerate() {
            columns[keys + i] = Some(place(&mut offset, payload, (payload_validity + i / 8, 1 << (i % 8))));
        }
        let columns: Vec<RowColumn> = columns.into_iter().map(|c| c.expect("every column was placed")).collect();
        let views = columns.iter().filter(|c| c.physical.has_heap()).map(|c| c.offset).collect();
        let state_offset = offset;
        let width = (offset + self.state_bytes).next_multiple_of(8);
        Ok(Arc::new(RowLayout { columns, keys, fixed_key_bytes, key_views, views, hash_offset, state_offset, width }))
    }
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

    /// Offset of the hash, 8 bytes.
    pub fn hash_offset(&self) -> usize {
        self.hash_offset
    }

    /// Whether rows may have bytes on heap pages.
    pub fn has_heap(&self) -> bool {
        !self.views.is_empty()
    }

    /// Offsets of all columns that may point to a heap page.
    pub fn views(&self) -> &[usize] {
        &self.views
    }

    pub(crate) fn key_views(&self) -> &[usize] {
        &self.key_views
    }

    pub(crate) fn fixed_key_bytes(&self) -> usize {
        self.fixed_key_bytes
    }

    /// The hash that is stored in a row.
    ///
    /// # Safety
    /// `row` must point to a row of this layout on a pinned page.
    #[inline(always)]
    pub unsafe fn hash(&self, row: *const u8) -> u64 {
        // SAFETY: the caller vouches for the row; the offset is within its width.
        unsafe { row.add(self.hash_offset).cast::<u64>().read_unaligned() }
    }
}
