//! Tables as Parquet: a directory per table, as many files as asked, Snappy, row groups and pages of a stated size.
//!
//! Not here: the rows of benchmarks that have no generator of their own (`h2o`, `sums`).

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use clap::Args;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow,
};

/// Flags of `generate tpch`.
#[derive(Args)]
pub struct Arguments {
    /// Scale factor; lineitem has 6 million rows at 1
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Directory to write to
    #[arg(long)]
    out: PathBuf,
    /// Tables to write
    #[arg(long, value_delimiter = ',', default_value = "lineitem")]
    tables: Vec<String>,
    #[command(flatten)]
    files: Files,
}

/// How a table is cut into files.
#[derive(Args, Clone, Copy)]
pub struct Files {
    /// Files per large table
    #[arg(long, default_value_t = 4)]
    files: i32,
    /// Rows of a row group
    #[arg(long, default_value_t = 524_288)]
    row_group_rows: usize,
    /// Bytes of a data page, at most
    #[arg(long, default_value_t = 1 << 20)]
    page_bytes: usize,
}

/// Every table of TPC-H.
const TABLES: [&str; 8] = ["lineitem", "orders", "partsupp", "part", "customer", "supplier", "nation", "region"];

/// Rows of one file.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

/// Rows of a batch of tables that have no generator of their own.
const BATCH_ROWS: u64 = 65_536;

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

/// Schema and rows of one part of a table.
fn part(table: &str, scale: f64, number: i32, count: i32) -> (SchemaRef, Batches) {
    macro_rules! of {
        ($arrow:ident, $generator:ident) => {
            ($arrow::schema_ref(), Box::new($arrow::new($generator::new(scale, number, count))) as Batches)
        };
    }
    match table {
        "lineitem" => of!(LineItemArrow, LineItemGenerator),
        "orders" => of!(OrderArrow, OrderGenerator),
        "partsupp" => of!(PartSuppArrow, PartSuppGenerator),
        "part" => of!(PartArrow, PartGenerator),
        "customer" => of!(CustomerArrow, CustomerGenerator),
        "supplier" => of!(SupplierArrow, SupplierGenerator),
        "nation" => of!(NationArrow, NationGenerator),
        _ => of!(RegionArrow, RegionGenerator),
    }
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

    /// Writes the files of `table` below `out`, one per core at a time. `part` gives schema and rows of a file, from its number (of the first, 1)
    /// and the number of files.
    pub fn write_table(
        &self,
        out: &Path,
        table: &str,
        part: impl Fn(i32, i32) -> (SchemaRef, Batches) + Sync,
    ) -> io::Result<()> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let directory = out.join(table);
        std::fs::create_dir_all(&directory)?;
        let count = self.files.max(1);
        let next = AtomicI32::new(1);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..cores)
                .map(|_| {
                    scope.spawn(|| {
                        loop {
                            let number = next.fetch_add(1, Ordering::Relaxed);
                            if number > count {
                                return Ok(());
                            }
                            let (schema, batches) = part(number, count);
                            self.write(&directory.join(format!("{table}-{number}.parquet")), schema, batches)?;
                        }
                    })
                })
                .collect();
            workers.into_iter().try_for_each(|worker| match worker.join() {
                Ok(result) => result,
                Err(_) => Err(io::Error::other("the generator failed")),
            })
        })?;
        println!("{table}: {count} files in {}", directory.display());
        Ok(())
    }
}

/// Writes the tables of TPC-H.
pub fn generate(arguments: &Arguments) -> io::Result<()> {
    for table in &arguments.tables {
        if !TABLES.contains(&table.as_str()) {
            return Err(io::Error::other(format!("no table {table:?} in TPC-H; there are {}", TABLES.join(", "))));
        }
        let files = Files {
            files: if matches!(table.as_str(), "nation" | "region") { 1 } else { arguments.files.files },
            ..arguments.files
        };
        files.write_table(&arguments.out, table, |number, count| part(table, arguments.scale, number, count))?;
    }
    Ok(())
}
