//! Columns of samples are read in pieces, one for each column and row group, by as many threads as pay.
//!
//! Not here: which rows are sampled (`sample`).

use std::{
    cmp::Reverse,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, RecordBatch, new_null_array},
        compute::{cast, concat},
        datatypes::FieldRef,
    },
    parquet::{arrow::arrow_reader::RowSelector, file::metadata::RowGroupMetaData},
};
use ogee_exec::ExecError;
use ogee_memory::BufferManager;
use ogee_scan::RowReader;

use super::sample::{Claim, Rows, Run, SampledFile, TableSample};
use crate::table::BlockScan;

/// Bytes of column chunks, uncompressed, for which another thread is begun: a tenth of a millisecond against half a millisecond or more.
const BYTES_OF_THREAD: u64 = 1 << 20;

/// Rows of a sample that are read at once.
enum Piece<'a> {
    /// Rows of a row group.
    RowGroup { file: &'a SampledFile, reader: Arc<RowReader>, group: usize, selectors: Vec<RowSelector> },
    /// The first rows of a block.
    Block { scan: &'a dyn BlockScan, run: Run },
}

impl Piece<'_> {
    /// Bytes that reading `fields` may have to go through.
    fn bytes(&self, fields: &[FieldRef]) -> u64 {
        match self {
            Self::RowGroup { reader, group, .. } => bytes_in(reader.metadata().row_group(*group), fields),
            Self::Block { scan, run } => scan.block_bytes(run.part),
        }
    }

    /// How many of `fields` are read at a time: a block has all columns of its rows together.
    fn at_once(&self, fields: usize) -> usize {
        match self {
            Self::RowGroup { .. } => 1,
            Self::Block { .. } => fields,
        }
    }

    fn read(&self, fields: &[FieldRef]) -> Result<Vec<ArrayRef>, ExecError> {
        let arrays = match self {
            Self::RowGroup { file, reader, group, selectors } => {
                let array = |field: &FieldRef| match file.partitions.iter().find(|(name, _)| name == field.name()) {
                    Some((_, value)) => {
                        let selected = selectors.iter().filter(|selector| !selector.skip);
                        let rows = selected.map(|selector| selector.row_count).sum();
                        value.to_array_of_size(rows).map_err(|error| ExecError::Foreign(error.into()))
                    }
                    None => Ok(reader.read(field, *group, selectors)?),
                };
                fields.iter().map(array).collect::<Result<Vec<_>, _>>()?
            }
            Self::Block { scan, run } => read_block(*scan, *run, fields)?,
        };
        arrays.iter().zip(fields).map(|(array, field)| Ok(cast(array, field.data_type())?)).collect()
    }
}

/// Bytes of the chunks of `fields` in a row group, uncompressed.
pub(super) fn bytes_in(group: &RowGroupMetaData, fields: &[FieldRef]) -> u64 {
    let chunks = group.columns().iter().filter(|chunk| {
        let name = chunk.column_path().parts().first();
        fields.iter().any(|field| name == Some(field.name()))
    });
    chunks.map(|chunk| u64::try_from(chunk.uncompressed_size()).unwrap_or(0)).sum()
}

/// Some columns of a piece, which one thread reads.
struct Work<'a> {
    piece: &'a Piece<'a>,
    fields: &'a [FieldRef],
    read: OnceLock<Result<Vec<ArrayRef>, ExecError>>,
}

/// Reads columns, as many threads of `threads` at a time as pay.
pub(super) fn read(columns: &[Claim<'_>], threads: usize) {
    if columns.is_empty() {
        return;
    }
    let pieces: Vec<_> = columns.iter().map(|claim| pieces_of(claim.table)).collect();
    let mut work = Vec::new();
    // Of each claim where its part of the work ends.
    let mut ends = Vec::with_capacity(columns.len());
    for (claim, pieces) in columns.iter().zip(&pieces) {
        for piece in pieces.iter().flatten() {
            let at_once = claim.fields.chunks(piece.at_once(claim.fields.len()).max(1));
            work.extend(at_once.map(|fields| Work { piece, fields, read: OnceLock::new() }));
        }
        ends.push(work.len());
    }
    // The largest first, so that no thread is left with one at the end.
    let mut order: Vec<(u64, usize)> =
        work.iter().enumerate().map(|(number, work)| (work.piece.bytes(work.fields), number)).collect();
    order.sort_unstable_by_key(|&(bytes, number)| (Reverse(bytes), number));
    let next = AtomicUsize::new(0);
    let lane = || {
        while let Some(&(_, number)) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Work { piece, fields, read } = &work[number];
            assert!(read.set(piece.read(fields)).is_ok(), "each is taken once");
        }
    };
    let bytes: u64 = order.iter().map(|(bytes, _)| bytes).sum();
    let lanes = threads.min(work.len()).min(usize::try_from(1 + bytes / BYTES_OF_THREAD).unwrap_or(usize::MAX));
    std::thread::scope(|scope| {
        (1..lanes).for_each(|_| drop(scope.spawn(lane)));
        lane();
    });
    let begins = std::iter::once(0).chain(ends.iter().copied());
    for (((claim, pieces), begin), &end) in columns.iter().zip(&pieces).zip(begins).zip(&ends) {
        for field in &claim.fields {
            let of_field = |work: &'_ Work<'_>| -> Option<Result<ArrayRef, bool>> {
                let at = work.fields.iter().position(|other| Arc::ptr_eq(other, field))?;
                Some(match work.read.get().expect("all were taken") {
                    Ok(arrays) => Ok(Arc::clone(&arrays[at])),
                    Err(error) => Err(matches!(error, ExecError::Memory(_))),
                })
            };
            let arrays: Result<Vec<ArrayRef>, bool> = match pieces {
                Ok(_) => work[begin..end].iter().filter_map(of_field).collect(),
                Err(error) => Err(matches!(error, ExecError::Memory(_))),
            };
            match arrays {
                Ok(arrays) => claim.table.learn(field, joined(field, &arrays)),
                // There may be memory another time.
                Err(true) => {}
                Err(false) => claim.table.learn(field, None),
            }
        }
    }
}

/// One after the other.
fn joined(field: &FieldRef, arrays: &[ArrayRef]) -> Option<ArrayRef> {
    match arrays {
        [] => Some(new_null_array(field.data_type(), 0)),
        [array] => Some(Arc::clone(array)),
        arrays => concat(&arrays.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>()).ok(),
    }
}

/// What there is to read for one column of a sample.
fn pieces_of(table: &TableSample) -> Result<Vec<Piece<'_>>, ExecError> {
    let mut pieces = Vec::new();
    for runs in table.runs.chunk_by(|a, b| a.part == b.part) {
        match &table.rows {
            Rows::Files(files) => {
                let file = &files[runs[0].part];
                let reader = open(file, &table.memory)?;
                let groups = reader.metadata().row_groups().iter().map(|group| group.num_rows() as u64);
                let selected = selection(groups, runs).into_iter();
                pieces.extend(selected.map(|(group, selectors)| Piece::RowGroup {
                    file,
                    reader: Arc::clone(&reader),
                    group,
                    selectors,
                }));
            }
            Rows::Blocks(scan) => pieces.push(Piece::Block { scan: scan.as_ref(), run: runs[0] }),
        }
    }
    Ok(pieces)
}

/// A reader of `file`, which is open as long as somebody reads; its footer is kept.
fn open(file: &SampledFile, memory: &Arc<BufferManager>) -> Result<Arc<RowReader>, ExecError> {
    let mut footer = file.footer.lock();
    let reader = RowReader::open(Arc::clone(memory), file.path.clone(), file.size, footer.clone())?;
    footer.get_or_insert_with(|| Arc::clone(reader.metadata()));
    Ok(Arc::new(reader))
}

/// The row groups that the rows of `runs`, ascending, are in, and where in those. `groups` has the rows of each row group of the file.
fn selection(groups: impl Iterator<Item = u64>, runs: &[Run]) -> Vec<(usize, Vec<RowSelector>)> {
    let mut chosen = Vec::new();
    let (mut runs, mut before) = (runs.iter().copied().peekable(), 0);
    for (group, rows) in groups.enumerate() {
        let (end, mut at) = (before + rows, before);
        let mut selectors = Vec::new();
        while let Some(run) = runs.peek_mut().filter(|run| run.start < end) {
            let taken = (run.rows as u64).min(end - run.start);
            selectors.push(RowSelector::skip((run.start - at) as usize));
            selectors.push(RowSelector::select(taken as usize));
            at = run.start + taken;
            run.start = at;
            run.rows -= taken as usize;
            if run.rows == 0 {
                runs.next();
            }
        }
        if !selectors.is_empty() {
            chosen.push((group, selectors));
        }
        before = end;
    }
    chosen
}

/// The first rows of a block, of some columns.
fn read_block(scan: &dyn BlockScan, run: Run, fields: &[FieldRef]) -> Result<Vec<ArrayRef>, ExecError> {
    let mut parts: Vec<RecordBatch> = Vec::new();
    let mut left = run.rows;
    for batch in scan.batches(run.part, fields).map_err(|error| ExecError::Foreign(error.into()))? {
        let batch = batch.map_err(|error| ExecError::Foreign(error.into()))?;
        let taken = batch.num_rows().min(left);
        parts.push(batch.slice(0, taken));
        left -= taken;
        if left == 0 {
            break;
        }
    }
    let column = |index: usize| -> Result<ArrayRef, ExecError> {
        let parts: Vec<&dyn Array> = parts.iter().map(|part| part.column(index).as_ref()).collect();
        Ok(concat(&parts)?)
    };
    (0..fields.len()).map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_in_their_row_groups() {
        for groups in [vec![1000], vec![100; 10], vec![7, 0, 300, 5, 688]] {
            for runs in [vec![(0, 1000)], vec![(3, 1)], vec![(0, 5), (5, 100), (600, 399)], vec![(99, 2), (305, 300)]] {
                let runs: Vec<Run> = runs.into_iter().map(|(start, rows)| Run { part: 0, start, rows }).collect();
                let starts = |group: usize| groups[..group].iter().sum::<u64>();
                let mut found = Vec::new();
                for (group, selectors) in selection(groups.iter().copied(), &runs) {
                    let mut rows = starts(group)..starts(group) + groups[group];
                    for selector in selectors {
                        let these = rows.by_ref().take(selector.row_count);
                        if selector.skip { these.for_each(drop) } else { found.extend(these) }
                    }
                }
                let expected: Vec<u64> = runs.iter().flat_map(|run| run.start..run.start + run.rows as u64).collect();
                assert_eq!(found, expected, "{runs:?} of {groups:?}");
            }
        }
    }
}
