//! Decodes columns of Parquet files on a number of threads and prints the seconds, and what memory was
//! reserved and used: what a scan costs without operators.
//!
//! `cargo run --release -p ogee-scan --example decode -- FILE[,FILE...] THREADS [COLUMN,...] [MEMORY_LIMIT_MIB]`

use std::{
    error::Error,
    fs::File,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use arrow_schema::Schema;
use ogee_exec::{ExecContext, ExecSettings, Source, SourceStep};
use ogee_memory::{BufferManager, CountingAllocator, MemoryConfig, format_bytes};
use ogee_scan::{ParquetFile, ParquetScanSpec, ParquetSource};
use ogee_scheduler::{Cancellation, TaskContext};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

#[global_allocator]
static ALLOCATOR: CountingAllocator<mimalloc::MiMalloc> = CountingAllocator::new(mimalloc::MiMalloc);

/// The most that readers had reserved, seen at their chunks.
static RESERVED_PEAK: AtomicUsize = AtomicUsize::new(0);

/// Runs whose times are printed.
const RUNS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: decode FILE[,FILE...] THREADS [COLUMN,...] [MEMORY_LIMIT_MIB]";
    let paths: Vec<PathBuf> = args.next().ok_or(usage)?.split(',').map(PathBuf::from).collect();
    let threads: usize = args.next().ok_or(usage)?.parse()?;
    let columns = args.next().filter(|columns| columns != "*");
    let limit = args.next().map(|mib| mib.parse::<usize>()).transpose()?;

    let first = ParquetRecordBatchReaderBuilder::try_new(File::open(&paths[0])?)?;
    let file_schema = ogee_vector::normalize_schema(first.schema());
    let projection: Vec<usize> = match &columns {
        None => (0..file_schema.fields().len()).collect(),
        Some(names) if names == "-" => Vec::new(),
        Some(names) => names.split(',').map(|name| file_schema.index_of(name)).collect::<Result<_, _>>()?,
    };
    let schema =
        Arc::new(Schema::new(projection.iter().map(|&column| file_schema.field(column).clone()).collect::<Vec<_>>()));
    let mut config = MemoryConfig::default();
    if let Some(mib) = limit {
        config.limit = mib << 20;
    }
    let memory = BufferManager::new(config)?;
    let ctx = ExecContext::new(memory, ExecSettings { threads, ..ExecSettings::default() });
    let files: Vec<ParquetFile> = paths
        .into_iter()
        .map(|path| {
            let size = path.metadata()?.len();
            Ok(ParquetFile { path, size, rows: None, row_groups: None, partition_values: Vec::new() })
        })
        .collect::<Result<_, std::io::Error>>()?;
    for _ in 0..RUNS {
        let spec = ParquetScanSpec {
            files: files.clone(),
            file_schema: Arc::clone(&file_schema),
            projection: projection.clone(),
            schema: Arc::clone(&schema),
            domains: Vec::new(),
            pruner: None,
            limit: None,
        };
        let source = ParquetSource::new(&ctx, spec);
        let start = Instant::now();
        let rows: Vec<usize> = std::thread::scope(|scope| {
            let lanes: Vec<_> = (0..threads)
                .map(|lane| {
                    scope.spawn({
                        let (source, ctx) = (&source, &ctx);
                        move || drain(&**source, ctx, lane)
                    })
                })
                .collect();
            lanes.into_iter().map(|lane| lane.join().expect("a lane does not panic")).collect()
        });
        let account = ogee_memory::process_account();
        println!(
            "{:.3} s, {} rows, per lane {rows:?}; reserved at most {}, on the heap at most {}, resident now {}",
            start.elapsed().as_secs_f64(),
            rows.iter().sum::<usize>(),
            format_bytes(RESERVED_PEAK.swap(0, Ordering::Relaxed)),
            format_bytes(account.allocator_peak_bytes()),
            format_bytes(account.anonymous_bytes()),
        );
        account.reset_peaks();
    }
    Ok(())
}

/// Rows that one lane found.
fn drain(source: &dyn Source, ctx: &ExecContext, lane: usize) -> usize {
    let cancelled = Cancellation::new(false);
    let task = TaskContext { worker: lane, cancelled: &cancelled };
    let mut local = source.local(ctx, lane).expect("a lane needs nothing to begin");
    let mut rows = 0;
    loop {
        match local.next(&task).expect("the files are readable") {
            SourceStep::Chunk(chunk) => {
                rows += chunk.len();
                let reserved = ogee_memory::process_account().reserved_bytes();
                RESERVED_PEAK.fetch_max(reserved, Ordering::Relaxed);
            }
            SourceStep::MorselEnd => ctx.memory.revise(),
            SourceStep::Blocked => std::thread::yield_now(),
            SourceStep::Exhausted => return rows,
        }
    }
}
