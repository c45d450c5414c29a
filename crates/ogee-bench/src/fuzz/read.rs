//! Reading a file with the engine, and whether that went as it should.

use std::{
    any::Any,
    fs::File,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
};

use arrow_array::{Array, ArrayRef};
use arrow_schema::Schema;
use arrow_select::concat::concat;
use ogee_exec::{ExecContext, ExecError, ExecSettings, Source, SourceStep};
use ogee_memory::{BufferManager, MemoryConfig};
use ogee_scan::{ParquetFile, ParquetScanSpec, ParquetSource, ScanError};
use ogee_scheduler::{Cancellation, TaskContext};
use ogee_vector::{normalize_array, normalize_schema};
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};

use super::Failure;

/// The limit that files are read at. They have some kilobytes.
const LIMIT: usize = 64 << 20;

/// What the process may hold beyond that.
const ALLOWANCE: u64 = 64 << 20;

/// What became of a file.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It was read; if somebody else could read it, too, with the same rows.
    Rows,
    /// It is damaged. `gave_up`: a library panicked, and the engine said so.
    Refused { why: String, gave_up: bool },
    /// What must not happen did.
    Wrong(String),
}

/// Where panics happened since somebody asked, and whether a call of a library was under way that the engine watches.
static PANICS: Mutex<Vec<(String, bool)>> = Mutex::new(Vec::new());

/// From now on panics are noted and not printed.
pub(super) fn note_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map_or_else(String::new, ToString::to_string);
        PANICS.lock().push((place, ogee_scan::is_reading()));
    }));
}

/// `outcome`, unless the engine itself panicked.
fn without_panics(outcome: Outcome) -> Outcome {
    let panics = std::mem::take(&mut *PANICS.lock());
    match panics.into_iter().find(|(place, is_caught)| !is_caught || place.contains("crates/ogee")) {
        Some((place, _)) => Outcome::Wrong(format!("a panic at {place}; {outcome:?}")),
        None => outcome,
    }
}

/// Reads the file at `path`, which was made as `form`. `is_whole`: nothing was done to it. `judges` is told when Arrow's reader begins, which may hang or take what it likes.
pub(super) fn read(
    path: &Path,
    form: &str,
    is_whole: bool,
    judges: impl FnOnce() -> Result<(), Failure>,
) -> Result<Outcome, Failure> {
    PANICS.lock().clear();
    let listed = match catch_unwind(|| list(path)) {
        Ok(Ok(listed)) => listed,
        Ok(Err(error)) => return Ok(without_panics(refused(form, is_whole, &error))),
        Err(panic) => return Ok(Outcome::Wrong(format!("a panic that nobody caught: {}", message(&*panic)))),
    };
    if listed.schema().fields().is_empty() {
        return Ok(match is_whole {
            true => Outcome::Wrong("it has no columns".to_owned()),
            false => Outcome::Refused { why: "no columns".to_owned(), gave_up: false },
        });
    }
    let rows = listed.metadata().row_groups().iter().map(|group| group.num_rows()).fold(0i64, i64::wrapping_add);
    PANICS.lock().clear();
    let found = catch_unwind(AssertUnwindSafe(|| scan(path, listed.schema())));
    let found = match found {
        Ok(found) => found,
        Err(panic) => return Ok(Outcome::Wrong(format!("a panic that nobody caught: {}", message(&*panic)))),
    };
    check_memory()?;
    if let Outcome::Wrong(what) = without_panics(Outcome::Rows) {
        return Ok(Outcome::Wrong(format!("{what}; {:?}", found.map(|found| found.len()))));
    }
    let found = match found {
        Ok(found) => found,
        Err(error) => return Ok(refused(form, is_whole, &error)),
    };
    judges()?;
    let expected = judge(path);
    // Neither its panics nor its memory are the engine's.
    PANICS.lock().clear();
    forget_peak()?;
    Ok(match expected {
        // A footer that lies about its rows is believed: what pages have beyond them is not read.
        Some(expected) if found.len() != expected.len() && found.len() as i64 == rows => Outcome::Rows,
        Some(expected) if found.to_data() != expected.to_data() => {
            let row = (0..found.len().min(expected.len())).find(|&row| found.slice(row, 1) != expected.slice(row, 1));
            let lens = (found.len(), expected.len());
            Outcome::Wrong(format!("{} rows are not the {} of Arrow's reader, row {row:?} is another", lens.0, lens.1))
        }
        None if is_whole => Outcome::Wrong("Arrow's reader cannot read it".to_owned()),
        _ => Outcome::Rows,
    })
}

/// What the engine makes of a file that it says `error` of.
fn refused(form: &str, is_whole: bool, error: &ExecError) -> Outcome {
    let (code, why) = (error.code(), error.to_string());
    if is_whole {
        return Outcome::Wrong(format!("{form} is refused: {why}"));
    }
    match code.starts_with("OGEE_R") || code.starts_with("OGEE_M") {
        true => Outcome::Refused { gave_up: why.contains("the reader gave up"), why },
        false => Outcome::Wrong(format!("an error of another kind: [{code}] {why}")),
    }
}

/// The metadata of the file at `path`, as tables are listed: the types are those that the file says.
fn list(path: &Path) -> Result<ArrowReaderMetadata, ExecError> {
    let memory = BufferManager::new(MemoryConfig { limit: LIMIT, ..MemoryConfig::default() })?;
    let metadata = ogee_scan::read_footer(&memory, path, 0)?;
    let listed = ogee_scan::caught(|| ArrowReaderMetadata::try_new(metadata, ArrowReaderOptions::new()));
    listed.map_err(|error| ScanError::Parquet { path: path.to_owned(), message: error.to_string() }.into())
}

fn message(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<&str>().map(|said| (*said).to_owned());
    said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// The column that Arrow's reader finds, in normalized type; `None` if it finds something wrong, or panics.
fn judge(path: &Path) -> Option<ArrayRef> {
    let read = || -> Option<ArrayRef> {
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).ok()?).ok()?.build().ok()?;
        let mut parts = Vec::new();
        for batch in reader {
            parts.push(normalize_array(batch.ok()?.columns().first()?).ok()?);
        }
        joined(&parts)
    };
    catch_unwind(AssertUnwindSafe(read)).ok().flatten()
}

fn joined(parts: &[ArrayRef]) -> Option<ArrayRef> {
    concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>()).ok()
}

/// The column that the engine finds, with one lane.
fn scan(path: &Path, schema: &Schema) -> Result<ArrayRef, ExecError> {
    let config = MemoryConfig { limit: LIMIT, ..MemoryConfig::default() };
    let ctx = ExecContext::new(BufferManager::new(config)?, ExecSettings { threads: 1, ..ExecSettings::default() });
    let file =
        ParquetFile { path: path.to_owned(), size: 0, rows: None, row_groups: None, partition_values: Vec::new() };
    let schema = normalize_schema(schema);
    let spec = ParquetScanSpec {
        files: vec![file],
        file_schema: Arc::clone(&schema),
        projection: vec![0],
        schema: Arc::new(schema.project(&[0])?),
        domains: Vec::new(),
        pruner: None,
        limit: None,
    };
    let source = ParquetSource::new(&ctx, spec);
    let cancelled = Cancellation::new(false);
    let task = TaskContext { worker: 0, cancelled: &cancelled };
    let mut local = source.local(&ctx, 0)?;
    let mut parts = Vec::new();
    loop {
        match local.next(&task)? {
            SourceStep::Chunk(chunk) => parts.push(chunk.column(0).flatten()?),
            SourceStep::MorselEnd | SourceStep::Blocked => {}
            SourceStep::Exhausted => break,
        }
    }
    let data_type = source.schema().field(0).data_type().clone();
    Ok(joined(&parts).unwrap_or_else(|| arrow_array::new_empty_array(&data_type)))
}

/// An error if the process held more than it may.
fn check_memory() -> Result<(), Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    match peak.unwrap_or(0) * 1024 {
        peak if peak > LIMIT as u64 + ALLOWANCE => Err(format!("the process held {} MiB", peak >> 20).into()),
        _ => Ok(()),
    }
}

/// From now on the peak is that of what comes.
fn forget_peak() -> Result<(), Failure> {
    Ok(std::fs::write("/proc/self/clear_refs", "5")?)
}
