//! Tables as Parquet: a directory per table, as many files as asked, Snappy, row groups and pages of a stated size.
//!
//! Not here: the rows (`tpch`, `tpcds`, `ssb`, `job`, `h2o`, `sums`).

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use clap::Args;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

/// How a table is cut into files.
#[derive(Args, Clone, Copy)]
pub struct Files {
    /// Files per large table
    #[arg(long, default_value_t = 4)]
    pub files: i32,
    /// Rows of a row group
    #[arg(long, default_value_t = 524_288)]
    row_group_rows: usize,
    /// Bytes of a data page, at most
    #[arg(long, default_value_t = 1 << 20)]
    page_bytes: usize,
}

/// Which tables of a scalable benchmark are written, and where to.
#[derive(Args)]
pub struct Selection {
    /// Directory to write to
    #[arg(long)]
    pub out: PathBuf,
    /// Tables to write (default: all)
    #[arg(long, value_delimiter = ',')]
    pub tables: Vec<String>,
    #[command(flatten)]
    pub files: Files,
}

impl Selection {
    /// Those of `all` that were asked for, each with its number of files: one for tables that `small` names.
    pub fn pick(&self, all: &[&'static str], small: &[&str]) -> io::Result<Vec<(&'static str, i32)>> {
        if let Some(unknown) = self.tables.iter().find(|table| !all.contains(&table.as_str())) {
            return Err(io::Error::other(format!("no table {unknown:?}; there are {}", all.join(", "))));
        }
        let wanted = |table: &&&str| self.tables.is_empty() || self.tables.iter().any(|name| name == **table);
        let files = |table: &'static str| (table, if small.contains(&table) { 1 } else { self.files.files.max(1) });
        Ok(all.iter().filter(wanted).map(|table| files(table)).collect())
    }
}

/// Rows of one file.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

/// Rows of a batch of tables that have no generator of their own.
pub const BATCH_ROWS: u64 = 65_536;

/// The part of `rows` rows that is in file `number`, from 1, of `count`.
pub fn share(rows: u64, number: i32, count: i32) -> Range<u64> {
    let (number, count) = (number as u64, count as u64);
    rows * (number - 1) / count..rows * number / count
}

/// So many rows in batches; `make` makes the next so many.
pub fn in_batches(rows: u64, mut make: impl FnMut(u64) -> Result<RecordBatch, ArrowError> + 'static) -> Batches {
    let mut left = rows;
    Box::new(std::iter::from_fn(move || {
        let next = left.min(BATCH_ROWS);
        left -= next;
        (next > 0).then(|| make(next))
    }))
}

impl Files {
    fn write(&self, path: &Path, schema: SchemaRef, batches: Batches) -> io::Result<()> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_max_row_group_row_count(Some(self.row_group_rows))
            .set_data_page_size_limit(self.page_bytes)
            .build();
        let partial = path.with_extension("part");
        let mut writer = ArrowWriter::try_new(File::create(&partial)?, schema, Some(properties))?;
        for batch in batches {
            writer.write(&batch.map_err(io::Error::other)?)?;
        }
        writer.close()?;
        std::fs::rename(partial, path)
    }

    /// Writes `tables`, each with its number of files, below `out`, a file per core at a time. `part` gives schema and rows of a file, from its table, its number
    /// (of the first, 1) and the number of files.
    pub fn write_tables<'a>(
        &self,
        out: &Path,
        tables: &[(&'a str, i32)],
        part: impl Fn(&'a str, i32, i32) -> io::Result<(SchemaRef, Batches)> + Sync,
    ) -> io::Result<()> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        for (table, _) in tables {
            std::fs::create_dir_all(out.join(table))?;
        }
        let all: Vec<_> =
            tables.iter().flat_map(|(table, count)| (1..=*count).map(move |number| (*table, number, *count))).collect();
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..cores)
                .map(|_| {
                    scope.spawn(|| {
                        while let Some((table, number, count)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                            let (schema, batches) = part(table, *number, *count)?;
                            self.write(&out.join(table).join(format!("{table}-{number}.parquet")), schema, batches)?;
                        }
                        Ok(())
                    })
                })
                .collect();
            workers.into_iter().try_for_each(|worker| match worker.join() {
                Ok(result) => result,
                Err(_) => Err(io::Error::other("the generator failed")),
            })
        })?;
        for (table, count) in tables {
            println!("{table}: {count} files in {}", out.join(table).display());
        }
        Ok(())
    }

    /// Writes one table.
    pub fn write_table(
        &self,
        out: &Path,
        table: &str,
        part: impl Fn(i32, i32) -> (SchemaRef, Batches) + Sync,
    ) -> io::Result<()> {
        self.write_tables(out, &[(table, self.files.max(1))], |_, number, count| Ok(part(number, count)))
    }
}
