//! What the tests share: handles, small files, answers as text.

use std::{fs::File, path::Path, sync::Arc};

use datafusion::{
    arrow::{
        array::{ArrayRef, RecordBatch},
        util::display::{ArrayFormatter, FormatOptions},
    },
    parquet::{arrow::ArrowWriter, file::metadata::SortingColumn, file::properties::WriterProperties},
};
use ogee::{Config, Connection, Database, Error};

/// A connection to a database of its own, with two threads.
pub fn connect() -> Connection {
    open(Config::default().threads(2)).connect()
}

/// A handle.
pub fn open(config: Config) -> Database {
    Database::open_in_memory(config).unwrap()
}

/// Settings that no answer depends on: one thread and many, all state spilled, little memory.
pub fn hostile() -> Vec<Config> {
    let with = |threads| Config::default().threads(threads);
    vec![
        with(1),
        with(8).chunk_capacity(7),
        with(2).spill_always(true),
        with(2).memory_limit(64 << 20).counts_process(false),
    ]
}

/// The code and the message of the error of a statement, wherever it comes.
pub fn error_of(result: Result<ogee::QueryResult, Error>) -> (&'static str, String) {
    let error = match result {
        Ok(rows) => rows.into_iter().find_map(Result::err).expect("an error"),
        Err(error) => error,
    };
    (error.code(), error.message().to_owned())
}

/// The rows of a statement as text, in the order in which they came.
pub fn query(connection: &Connection, sql: &str) -> Vec<String> {
    try_query(connection, sql).unwrap_or_else(|error| panic!("{sql}: [{}] {error}", error.code()))
}

/// The rows of a statement as text, sorted.
pub fn query_sorted(connection: &Connection, sql: &str) -> Vec<String> {
    let mut rows = query(connection, sql);
    rows.sort();
    rows
}

/// The rows of a statement as text, or its error.
pub fn try_query(connection: &Connection, sql: &str) -> Result<Vec<String>, Error> {
    let mut rows = Vec::new();
    for batch in connection.execute(sql)? {
        rows.extend(batch_rows(&batch?));
    }
    Ok(rows)
}

/// The rows of a batch as text, columns separated by bars.
pub fn batch_rows(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<_> =
        batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap()).collect();
    (0..batch.num_rows())
        .map(|row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|"))
        .collect()
}

/// The physical plan of a query as `EXPLAIN` prints it.
pub fn explain(connection: &Connection, sql: &str) -> String {
    query(connection, &format!("EXPLAIN {sql}")).join("\n")
}

/// A batch of named columns.
pub fn batch<const N: usize>(columns: [(&str, ArrayRef); N]) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Writes a Parquet file of row groups of `rows` rows; `sorted_by` is declared in it as the ascending order of the file.
pub fn write_parquet(path: &Path, batch: &RecordBatch, rows: usize, sorted_by: Option<i32>) {
    let sorting = sorted_by.map(|column_idx| vec![SortingColumn { column_idx, descending: false, nulls_first: false }]);
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(rows))
        .set_data_page_row_count_limit(rows.div_ceil(4))
        .set_write_batch_size(rows.div_ceil(8).max(1))
        .set_sorting_columns(sorting)
        .build();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

/// A column.
pub fn column<T: datafusion::arrow::array::Array + 'static>(array: T) -> ArrayRef {
    Arc::new(array)
}
