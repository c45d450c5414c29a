//! Functions that the front end brings: evaluated partition by partition, or, where a partition is too large to be kept and the function allows
//! it, piece by piece.

use std::{fmt, sync::Arc};

use arrow_array::ArrayRef;
use arrow_select::concat::concat;
use ogee_memory::{BufferManager, Reservation};
use ogee_vector::normalize_array;

use super::{
    CONSUMER,
    results::Results,
    state::{Piece, WindowState, stretches},
};
use crate::{ExecContext, ExecError};

/// A window function that the engine has no kernel for.
pub trait ForeignWindow: Send + Sync + fmt::Debug {
    /// The input's columns that it reads, by index, those that it is ordered by among them.
    fn columns(&self) -> &[usize];

    /// Its value for each of the `rows` rows of a partition, in order. `columns` are those of [`Self::columns`].
    ///
    /// # Errors
    /// As the function fails.
    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef, ExecError>;

    /// An evaluation of one partition piece by piece; `None` if the function needs the whole of it.
    ///
    /// # Errors
    /// As the function fails.
    fn stream(&self) -> Result<Option<Box<dyn ForeignWindowStream>>, ExecError>;
}

/// A function over one partition, piece by piece.
pub trait ForeignWindowStream: Send {
    /// Takes the next `rows` rows (`last`: there are no more after them), and gives the values that are final by now, in order.
    ///
    /// # Errors
    /// As the function fails.
    fn push(&mut self, columns: &[ArrayRef], rows: usize, last: bool) -> Result<ArrayRef, ExecError>;
}

/// A foreign function in execution.
pub(crate) struct Foreign {
    function: Arc<dyn ForeignWindow>,
    memory: Arc<BufferManager>,
    /// Bytes of a partition that are kept before it is streamed.
    budget: usize,
    /// The rows of the open partition, and how many each piece has.
    kept: Vec<(Vec<ArrayRef>, usize)>,
    kept_rows: usize,
    kept_bytes: usize,
    /// For what evaluating a large partition as a whole takes.
    reservation: Option<Reservation>,
    stream: Option<Box<dyn ForeignWindowStream>>,
    /// The function was asked for a stream of this partition.
    asked: bool,
}

impl Foreign {
    pub(crate) fn new(function: &Arc<dyn ForeignWindow>, ctx: &ExecContext, budget: usize) -> Self {
        Self {
            function: Arc::clone(function),
            memory: Arc::clone(&ctx.memory),
            budget,
            kept: Vec::new(),
            kept_rows: 0,
            kept_bytes: 0,
            reservation: None,
            stream: None,
            asked: false,
        }
    }

    /// Takes rows of the open partition.
    fn add(&mut self, columns: Vec<ArrayRef>, rows: usize, results: &mut Results) -> Result<(), ExecError> {
        if let Some(stream) = &mut self.stream {
            let values = stream.push(&columns, rows, false)?;
            results.push(normalize_array(&values)?);
            return Ok(());
        }
        self.kept_bytes += columns.iter().map(|column| column.get_array_memory_size()).sum::<usize>();
        self.kept_rows += rows;
        self.kept.push((columns, rows));
        if self.kept_bytes > self.budget {
            if !self.asked {
                self.asked = true;
                self.stream = self.function.stream()?;
            }
            if let Some(stream) = &mut self.stream {
                for (columns, rows) in std::mem::take(&mut self.kept) {
                    let values = stream.push(&columns, rows, false)?;
                    results.push(normalize_array(&values)?);
                }
                (self.kept_rows, self.kept_bytes) = (0, 0);
            } else {
                // Twice: once more when the pieces become one, and again while it is evaluated.
                let bytes = 3 * self.kept_bytes;
                match &mut self.reservation {
                    Some(reservation) if reservation.bytes() >= bytes => {}
                    Some(reservation) => reservation.resize(bytes + bytes / 4)?,
                    none => *none = Some(self.memory.reserve(CONSUMER, bytes + bytes / 4)?),
                }
            }
        }
        Ok(())
    }

    /// Ends the open partition. `empty`: the columns, without rows.
    fn finish(&mut self, empty: &[ArrayRef], results: &mut Results) -> Result<(), ExecError> {
        self.asked = false;
        if let Some(mut stream) = self.stream.take() {
            results.push(normalize_array(&stream.push(empty, 0, true)?)?);
        } else if self.kept_rows > 0 {
            let rows = std::mem::take(&mut self.kept_rows);
            let pieces = std::mem::take(&mut self.kept);
            self.kept_bytes = 0;
            let columns = match pieces.as_slice() {
                [(only, _)] => only.clone(),
                pieces => (0..empty.len())
                    .map(|column| concat(&pieces.iter().map(|(piece, _)| &*piece[column]).collect::<Vec<_>>()))
                    .collect::<Result<_, _>>()?,
            };
            results.push(normalize_array(&self.function.evaluate(&columns, rows)?)?);
            self.reservation = None;
        }
        Ok(())
    }
}

impl WindowState for Foreign {
    fn push(&mut self, columns: &[ArrayRef], piece: &Piece<'_>, results: &mut Results) -> Result<(), ExecError> {
        let empty: Vec<ArrayRef> = columns.iter().map(|column| column.slice(0, 0)).collect();
        for partition in stretches(piece.rows, piece.partitions, piece.last) {
            let rows = partition.end - partition.start;
            if rows > 0 {
                let columns = columns.iter().map(|column| column.slice(partition.start, rows)).collect();
                self.add(columns, rows, results)?;
            }
            if partition.ends {
                self.finish(&empty, results)?;
            }
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.kept_bytes
    }
}
