//! Rows that take the place of others: kept in the order of the numbers that those have, and put where they lay when their blocks are written anew.
//!
//! They come in the order of the table, or in pieces that are: each piece that begins before the last ends is a run of its own, and runs are read side by side.
//!
//! Not here: which rows, and when (`changing`).

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{BooleanArray, Int64Array, RecordBatch, UInt32Array},
        compute::{interleave_record_batch, sort_to_indices, take_record_batch},
        datatypes::SchemaRef,
    },
    error::{DataFusionError, Result},
};
use ogee_memory::{BufferManager, Reservation};

use crate::{
    changing::RowsWriter,
    keys::hold,
    table::{Block, renamed},
};

/// Runs that are read side by side: each has a block open.
const RUNS_MAX: usize = 16;

/// Rows as they come.
pub(crate) struct Replaced {
    schema: SchemaRef,
    memory: Arc<BufferManager>,
    runs: Vec<Run>,
    bytes: usize,
    held: Option<Reservation>,
}

struct Run {
    /// The numbers of the rows that go, ascending.
    numbers: Vec<u64>,
    rows: RowsWriter,
}

impl Replaced {
    pub(crate) fn new(schema: &SchemaRef, memory: &Arc<BufferManager>) -> Self {
        Self { schema: Arc::clone(schema), memory: Arc::clone(memory), runs: Vec::new(), bytes: 0, held: None }
    }

    /// Takes `batch`, the rows of which take the places of those of `numbers`; gives it back where there are too many runs.
    pub(crate) fn push(&mut self, numbers: &Int64Array, batch: RecordBatch) -> Result<Option<RecordBatch>> {
        let ascends = numbers.values().windows(2).all(|pair| pair[0] < pair[1]);
        let (numbers, batch) = if ascends {
            (numbers.values().to_vec(), batch)
        } else {
            let order: UInt32Array = sort_to_indices(numbers, None, None)?;
            let sorted = order.values().iter().map(|&at| numbers.value(at as usize)).collect();
            (sorted, take_record_batch(&batch, &order)?)
        };
        let Some(first) = numbers.first().map(|first| *first as u64) else { return Ok(None) };
        let is_behind = |run: &Run| run.numbers.last().is_none_or(|last| *last < first);
        let at = match self.runs.iter().position(is_behind) {
            Some(at) => at,
            None if self.runs.len() < RUNS_MAX => {
                self.runs.push(Run { numbers: Vec::new(), rows: RowsWriter::new(&self.schema, &self.memory) });
                self.runs.len() - 1
            }
            None => return Ok(Some(batch)),
        };
        self.bytes += numbers.len() * size_of::<u64>();
        hold(&self.memory, &mut self.held, self.bytes)?;
        let run = &mut self.runs[at];
        run.numbers.extend(numbers.into_iter().map(|number| number as u64));
        run.rows.push(batch)?;
        Ok(None)
    }

    /// All rows are there.
    pub(crate) fn finish(self) -> Result<Runs> {
        let runs = self.runs.into_iter().map(|run| Ok((run.numbers, run.rows.finish()?)));
        Ok(Runs { runs: runs.collect::<Result<_>>()?, _held: self.held })
    }
}

/// All of the rows.
pub(crate) struct Runs {
    runs: Vec<(Vec<u64>, Vec<Arc<Block>>)>,
    _held: Option<Reservation>,
}

impl Runs {
    /// The blocks that they are in.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &Arc<Block>> {
        self.runs.iter().flat_map(|(_, blocks)| blocks)
    }

    /// Their blocks, if they are one run of so many rows.
    pub(crate) fn whole(&self, rows: usize) -> Option<&[Arc<Block>]> {
        match self.runs.as_slice() {
            [(numbers, blocks)] if numbers.len() == rows => Some(blocks),
            _ => None,
        }
    }

    /// Their rows, to be put in their places from the first on.
    pub(crate) fn reader(&self, schema: &SchemaRef, memory: &Arc<BufferManager>) -> Result<Reader> {
        let bytes =
            self.runs.iter().map(|(_, blocks)| 2 * blocks.iter().map(|block| block.batch_bytes()).max().unwrap_or(0));
        let failed = |error| DataFusionError::External(Box::new(ogee_functions::Error::Memory(error)));
        let held = memory.reserve("rows that take the place of others", bytes.sum()).map_err(failed)?;
        let runs = self.runs.iter().map(|(numbers, blocks)| {
            let batches = blocks.clone().into_iter().flat_map(|block| -> Batches {
                match block.batches() {
                    Ok(batches) => Box::new(batches.map(|batch| Ok(batch?))),
                    Err(error) => Box::new(std::iter::once(Err(error))),
                }
            });
            RunReader { numbers: numbers.clone(), at: 0, batches: Box::new(batches), current: None }
        });
        Ok(Reader { schema: Arc::clone(schema), runs: runs.collect(), _held: held })
    }
}

type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// See [`Runs::reader`].
pub(crate) struct Reader {
    schema: SchemaRef,
    runs: Vec<RunReader>,
    _held: Reservation,
}

struct RunReader {
    numbers: Vec<u64>,
    /// How many have been put in their places.
    at: usize,
    batches: Batches,
    /// What is left of the batch that is read.
    current: Option<RecordBatch>,
}

impl Reader {
    /// Whether any of them take the place of one of the `count` rows from `first` on.
    pub(crate) fn is_within(&self, first: u64, count: u64) -> bool {
        self.runs.iter().any(|run| {
            let at = run.numbers.partition_point(|number| *number < first);
            run.numbers.get(at).is_some_and(|number| *number < first + count)
        })
    }

    /// The rows of `batch`, the numbers of which begin with `first`, without those that go, and with those that take their places.
    pub(crate) fn put(&mut self, batch: &RecordBatch, first: u64, goes: &BooleanArray) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let end = first + rows as u64;
        let mut pieces = vec![batch.clone()];
        let mut places: Vec<Option<(usize, usize)>> = vec![None; rows];
        for run in &mut self.runs {
            while let Some(number) = run.numbers.get(run.at).copied().filter(|number| *number < end) {
                debug_assert!(number >= first, "batches are asked for in their order");
                let current = match run.current.take().filter(|current| current.num_rows() > 0) {
                    Some(current) => current,
                    None => match run.batches.next() {
                        Some(batch) => renamed(batch?, &self.schema)?,
                        None => return datafusion::common::internal_err!("rows that come and are not there"),
                    },
                };
                let wanted = run.numbers[run.at..].iter().take_while(|number| **number < end).count();
                let count = wanted.min(current.num_rows());
                for nth in 0..count {
                    let row = (run.numbers[run.at + nth] - first) as usize;
                    places[row] = Some((pieces.len(), nth));
                }
                pieces.push(current.slice(0, count));
                run.current = Some(current.slice(count, current.num_rows() - count));
                run.at += count;
            }
        }
        let stays = |row: usize| (!goes.value(row)).then_some((0, row));
        let indices: Vec<(usize, usize)> =
            places.iter().enumerate().filter_map(|(row, place)| place.or_else(|| stays(row))).collect();
        Ok(interleave_record_batch(&pieces.iter().collect::<Vec<_>>(), &indices)?)
    }
}
