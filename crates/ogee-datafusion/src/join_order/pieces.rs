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
use ogee_scan::RowReader;

use super::sample::{Claim, Rows, Run, SampledFile, TableSample};
use crate::{engine::Engine, table::TableScan};

/// Bytes of column chunks, uncompressed, for which another thread is begun: a tenth of a millisecond against half a millisecond or more.
const BYTES_OF_THREAD: u64 = 1 << 20;

/// Rows of a sample that are read at once.
enum Piece<'a> {
    /// Rows of a row group.
    RowGroup { file: &'a SampledFile, reader: Arc<RowReader>, group: usize, selectors: Vec<RowSelector> },
    /// The first rows of a block.
    Block { scan: &'a TableScan, run: Run },
}

impl Piece<'_> {
    /// Bytes of `field` that reading may have to go through.
    fn bytes(&self, field: &FieldRef) -> u64 {
        match self {
            Self::RowGroup { reader, group, .. } => {
                bytes_in(reader.metadata().row_group(*group), std::slice::from_ref(field))
            }
            Self::Block { run, .. } => run.rows as u64,
        }
    }

    fn read(&self, field: &FieldRef) -> Result<ArrayRef, ExecError> {
        let array = match self {
            Self::RowGroup { file, reader, group, selectors } => {
                match file.partitions.iter().find(|(name, _)| name == field.name()) {
                    Some((_, value)) => {
                        let selected = selectors.iter().filter(|selector| !selector.skip);
                        let rows = selected.map(|selector| selector.row_count).sum();
                        value.to_array_of_size(rows).map_err(|error| ExecError::Foreign(error.into()))?
                    }
                    None => reader.read(field, *group, selectors)?,
                }
            }
            Self::Block { scan, run } => read_block(scan, *run, field)?,
        };
        Ok(cast(&array, field.data_type())?)
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

/// Reads columns, as many threads of `threads` at a time as pay.
pub(super) fn read(columns: &[Claim<'_>], threads: usize) {
    if columns.is_empty() {
        return;
    }
    let pieces: Vec<_> = columns.iter().map(|claim| pieces_of(claim.table)).collect();
    // Pieces of one column next to each other.
    let mut work = Vec::new();
    for (of, claim) in columns.iter().enumerate() {
        for field in &claim.fields {
            work.extend(pieces[of].iter().flatten().map(|piece| (field, piece)));
        }
    }
    // The largest first, so that no thread is left with one at the end.
    let mut order: Vec<(u64, usize)> =
        work.iter().enumerate().map(|(number, (field, piece))| (piece.bytes(field), number)).collect();
    order.sort_unstable_by_key(|&(bytes, number)| (Reverse(bytes), number));
    let done: Vec<OnceLock<Result<ArrayRef, ExecError>>> = work.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let lane = || {
        while let Some(&(_, number)) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (field, piece) = work[number];
            assert!(done[number].set(piece.read(field)).is_ok(), "each is taken once");
        }
    };
    let bytes: u64 = order.iter().map(|(bytes, _)| bytes).sum();
    let lanes = threads.min(work.len()).min(usize::try_from(1 + bytes / BYTES_OF_THREAD).unwrap_or(usize::MAX));
    std::thread::scope(|scope| {
        (1..lanes).for_each(|_| drop(scope.spawn(lane)));
        lane();
    });
    let mut done = done.into_iter().map(|array| array.into_inner().expect("all were taken"));
    for (claim, pieces) in columns.iter().zip(&pieces) {
        for field in &claim.fields {
            let arrays: Result<Vec<ArrayRef>, ExecError> = match pieces {
                Ok(pieces) => done.by_ref().take(pieces.len()).collect::<Vec<_>>().into_iter().collect(),
                Err(_) => Ok(Vec::new()),
            };
            let column = match (pieces, arrays) {
                (Ok(_), Ok(arrays)) => joined(field, &arrays),
                // There may be memory another time.
                (Err(ExecError::Memory(_)), _) | (_, Err(ExecError::Memory(_))) => continue,
                (Err(_), _) | (_, Err(_)) => None,
            };
            claim.table.learn(field, column);
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
                let reader = open(file, &table.engine)?;
                let groups = reader.metadata().row_groups().iter().map(|group| group.num_rows() as u64);
                let selected = selection(groups, runs).into_iter();
                pieces.extend(selected.map(|(group, selectors)| Piece::RowGroup {
                    file,
                    reader: Arc::clone(&reader),
                    group,
                    selectors,
                }));
            }
            Rows::Blocks(scan) => pieces.push(Piece::Block { scan, run: runs[0] }),
        }
    }
    Ok(pieces)
}

/// A reader of `file`, which is open as long as somebody reads; its footer is kept.
fn open(file: &SampledFile, engine: &Engine) -> Result<Arc<RowReader>, ExecError> {
    let mut footer = file.footer.lock();
    let reader = RowReader::open(Arc::clone(engine.memory()), file.path.clone(), file.size, footer.clone())?;
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

/// The first rows of a block, of one column.
fn read_block(scan: &TableScan, run: Run, field: &FieldRef) -> Result<ArrayRef, ExecError> {
    let mut parts: Vec<RecordBatch> = Vec::new();
    let mut left = run.rows;
    for batch in
        scan.batches(run.part, std::slice::from_ref(field)).map_err(|error| ExecError::Foreign(error.into()))?
    {
        let batch = batch.map_err(|error| ExecError::Foreign(error.into()))?;
        let taken = batch.num_rows().min(left);
        parts.push(batch.slice(0, taken));
        left -= taken;
        if left == 0 {
            break;
        }
    }
    let parts: Vec<&dyn Array> = parts.iter().map(|part| part.column(0).as_ref()).collect();
    Ok(concat(&parts)?)
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
