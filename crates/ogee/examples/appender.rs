//! Rows appended to a table, without SQL for each.

use std::sync::Arc;

use ogee::{
    Config, Database, Result,
    arrow::array::{Float64Array, Int32Array, RecordBatch},
    params,
};

/// Runs the example.
pub fn main() -> Result<()> {
    let connection = Database::open_in_memory(Config::default())?.connect();
    connection
        .execute("CREATE TABLE samples (id INTEGER PRIMARY KEY, value DOUBLE NOT NULL, unit VARCHAR DEFAULT 'm')")?;

    // Row by row.
    let mut appender = connection.appender("samples")?;
    for id in 0..10_000 {
        appender.append_row(params![id, f64::from(id) / 2.0, "km"])?;
    }
    let error = appender.append_row(params!["ten", 1.0, "km"]).expect_err("no number");
    assert_eq!(error.message(), "row 10001 for table 'samples': column 'id': 'ten' of type VARCHAR is no INTEGER");
    assert_eq!(appender.finish()?, 10_000);

    // Batch by batch, some of the columns; the others get their defaults.
    let mut appender = connection.appender_of("samples", &["value", "id"])?;
    let values = Float64Array::from_iter_values((0..100).map(f64::from));
    let ids = Int32Array::from_iter_values(20_000..20_100);
    let batch = RecordBatch::try_from_iter([("v", Arc::new(values) as _), ("i", Arc::new(ids) as _)]);
    appender.append_batch(&batch.expect("two columns"))?;
    assert_eq!(appender.flush()?, 100);

    // All rows of a flush are in the table, or none.
    appender.append_row(params![1.0, 30_000])?;
    appender.append_row(params![1.0, 0])?;
    let error = appender.flush().expect_err("the key is taken");
    assert!(error.message().contains("id"), "{error}");
    drop(appender);
    let counted = connection.execute("SELECT 1 FROM samples GROUP BY ALL HAVING count(*) = 10100")?;
    assert_eq!(counted.map(|batch| batch.map_or(0, |batch| batch.num_rows())).sum::<usize>(), 1);
    Ok(())
}
