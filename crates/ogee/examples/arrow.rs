//! Arrow rows of the program as tables, without a copy.

use std::sync::Arc;

use ogee::{
    ArrowData, Config, Database, Result,
    arrow::{
        array::{AsArray, Int64Array, RecordBatch, RecordBatchIterator, StringArray},
        datatypes::{DataType, Field, Int64Type, Schema},
    },
};

/// Runs the example.
pub fn main() -> Result<()> {
    let connection = Database::open_in_memory(Config::default())?.connect();
    let schema =
        Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("Name", DataType::Utf8, true)]));
    let columns = schema.clone();
    let batch = move |first: i64| {
        let ids = Int64Array::from_iter_values(first..first + 1000);
        let names: StringArray =
            (first..first + 1000).map(|id| (id % 7 != 0).then(|| format!("name {}", id % 10))).collect();
        RecordBatch::try_new(columns.clone(), vec![Arc::new(ids), Arc::new(names)])
    };

    // Batches can be read as often as one likes, by all threads.
    let batches = (0..4).map(|number| batch(number * 1000)).collect::<Result<Vec<_>, _>>().expect("of one schema");
    connection.register("people", ArrowData::batches(schema.clone(), batches))?;
    for sql in [
        "SELECT count(*) FROM people a JOIN people b USING (id)",
        "SELECT count(*) FROM PEOPLE",
        "SELECT count(\"name\") + count(*) FILTER (WHERE name IS NULL) FROM people",
    ] {
        let rows = connection.execute(sql)?.next().expect("a row")?;
        assert_eq!(rows.column(0).as_primitive::<Int64Type>().value(0), 4000, "{sql}");
    }

    // A reader gives its rows once, as they are wanted.
    let reader = RecordBatchIterator::new((0..4).map(move |number| batch(number * 1000)), schema);
    connection.register("feed", ArrowData::reader(reader))?;
    let made = connection.execute("CREATE TABLE kept AS SELECT * FROM feed WHERE id % 2 = 0")?;
    assert_eq!(made.affected_rows(), Some(2000));
    let error = connection.execute("SELECT * FROM feed")?.next().expect("an answer").expect_err("it was read");
    assert!(error.message().starts_with("the rows of 'feed' have been read"), "{error}");

    connection.unregister("people")?;
    assert!(connection.execute("SELECT * FROM people").is_err());
    Ok(())
}
