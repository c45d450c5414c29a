//! Rows appended to a table, without SQL for each.
//!
//! Rows wait in columns until there are some thousand, then in pages of the pool, which spill. An `INSERT` takes them all from there: what the table asks of its rows is asked of these as of
//! any others, and they are in the table wholly or not at all.
//!
//! Not here: the pages (`ogee_datafusion`).

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, RecordBatch, RecordBatchOptions},
        compute::{CastOptions, cast_with_options},
        datatypes::{DataType, FieldRef, Schema, SchemaRef},
        error::ArrowError,
    },
    common::ScalarValue,
};
use ogee_datafusion::{Error as StatementError, Staging, sql_name};

use crate::{Connection, Params, Result, Values, connection::Request};

/// Rows that wait in columns, at most, and bytes of what is long in them.
const ROWS: usize = 2048;
const BYTES: usize = 1 << 20;

/// Appends rows to a table. See [`Connection::appender`].
///
/// Rows are in the table when [`flush`](Self::flush) or [`finish`](Self::finish) has returned, all of those since the last flush or none. Until then nobody sees them; they take pages of the pool, which spill. Dropping an
/// appender flushes it, and loses the error if there is one: [`finish`](Self::finish) tells it.
pub struct Appender<'connection> {
    connection: &'connection Connection,
    table: String,
    names: Option<Vec<String>>,
    staging: Option<Staging>,
    columns: Vec<FieldRef>,
    schema: SchemaRef,
    values: Vec<Vec<ScalarValue>>,
    /// Bytes of long ones among them.
    bytes: usize,
    /// Rows since the last flush.
    rows: u64,
}

impl Connection {
    /// An appender to `table`, which was made by `CREATE TABLE` and whose name is written as in SQL. Rows have values for all columns, but for those that are computed.
    ///
    /// ```
    /// # use ogee::{Config, Database, params};
    /// # let connection = Database::open_in_memory(Config::default())?.connect();
    /// connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR)")?;
    /// let mut appender = connection.appender("t")?;
    /// for id in 0..1000 {
    ///     appender.append_row(params![id, format!("row {id}")])?;
    /// }
    /// assert_eq!(appender.finish()?, 1000);
    /// # Ok::<(), ogee::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is no such table, or it was not made by `CREATE TABLE`.
    pub fn appender(&self, table: &str) -> Result<Appender<'_>> {
        Appender::new(self, table, None)
    }

    /// The same with values for these columns; the others get what an `INSERT` gives them.
    ///
    /// # Errors
    /// There is no such table or column, or the table was not made by `CREATE TABLE`.
    pub fn appender_of(&self, table: &str, columns: &[&str]) -> Result<Appender<'_>> {
        Appender::new(self, table, Some(columns.iter().map(|&name| name.to_owned()).collect()))
    }
}

impl<'connection> Appender<'connection> {
    fn new(connection: &'connection Connection, table: &str, names: Option<Vec<String>>) -> Result<Self> {
        let mut appender = Self {
            connection,
            table: table.to_owned(),
            names,
            staging: None,
            columns: Vec::new(),
            schema: Arc::new(Schema::empty()),
            values: Vec::new(),
            bytes: 0,
            rows: 0,
        };
        appender.begin()?;
        Ok(appender)
    }

    /// The columns that rows have values for, with their types.
    pub fn columns(&self) -> &[FieldRef] {
        &self.columns
    }

    /// Rows since the last flush.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Appends a row: a value for each column. Numbers become other numbers, and texts what they spell, where nothing is lost; a row with a value that does not fit is not appended.
    ///
    /// # Errors
    /// There are more or fewer values than columns; one does not fit, which names its column and the row, counted from 1 since the last flush; there is no room for more rows, and those since the last flush are forgotten.
    pub fn append_row(&mut self, values: impl Params) -> Result<()> {
        self.staging()?;
        let values = match values.to_values()? {
            Values::Listed(values) => values,
            Values::Named(named) => self.in_order(named)?,
        };
        if values.len() != self.columns.len() {
            let (given, expected) = (values.len(), self.columns.len());
            return Err(self.wrong(format!("it has {given} values, and there are {expected} columns")));
        }
        let fitted = values.into_iter().zip(&self.columns).map(|(value, column)| {
            fitted(value, column.data_type()).map_err(|why| self.wrong(format!("column '{}': {why}", column.name())))
        });
        let fitted = fitted.collect::<Result<Vec<_>>>()?;
        for (column, value) in self.values.iter_mut().zip(fitted) {
            self.bytes += long_bytes(&value);
            column.push(value);
        }
        self.rows += 1;
        if self.values[0].len() >= ROWS || self.bytes >= BYTES { self.hand_on() } else { Ok(()) }
    }

    /// Appends the rows of `batch`, whose columns are in the order of [`columns`](Self::columns), whatever they are called. The types may be others, as in [`append_row`](Self::append_row).
    ///
    /// # Errors
    /// Those of [`append_row`](Self::append_row); none of the batch's rows is then appended.
    pub fn append_batch(&mut self, batch: &RecordBatch) -> Result<()> {
        self.staging()?;
        if batch.num_columns() != self.columns.len() {
            let (given, expected) = (batch.num_columns(), self.columns.len());
            let table = &self.table;
            let why = format!("a batch for table '{table}' has {given} columns, and there are {expected}");
            return Err(StatementError::Execution(why).into());
        }
        let fitted = batch.columns().iter().zip(&self.columns).map(|(column, field)| {
            fitted_column(column, field.data_type()).map_err(|(row, why)| {
                let (table, row) = (&self.table, self.rows + row as u64 + 1);
                let name = field.name();
                StatementError::Execution(format!("row {row} for table '{table}': column '{name}': {why}")).into()
            })
        });
        let fitted = fitted.collect::<Result<Vec<_>>>()?;
        self.hand_on()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), fitted, &options);
        let batch = batch.map_err(|error| StatementError::from(&error))?;
        self.stage(&batch)?;
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Puts the rows since the last flush into the table, all of them or none, and tells how many. The appender goes on without rows in either case.
    ///
    /// # Errors
    /// Those of the `INSERT`: a row has NULL where there may be none, or a key that another has.
    pub fn flush(&mut self) -> Result<u64> {
        let handed_on = self.hand_on();
        self.rows = 0;
        let staging = self.staging.take();
        handed_on?;
        let Some(staging) = staging.filter(|staging| staging.rows() > 0) else { return Ok(0) };
        let session = &self.connection.inner().session;
        session.insert_staged(staging, |insert| {
            let result = self.connection.run(Request::new(insert, Values::none()))?;
            Ok(result.affected_rows().unwrap_or(0))
        })
    }

    /// Flushes, and tells how many rows that were, or why none.
    ///
    /// # Errors
    /// Those of [`flush`](Self::flush).
    pub fn finish(mut self) -> Result<u64> {
        self.flush()
    }

    /// Forgets the rows since the last flush.
    pub fn clear(&mut self) {
        self.rows = 0;
        self.staging = None;
        self.values.iter_mut().for_each(Vec::clear);
        self.bytes = 0;
    }

    /// Looks the table up, which may have changed its columns since the last flush.
    fn begin(&mut self) -> Result<()> {
        let (table, names) = (self.table.clone(), self.names.clone());
        let staging =
            self.connection.asked(move |inner| async move { inner.session.stage(&table, names.as_deref()).await })?;
        self.columns = staging.columns().to_vec();
        self.schema = Arc::new(Schema::new(self.columns.clone()));
        self.values.resize_with(self.columns.len(), Vec::new);
        self.staging = Some(staging);
        Ok(())
    }

    fn staging(&mut self) -> Result<&mut Staging> {
        if self.staging.is_none() {
            self.begin()?;
        }
        Ok(self.staging.as_mut().expect("begun above"))
    }

    /// Hands the rows that wait on to the pages.
    fn hand_on(&mut self) -> Result<()> {
        let rows = self.values.first().map_or(0, Vec::len);
        if rows == 0 {
            return Ok(());
        }
        self.bytes = 0;
        let columns = self
            .values
            .iter_mut()
            .zip(&self.columns)
            .map(|(values, column)| column_of(std::mem::take(values), column.data_type()));
        let columns = columns.collect::<Result<Vec<_>, StatementError>>()?;
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        let batch = batch.map_err(|error| StatementError::from(&error))?;
        self.stage(&batch)
    }

    /// Writes `batch` to the pages. Where there is no room some of it may be there, so that all is forgotten.
    fn stage(&mut self, batch: &RecordBatch) -> Result<()> {
        let staged = self.staging()?.push(batch);
        if staged.is_err() {
            self.clear();
        }
        Ok(staged?)
    }

    /// Values by the names of their columns.
    fn in_order(&self, named: Vec<(String, ScalarValue)>) -> Result<Vec<ScalarValue>> {
        let mut values = vec![ScalarValue::Null; self.columns.len()];
        let mut seen = vec![false; values.len()];
        for (name, value) in named {
            let at = self.columns.iter().position(|column| column.name().eq_ignore_ascii_case(&name));
            let at = at.ok_or_else(|| self.wrong(format!("there is no column '{name}'")))?;
            (values[at], seen[at]) = (value, true);
        }
        match seen.iter().position(|seen| !seen) {
            Some(at) => Err(self.wrong(format!("column '{}' has no value", self.columns[at].name()))),
            None => Ok(values),
        }
    }

    /// An error of the next row.
    fn wrong(&self, why: String) -> crate::Error {
        StatementError::Execution(format!("row {} for table '{}': {why}", self.rows + 1, self.table)).into()
    }
}

impl Drop for Appender<'_> {
    fn drop(&mut self) {
        // Half of what somebody wanted to append is not what they wanted.
        if !std::thread::panicking() && self.rows > 0 {
            // `finish` tells of the error.
            let _ = self.flush();
        }
    }
}

impl std::fmt::Debug for Appender<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Appender").field("table", &self.table).field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// Bytes that `value` has elsewhere.
fn long_bytes(value: &ScalarValue) -> usize {
    match value {
        ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text) => {
            text.as_ref().map_or(0, String::len)
        }
        value if value.data_type().is_primitive() => 0,
        value => value.size(),
    }
}

/// `value` as one of `data_type`, or why it is none.
fn fitted(value: ScalarValue, data_type: &DataType) -> Result<ScalarValue, String> {
    if value.data_type() == *data_type {
        return Ok(value);
    }
    if value.is_null() {
        return ScalarValue::try_from(data_type).map_err(|error| error.to_string());
    }
    // What most rows have.
    match (&value, data_type) {
        (ScalarValue::Utf8(text), DataType::Utf8View) => return Ok(ScalarValue::Utf8View(text.clone())),
        (ScalarValue::Int64(Some(number)), DataType::Int32) => {
            if let Ok(number) = i32::try_from(*number) {
                return Ok(ScalarValue::Int32(Some(number)));
            }
        }
        (ScalarValue::Int32(Some(number)), DataType::Int64) => return Ok(ScalarValue::Int64(Some((*number).into()))),
        _ => {}
    }
    let column = value.to_array().map_err(|error| error.to_string())?;
    let column = fitted_column(&column, data_type).map_err(|(_, why)| why)?;
    ScalarValue::try_from_array(&column, 0).map_err(|error| error.to_string())
}

/// `column` as one of `data_type`, or the first row that does not fit, and why.
fn fitted_column(column: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, (usize, String)> {
    if column.data_type() == data_type {
        return Ok(Arc::clone(column));
    }
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let cast = |column: &ArrayRef| {
        let cast = cast_with_options(column, data_type, &strict)?;
        let is_rounded = data_type.is_integer() && !column.data_type().is_integer() && column.data_type().is_numeric();
        if is_rounded && *cast_with_options(&cast, column.data_type(), &strict)? != **column {
            return Err(ArrowError::CastError("a part of a number is lost".to_owned()));
        }
        Ok(cast)
    };
    if let Ok(column) = cast(column) {
        return Ok(column);
    }
    let row = (0..column.len()).find(|&row| cast(&column.slice(row, 1)).is_err()).unwrap_or(0);
    let shown = ScalarValue::try_from_array(column, row).map_or_else(|_| "it".to_owned(), |value| format!("'{value}'"));
    let (given, wanted) = (sql_name(column.data_type()), sql_name(data_type));
    Err((row, format!("{shown} of type {given} is no {wanted}")))
}

/// A column of `values`, all of which are of `data_type`.
fn column_of(values: Vec<ScalarValue>, data_type: &DataType) -> Result<ArrayRef, StatementError> {
    let column = ScalarValue::iter_to_array(values)?;
    debug_assert_eq!(column.data_type(), data_type, "each value was fitted");
    Ok(column)
}
