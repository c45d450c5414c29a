//! Extended selection vectors: dense lists of positions, unsorted, repeats allowed.

use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_buffer::ScalarBuffer;

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
    let indices = UInt32Array::new(ScalarBuffer::from(positions.to_vec()), None);
    Ok(arrow_select::take::take(array, &indices, None)?)
}
