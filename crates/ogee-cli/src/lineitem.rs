//! TPC-H lineitem as Parquet, for the demonstration: a file per core, Snappy, row groups of 262,144 rows.
//!
//! Not here: the other tables, which only the benchmarks need.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use tpchgen::generators::LineItemGenerator;
use tpchgen_arrow::LineItemArrow;

/// About 16 MB a row group: enough of them for every core, small enough for every limit.
const ROW_GROUP_ROWS: usize = 262_144;

/// Writes `lineitem-*.parquet` into `directory`, and on `progress` the number of rows written so far, one a line.
pub fn generate(scale: f64, directory: &Path, progress: &mut dyn Write) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let files = thread::available_parallelism().map_or(1, |cores| cores.get().min(16)) as i32;
    let rows = AtomicU64::new(0);
    thread::scope(|scope| {
        let rows = &rows;
        let writers: Vec<_> =
            (1..=files).map(|number| scope.spawn(move || write_part(scale, number, files, directory, rows))).collect();
        let mut reported = 0;
        while writers.iter().any(|writer| !writer.is_finished()) {
            thread::sleep(std::time::Duration::from_millis(100));
            let now = rows.load(Ordering::Relaxed);
            if now != reported {
                reported = now;
                writeln!(progress, "{now}")?;
                progress.flush()?;
            }
        }
        writers.into_iter().try_for_each(|writer| match writer.join() {
            Ok(result) => result,
            Err(_) => Err(io::Error::other("the generator failed")),
        })
    })?;
    // Only now under names that a query picks up: an interrupted run leaves no half of the data behind as all of it.
    (1..=files).try_for_each(|number| {
        std::fs::rename(partial(directory, number), directory.join(format!("lineitem-{number}.parquet")))
    })
}

fn partial(directory: &Path, number: i32) -> PathBuf {
    directory.join(format!("lineitem-{number}.part"))
}

fn write_part(scale: f64, number: i32, count: i32, directory: &Path, rows: &AtomicU64) -> io::Result<()> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .build();
    let file = File::create(partial(directory, number))?;
    let mut writer = ArrowWriter::try_new(file, LineItemArrow::schema_ref(), Some(properties))?;
    for batch in LineItemArrow::new(LineItemGenerator::new(scale, number, count)) {
        let batch = batch.map_err(io::Error::other)?;
        writer.write(&batch)?;
        rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
    }
    writer.close()?;
    Ok(())
}
