//! Statements that are prepared: parsed once, run as often as one likes.
//!
//! What is kept is the parsed statement. It is planned when it is run, with the values that it gets then: the plan knows their types and what the tables are like at the time, and values
//! that few rows have are seen to.
//!
//! Not here: how values come into a plan (`ogee_sql::parameters`), and `PREPARE`, which is SQL's.

use std::sync::Arc;

use ogee_datafusion::{Parameters, on_large_stack};

use crate::{
    AsyncResult, Connection, Params, QueryResult, Result,
    connection::{Request, Text},
    params::names,
};

/// A statement of a [`Connection`], with places for values.
pub struct Statement<'connection> {
    connection: &'connection Connection,
    /// Dropped on a large stack.
    text: Option<Arc<Text>>,
    parameters: Parameters,
}

impl<'connection> Statement<'connection> {
    pub(crate) fn new(connection: &'connection Connection, sql: &str) -> Result<Self> {
        let (text, parameters) = on_large_stack(|| {
            let text = Text::parsed(sql)?;
            let parameters = text.parameters()?;
            Ok::<_, crate::Error>((text, parameters))
        })??;
        Ok(Self { connection, text: Some(Arc::new(text)), parameters })
    }

    /// The SQL that it was made of.
    pub fn sql(&self) -> &str {
        self.text.as_ref().map_or("", |text| text.sql())
    }

    /// How many values it takes.
    pub fn parameter_count(&self) -> usize {
        self.parameters.len()
    }

    /// What its parameters are called, in the order in which values are given: `$1`, `$2` where it has `?` or numbers, and the names that it has otherwise.
    pub fn parameters(&self) -> Vec<String> {
        names(&self.parameters)
    }

    /// Runs it with these values, as [`Connection::execute`] does.
    ///
    /// # Errors
    /// Values that are too few, too many, or for other names; and those of [`Connection::execute`].
    pub fn execute(&self, params: impl Params) -> Result<QueryResult> {
        self.connection.run(self.request(params)?)
    }

    /// The same for asynchronous programs, as [`Connection::execute_async`] does.
    ///
    /// # Errors
    /// Those of [`execute`](Self::execute).
    pub fn execute_async<P: Params>(&self, params: P) -> impl Future<Output = Result<AsyncResult>> + Send {
        // The values are taken at once: they need not live, or be sent, with the future.
        let request = self.request(params);
        async move { self.connection.run_async(request?).await }
    }

    fn request(&self, params: impl Params) -> Result<Request> {
        let values = params.to_values()?.in_order(&self.parameters)?;
        let text = self.text.as_ref().expect("taken when it is dropped");
        Ok(Request::prepared(Arc::clone(text), self.parameters.clone(), values))
    }
}

impl std::fmt::Debug for Statement<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Statement").field("sql", &self.sql()).field("parameters", &self.parameters()).finish()
    }
}

impl Drop for Statement<'_> {
    fn drop(&mut self) {
        if let Some(text) = self.text.take() {
            text.dropped();
        }
    }
}
