//! Extended selection vectors: dense lists of positions, unsorted, repeats allowed.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, GenericByteViewArray, UInt32Array, cast::AsArray, types::ByteViewType};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::DataType;

use crate::VectorError;

/// Positions in the arrays of a column group, one for each row of the chunk.
///
/// Shared by all columns of the group and cheap to clone.
#[derive(Clone, Debug)]
pub struct Selection(ScalarBuffer<u32>);

impl Selection {
    /// A selection of the given positions, in this order.
    pub fn new(positions: &[u32]) -> Self {
        Self(positions.to_vec().into())
    }

    /// The positions.
    pub fn positions(&self) -> &[u32] {
        &self.0
    }

    /// Rows `offset .. offset + len`, sharing the positions.
    #[must_use]
    pub fn slice(&self, offset: usize, len: usize) -> Self {
        Self(self.0.slice(offset, len))
    }

    /// Rows `rows` of the chunk, out of what this selection picks: `result[i] = self[rows[i]]`.
    #[must_use]
    pub fn compose(&self, rows: &[u32]) -> Self {
        Self(rows.iter().map(|&row| self.0[row as usize]).collect())
    }
}

impl From<ScalarBuffer<u32>> for Selection {
    /// Shares the positions, such as the keys of a dictionary array.
    fn from(positions: ScalarBuffer<u32>) -> Self {
        Self(positions)
    }
}

/// The rows below `len` that `keep` is true for, ascending, into `rows`: without a branch on what it says.
#[inline(always)]
pub fn keep_rows(len: usize, rows: &mut Vec<u32>, mut keep: impl FnMut(usize) -> bool) {
    rows.resize(len, 0);
    let mut kept = 0;
    for row in 0..len {
        rows[kept] = row as u32;
        kept += usize::from(keep(row));
    }
    rows.truncate(kept);
}

/// The values at `positions`, as a flat array of their own.
///
/// # Errors
/// As Arrow's `take`: only when a string array would outgrow its offsets.
pub fn gather_array(array: &dyn Array, positions: &[u32]) -> Result<ArrayRef, VectorError> {
    match array.data_type() {
        DataType::Utf8View => return Ok(Arc::new(gather_views(array.as_string_view(), positions))),
        DataType::BinaryView => return Ok(Arc::new(gather_views(array.as_binary_view(), positions))),
        _ => {}
    }
    let indices = UInt32Array::new(ScalarBuffer::from(positions.to_vec()), None);
    Ok(arrow_select::take::take(array, &indices, None)?)
}

/// The same of views, which may have thousands of buffers: the result shares the list of them.
fn gather_views<T: ByteViewType>(array: &GenericByteViewArray<T>, positions: &[u32]) -> GenericByteViewArray<T> {
    let (views, buffers, nulls) = array.clone().into_parts();
    let views: &[u128] = &views;
    let views = positions.iter().map(|&at| views[at as usize]).collect::<Vec<_>>();
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0).map(|nulls| {
        NullBuffer::new(BooleanBuffer::collect_bool(positions.len(), |row| nulls.is_valid(positions[row] as usize)))
    });
    // SAFETY: views of a valid array over the same buffers, and a bit for each.
    unsafe { GenericByteViewArray::new_unchecked(views.into(), buffers, nulls) }
}
