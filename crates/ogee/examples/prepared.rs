//! Statements that are parsed once and run with many values.

use ogee::{Config, Database, Date, Result, arrow::array::AsArray, arrow::datatypes::Int64Type, named_params, params};

/// Runs the example.
pub fn main() -> Result<()> {
    let connection = Database::open_in_memory(Config::default())?.connect();
    connection
        .execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer VARCHAR, day DATE, price DECIMAL(10, 2))")?;

    // Values are of any type that SQL has; None is NULL.
    let insert = connection.prepare("INSERT INTO orders VALUES (?, ?, ?, ?)")?;
    assert_eq!(insert.parameter_count(), 4);
    for id in 1..=10 {
        let customer = (id % 2 == 0).then(|| format!("customer {}", id % 3));
        insert.execute(params![id, customer, Date::from_ymd(2024, 2, id as u32), 9.99 * f64::from(id)])?;
    }

    // Parameters have numbers, or names.
    let count =
        connection.prepare("SELECT count(*) FROM orders WHERE day >= $from AND customer IS NOT DISTINCT FROM $name")?;
    assert_eq!(count.parameters(), ["$from", "$name"]);
    for (from, name, expected) in [(3, None, 4), (3, Some("customer 1"), 2), (9, Some("customer 0"), 0)] {
        let rows = count.execute(named_params! { "name": name, "from": Date::from_ymd(2024, 2, from) })?;
        let batch = rows.into_iter().next().expect("a row")?;
        assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(0), expected, "{name:?}");
    }

    // A statement that is run once needs no name.
    let changed = connection.execute_with("UPDATE orders SET price = price * $1 WHERE id <= $2", params![2, 5])?;
    assert_eq!(changed.affected_rows(), Some(5));

    // What is wrong is said before anything runs.
    let error = insert.execute(params![1, "x"]).err().expect("two values are missing");
    assert_eq!(error.message(), "the statement has 4 parameters, and 2 values were given");
    Ok(())
}
