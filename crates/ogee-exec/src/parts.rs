//! Chunks in parts: values that grow while they are evaluated are made of as many rows at a time as memory is meant for.
//!
//! Rows of a chunk take little room as long as values come from a page. A function may make a megabyte of each. Whoever evaluates an expression that
//! may do so ([`Expr::may_grow`]) has its chunk taken here: the expression looks at its arguments first, and says [`ExecError::Grown`] instead of making
//! more than [`PART_BYTES`]; fewer rows are taken then. A single row is promised its memory, or refused.
//!
//! Not here: how large a value becomes, which the function knows.

use std::{cell::Cell, sync::Arc};

use arrow_array::Array;
use arrow_select::concat::concat;
use ogee_memory::{BufferManager, Reservation};
use ogee_vector::{Chunk, Column};

use crate::{ExecError, Expr};

/// Bytes of values that are made at a time, if they are of several rows.
pub const PART_BYTES: usize = 2 << 20;

/// Of each byte of a value that is made there are so many at a time: in the function, in an array that grows, and where it goes to.
const COPIES: usize = 3;

/// Whom the memory of values is promised to.
const CONSUMER: &str = "value of an expression";

/// What becomes of values that would take more than [`PART_BYTES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Growth {
    /// Nobody asks for fewer rows: memory for all is needed.
    #[default]
    Whole,
    /// [`ExecError::Grown`] makes the caller ask for fewer rows.
    InParts,
    /// There is one row, and memory for what its values would take by the size of the arguments.
    Promised,
}

thread_local! {
    static GROWTH: Cell<Growth> = const { Cell::new(Growth::Whole) };
}

impl Growth {
    /// What is true of the expression that this thread evaluates.
    pub fn current() -> Self {
        GROWTH.get()
    }

    fn during<T>(self, evaluate: impl FnOnce() -> T) -> T {
        struct Restored(Growth);
        impl Drop for Restored {
            fn drop(&mut self) {
                GROWTH.set(self.0);
            }
        }
        let _restored = Restored(GROWTH.replace(self));
        evaluate()
    }
}

/// Rows that are still to be taken, and the memory of the one that was taken last, if it needed a promise.
pub(crate) struct Parts {
    memory: Arc<BufferManager>,
    /// The next one is the last.
    waiting: Vec<Chunk>,
    promise: Option<Reservation>,
}

impl Parts {
    pub(crate) fn new(memory: &Arc<BufferManager>) -> Self {
        Self { memory: Arc::clone(memory), waiting: Vec::new(), promise: None }
    }

    /// The rows to take; there are none left of those before.
    pub(crate) fn begin(&mut self, chunk: Chunk) {
        debug_assert!(self.waiting.is_empty(), "rows are left");
        self.waiting.push(chunk);
    }

    /// Forgets the rows that are left.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.promise = None;
    }

    /// What `take` makes of the next rows: of as many as it does not find too many. `None` when none are left.
    ///
    /// # Errors
    /// Those of `take`; out of memory for the values of a single row.
    pub(crate) fn take<T>(
        &mut self,
        mut take: impl FnMut(Chunk) -> Result<T, ExecError>,
    ) -> Result<Option<T>, ExecError> {
        self.promise = None;
        while let Some(chunk) = self.waiting.pop() {
            let bytes = match Growth::InParts.during(|| take(chunk.clone())) {
                Err(ExecError::Grown { bytes }) => bytes,
                result => return result.map(Some),
            };
            if chunk.len() > 1 {
                self.split(&chunk, bytes);
                continue;
            }
            // What the process holds beside pages counts as it is now: values made just before may still be there.
            self.memory.revise();
            self.promise = Some(self.memory.reserve(CONSUMER, bytes.saturating_mul(COPIES))?);
            return Growth::Promised.during(|| take(chunk)).map(Some);
        }
        Ok(None)
    }

    /// Has the rows of `chunk`, whose values would take `bytes`, taken in pieces.
    fn split(&mut self, chunk: &Chunk, bytes: usize) {
        let rows = chunk.len() as u128 * PART_BYTES as u128 / bytes.max(1) as u128;
        let rows = (rows as usize).clamp(1, chunk.len() / 2);
        let starts = (0..chunk.len()).step_by(rows);
        self.waiting.extend(starts.rev().map(|start| chunk.slice(start, rows.min(chunk.len() - start))));
    }
}

impl Expr {
    /// As [`Self::evaluate`], for those who need the values of all rows at once: what is made on the way to them is made in parts.
    ///
    /// # Errors
    /// As the expression fails; out of memory for the values of a single row.
    pub fn evaluate_whole(&self, memory: &Arc<BufferManager>, chunk: &Chunk) -> Result<Column, ExecError> {
        if !self.may_grow() {
            return self.evaluate(chunk);
        }
        let (mut parts, mut columns) = (Parts::new(memory), Vec::new());
        parts.begin(chunk.clone());
        while let Some(column) = parts.take(|part| self.evaluate(&part))? {
            columns.push(column);
        }
        if columns.len() == 1 {
            return Ok(columns.swap_remove(0));
        }
        let arrays = columns.iter().map(Column::flatten).collect::<Result<Vec<_>, _>>()?;
        let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        Ok(Column::flat(concat(&arrays)?))
    }

    /// As [`Self::select`]; values on the way to the predicate's are made in parts.
    ///
    /// # Errors
    /// As the expression fails; out of memory for the values of a single row.
    pub fn select_whole(
        &self,
        memory: &Arc<BufferManager>,
        chunk: &Chunk,
        rows: &mut Vec<u32>,
    ) -> Result<(), ExecError> {
        if !self.may_grow() {
            return self.select(chunk, rows);
        }
        rows.clear();
        let (mut parts, mut passed, mut before) = (Parts::new(memory), Vec::new(), 0);
        parts.begin(chunk.clone());
        while let Some(len) = parts.take(|part| self.select(&part, &mut passed).map(|()| part.len() as u32))? {
            rows.extend(passed.iter().map(|row| before + row));
            before += len;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use arrow_array::{ArrayRef, Int64Array, cast::AsArray, types::Int64Type};
    use ogee_memory::MemoryConfig;

    use super::*;
    use crate::ForeignExpr;

    /// Column 0 plus one, and what it says of the size of its values: that of column 0, for each row; notes how many rows it was asked for.
    #[derive(Debug, Default)]
    struct Sized {
        asked: parking_lot::Mutex<Vec<usize>>,
    }

    impl ForeignExpr for Sized {
        fn columns(&self) -> &[usize] {
            &[0]
        }

        fn is_volatile(&self) -> bool {
            false
        }

        fn can_fail(&self) -> bool {
            true
        }

        fn may_grow(&self) -> bool {
            true
        }

        fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef, ExecError> {
            let sizes = columns[0].as_primitive::<Int64Type>();
            let bytes = sizes.values().iter().sum::<i64>() as usize;
            if bytes > PART_BYTES && Growth::current() == Growth::InParts {
                return Err(ExecError::Grown { bytes });
            }
            self.asked.lock().push(rows);
            Ok(Arc::new(sizes.unary::<_, Int64Type>(|size| size + 1)))
        }
    }

    /// The values for rows of such sizes, and how many rows they were asked for at a time.
    fn evaluated(sizes: &[i64], limit: usize) -> Result<(Vec<i64>, Vec<usize>), ExecError> {
        let config = MemoryConfig { limit, counts_process: false, ..MemoryConfig::default() };
        let memory = BufferManager::new(config).unwrap();
        let chunk = Chunk::new(vec![Arc::new(Int64Array::from(sizes.to_vec()))], sizes.len());
        let foreign = Arc::new(Sized::default());
        let expr = Expr::Foreign(Arc::<Sized>::clone(&foreign));
        let array = expr.evaluate_whole(&memory, &chunk)?.flatten()?;
        assert_eq!((memory.stats().reserved, Growth::current()), (0, Growth::Whole));
        Ok((array.as_primitive::<Int64Type>().values().to_vec(), foreign.asked.lock().clone()))
    }

    #[test]
    fn rows_are_taken_as_many_as_fit_at_a_time() {
        let mib = 1 << 20;
        let (values, asked) = evaluated(&[10; 100], 64 * mib).unwrap();
        assert_eq!((values, asked), (vec![11; 100], vec![100]));
        // 100 rows of 100 KiB: 20 at a time.
        let (values, asked) = evaluated(&[100 << 10; 100], 64 * mib).unwrap();
        assert_eq!((values, asked), (vec![(100 << 10) + 1; 100], vec![20; 5]));
        // One row is larger than a part; those beside it are taken in as many as fit.
        let mut sizes = [1; 100];
        sizes[37] = 10 * mib as i64;
        let (values, asked) = evaluated(&sizes, 64 * mib).unwrap();
        assert_eq!(values, sizes.map(|size| size + 1));
        assert_eq!(asked.iter().sum::<usize>(), 100);
        assert!(asked.contains(&1), "{asked:?}");
    }

    #[test]
    fn a_row_that_memory_is_not_enough_for_is_refused() {
        let error = evaluated(&[1, 1, 1 << 40, 1], 64 << 20).unwrap_err();
        assert!(matches!(error, ExecError::Memory(_)), "{error}");
        assert!(error.to_string().contains(CONSUMER), "{error}");
    }
}
