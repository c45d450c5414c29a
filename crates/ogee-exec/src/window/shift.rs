//! Functions that give the argument as it is in another row: `lag`, `lead`, `first_value`, `last_value`.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_select::{concat::concat, take::take};

use super::{
    Extent,
    results::Results,
    state::{Piece, WindowState, stretches},
};
use crate::ExecError;

/// A state for `lag` by `offset`, or for `lead` if it is negative.
pub(crate) fn state(offset: i64, default: &ArrayRef) -> Box<dyn WindowState> {
    let default = Arc::clone(default);
    let rows = usize::try_from(offset.unsigned_abs()).expect("64-bit targets only");
    if offset >= 0 {
        let before = default.slice(0, 0);
        Box::new(Lag { rows, default, before })
    } else {
        Box::new(Lead { rows, default, seen: 0 })
    }
}

/// The rows `indices` of `values`, copied, so that they keep nothing else alive.
pub(super) fn gather(values: &ArrayRef, indices: Vec<u32>) -> Result<ArrayRef, ExecError> {
    Ok(take(values, &UInt32Array::from(indices), None)?)
}

struct Lag {
    rows: usize,
    default: ArrayRef,
    /// The last values of the open partition, as many as are needed.
    before: ArrayRef,
}

impl WindowState for Lag {
    fn push(&mut self, columns: &[ArrayRef], piece: &Piece<'_>, results: &mut Results) -> Result<(), ExecError> {
        let arg = &columns[0];
        // The default first, then what came before, then these rows.
        let values = concat(&[&*self.default, &*self.before, &**arg])?;
        let shift = 1 + self.before.len();
        let mut indices: Vec<u32> = Vec::with_capacity(piece.rows);
        let mut open = 1;
        for partition in stretches(piece.rows, piece.partitions, piece.last) {
            if partition.begins {
                open = shift + partition.start;
            }
            for row in shift + partition.start..shift + partition.end {
                indices.push(if row >= open + self.rows { (row - self.rows) as u32 } else { 0 });
            }
        }
        results.push(gather(&values, indices)?);
        let end = shift + piece.rows;
        let keep = if piece.last { 0 } else { self.rows.min(end - open) };
        self.before = gather(&values, (end - keep..end).map(|row| row as u32).collect())?;
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.before.get_array_memory_size()
    }
}

struct Lead {
    rows: usize,
    default: ArrayRef,
    /// Rows of the open partition so far.
    seen: usize,
}

impl WindowState for Lead {
    fn push(&mut self, columns: &[ArrayRef], piece: &Piece<'_>, results: &mut Results) -> Result<(), ExecError> {
        // The values of a partition are its own from row `rows` on, and then defaults.
        let mut indices: Vec<u32> = Vec::with_capacity(piece.rows);
        for partition in stretches(piece.rows, piece.partitions, piece.last) {
            if partition.begins {
                self.seen = 0;
            }
            let first = partition.start + self.rows.saturating_sub(self.seen);
            indices.extend((first..partition.end).map(|row| row as u32 + 1));
            self.seen += partition.end - partition.start;
            if partition.ends {
                let defaults = self.rows.min(self.seen);
                self.seen = 0;
                if defaults > piece.rows {
                    // More than there are rows at hand: one value for all of them.
                    let values = concat(&[&*self.default, &*columns[0]])?;
                    results.push(gather(&values, std::mem::take(&mut indices))?);
                    results.push_runs(Arc::clone(&self.default), vec![defaults]);
                } else {
                    indices.extend(std::iter::repeat_n(0, defaults));
                }
            }
        }
        let values = concat(&[&*self.default, &*columns[0]])?;
        results.push(gather(&values, indices)?);
        Ok(())
    }
}

/// `first_value` from the partition's first row on.
#[derive(Default)]
pub(crate) struct First {
    /// That of the open partition.
    value: Option<ArrayRef>,
}

impl WindowState for First {
    fn push(&mut self, columns: &[ArrayRef], piece: &Piece<'_>, results: &mut Results) -> Result<(), ExecError> {
        let mut indices = Vec::with_capacity(piece.partitions.len());
        let mut counts = Vec::with_capacity(piece.partitions.len());
        for partition in stretches(piece.rows, piece.partitions, piece.last) {
            let rows = partition.end - partition.start;
            if rows == 0 {
                continue;
            }
            if partition.begins {
                indices.push(partition.start as u32);
                counts.push(rows);
            } else {
                let value = self.value.as_ref().expect("a range begins with a partition");
                results.push_runs(Arc::clone(value), vec![rows]);
            }
        }
        if let Some(&open) = indices.last() {
            self.value = Some(gather(&columns[0], vec![open])?);
        }
        results.push_runs(gather(&columns[0], indices)?, counts);
        Ok(())
    }
}

/// `last_value` of what a row sees.
pub(crate) struct Last {
    extent: Extent,
    /// The last row so far of what is open, and how many rows wait for it.
    open: Option<(ArrayRef, usize)>,
}

impl Last {
    pub(crate) fn new(extent: Extent) -> Self {
        Self { extent, open: None }
    }
}

impl WindowState for Last {
    fn push(&mut self, columns: &[ArrayRef], piece: &Piece<'_>, results: &mut Results) -> Result<(), ExecError> {
        let starts = match self.extent {
            Extent::Row => {
                results.push(Arc::clone(&columns[0]));
                return Ok(());
            }
            Extent::Peers => piece.peers,
            Extent::Partition => piece.partitions,
            Extent::Rows { .. } | Extent::Frame(_) => unreachable!("refused by `supports_call`"),
        };
        let mut indices = Vec::with_capacity(starts.len());
        let mut counts = Vec::with_capacity(starts.len());
        for stretch in stretches(piece.rows, starts, piece.last) {
            let rows = stretch.end - stretch.start;
            if !stretch.begins
                && let Some((value, waiting)) = self.open.take()
            {
                // What was open goes on, and ends, only before all others of the piece.
                let value = if rows > 0 { gather(&columns[0], vec![stretch.end as u32 - 1])? } else { value };
                if stretch.ends {
                    results.push_runs(value, vec![waiting + rows]);
                } else {
                    self.open = Some((value, waiting + rows));
                }
            } else if rows > 0 {
                if stretch.ends {
                    indices.push(stretch.end as u32 - 1);
                    counts.push(rows);
                } else {
                    self.open = Some((gather(&columns[0], vec![stretch.end as u32 - 1])?, rows));
                }
            }
        }
        results.push_runs(gather(&columns[0], indices)?, counts);
        Ok(())
    }
}
