//! The least and greatest strings from the partition's first row on. Nothing is copied but what is given out: the best string so far is a row of the
//! piece at hand, or the one that is kept of those before.

use std::{cmp::Ordering, sync::Arc};

use arrow_array::{Array, ArrayRef, GenericByteViewArray, cast::AsArray, types::ByteViewType};
use arrow_select::concat::concat;

use super::{
    Extent,
    results::Results,
    shift::gather,
    state::{Piece, WindowState, stretches},
};
use crate::ExecError;

/// `min` or `max` of strings or bytes.
pub(super) struct TextExtremum<T> {
    extent: Extent,
    /// Which of two values is better: the one that compares so with the other.
    better: Ordering,
    /// The best of the open partition, one row; `None` before the first row of all.
    best: Option<ArrayRef>,
    /// Rows that are in it and wait for its value.
    waiting: usize,
    of: std::marker::PhantomData<fn() -> T>,
}

impl<T: ByteViewType> TextExtremum<T> {
    /// `extent` must not be one of rows at distances.
    pub(super) fn new(extent: Extent, max: bool) -> Self {
        let better = if max { Ordering::Greater } else { Ordering::Less };
        Self { extent, better, best: None, waiting: 0, of: std::marker::PhantomData }
    }

    /// Whether row `row` is better than row `best`.
    fn is_better(&self, values: &GenericByteViewArray<T>, row: usize, best: usize) -> bool {
        if values.is_null(row) {
            return false;
        }
        let bytes = |row: usize| -> &[u8] { values.value(row).as_ref() };
        values.is_null(best) || bytes(row).cmp(bytes(best)) == self.better
    }
}

impl<T: ByteViewType> WindowState for TextExtremum<T> {
    fn push(&mut self, columns: &[ArrayRef], piece: &Piece<'_>, results: &mut Results) -> Result<(), ExecError> {
        // NULL first, then the best so far, then these rows.
        let null = arrow_array::new_null_array(columns[0].data_type(), 1);
        let best = self.best.take().unwrap_or_else(|| null.clone());
        let all = concat(&[&*null, &*best, &*columns[0]])?;
        let values: &GenericByteViewArray<T> = all.as_byte_view();
        let starts = if self.extent == Extent::Partition { piece.partitions } else { piece.peers };
        let (mut indices, mut counts) = (Vec::with_capacity(piece.rows), Vec::with_capacity(piece.rows));
        let mut partitions = piece.partitions.iter().peekable();
        let mut best = 1;
        for stretch in stretches(piece.rows, starts, piece.last) {
            if partitions.next_if(|&&start| start == stretch.start && stretch.begins).is_some() {
                best = 0;
            }
            for row in stretch.start + 2..stretch.end + 2 {
                if self.is_better(values, row, best) {
                    best = row;
                }
                if self.extent == Extent::Row {
                    indices.push(best as u32);
                    counts.push(1);
                }
            }
            if self.extent != Extent::Row {
                self.waiting += stretch.end - stretch.start;
                if stretch.ends && self.waiting > 0 {
                    indices.push(best as u32);
                    counts.push(std::mem::take(&mut self.waiting));
                }
            }
        }
        // A copy, which keeps the bytes of no piece.
        self.best = Some(Arc::new(gather(&all, vec![best as u32])?.as_byte_view::<T>().gc()));
        let values = gather(&all, indices)?;
        if self.extent == Extent::Row {
            results.push(values)
        } else {
            results.push_runs(values, counts)
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.best.as_ref().map_or(0, |best| best.get_array_memory_size())
    }
}
