//! Functions of the program that statements call.

use std::sync::Arc;

use ogee::{
    AggregateFunction, AggregateState, Config, Connection, Database, Result, ScalarFunction, ScalarValue, UserError,
    arrow::{
        array::{ArrayRef, AsArray, StringArray},
        datatypes::{DataType, Float64Type},
        util::pretty::pretty_format_batches,
    },
    binary, unary,
};

/// Sums and counts, for a mean of another kind.
#[derive(Default)]
struct Harmonic {
    count: f64,
    sum: f64,
}

impl AggregateState for Harmonic {
    fn update(&mut self, arguments: &[ArrayRef]) -> Result<(), UserError> {
        for value in arguments[0].as_primitive::<Float64Type>().iter().flatten() {
            if value == 0.0 {
                return Err("there is no harmonic mean of zero".into());
            }
            self.count += 1.0;
            self.sum += 1.0 / value;
        }
        Ok(())
    }

    fn state(&self) -> Result<Vec<ScalarValue>, UserError> {
        Ok(vec![self.count.into(), self.sum.into()])
    }

    fn merge(&mut self, states: &[ArrayRef]) -> Result<(), UserError> {
        self.count += states[0].as_primitive::<Float64Type>().iter().flatten().sum::<f64>();
        self.sum += states[1].as_primitive::<Float64Type>().iter().flatten().sum::<f64>();
        Ok(())
    }

    fn finish(&self) -> Result<ScalarValue, UserError> {
        Ok(ScalarValue::Float64((self.count > 0.0).then(|| self.count / self.sum)))
    }
}

/// The rows of a statement, as text.
fn shown(connection: &Connection, sql: &str) -> Result<Vec<String>> {
    let batches = connection.execute(sql)?.collect::<Result<Vec<_>>>()?;
    let table = pretty_format_batches(&batches).expect("types that can be shown").to_string();
    // Without the frame and the names of the columns.
    let rows = table.lines().skip(3).filter(|line| line.starts_with('|'));
    Ok(rows.map(|row| row.trim_matches('|').split_whitespace().collect::<Vec<_>>().join(" ")).collect())
}

/// Runs the example.
pub fn main() -> Result<()> {
    let connection = Database::open_in_memory(Config::default())?.connect();

    // Over values. NULL gives NULL, without asking.
    connection.create_scalar_function(unary::<i64, i64>("twice", |x| 2 * x))?;
    connection.create_scalar_function(binary::<str, i64, Option<String>>("nth_word", |text, n| {
        text.split_whitespace().nth(usize::try_from(n).ok()?).map(str::to_owned)
    }))?;
    assert_eq!(
        shown(&connection, "SELECT twice(21), twice(NULL) IS NULL, nth_word('to be or not', 3)")?,
        ["42 | true | not"]
    );

    // Over columns, NULLs among them.
    let describe = |columns: &[ArrayRef]| -> Result<ArrayRef, UserError> {
        let texts = columns[0].as_string::<i32>().iter();
        Ok(Arc::new(texts.map(|text| Some(text.unwrap_or("nothing"))).collect::<StringArray>()))
    };
    let describe = ScalarFunction::new("described", [DataType::Utf8], DataType::Utf8, describe).sees_nulls();
    connection.create_scalar_function(describe)?;
    assert_eq!(shown(&connection, "SELECT described(x) FROM (VALUES ('one'), (NULL)) t(x)")?, ["one", "nothing"]);

    // Aggregates, wherever those of SQL may stand.
    let state = [DataType::Float64, DataType::Float64];
    connection.create_aggregate_function(AggregateFunction::new(
        "harmonic",
        [DataType::Float64],
        DataType::Float64,
        state,
        Harmonic::default,
    ))?;
    connection
        .execute("CREATE TABLE t AS SELECT value % 2 AS k, (value % 3 + 1)::DOUBLE AS x FROM range(1, 13) r(value)")?;
    let sql = "SELECT k, round(harmonic(x), 3), round(harmonic(DISTINCT x), 3), harmonic(x) FILTER (WHERE x = 2) FROM t GROUP BY k ORDER BY k";
    assert_eq!(shown(&connection, sql)?, ["0 | 1.636 | 1.636 | 2.0", "1 | 1.636 | 1.636 | 2.0"]);
    let error = shown(&connection, "SELECT harmonic(x - 1) FROM t").expect_err("of zero");
    assert_eq!(error.message(), "function 'harmonic': there is no harmonic mean of zero");

    connection.drop_function("twice")?;
    assert!(connection.execute("SELECT twice(1)").is_err());
    Ok(())
}
