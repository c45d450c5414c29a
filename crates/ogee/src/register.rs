//! Arrow rows of the program as tables.
//!
//! Not here: how they are read (`ogee_datafusion`).

use datafusion::arrow::{
    array::{RecordBatch, RecordBatchReader},
    datatypes::SchemaRef,
    error::ArrowError,
};
use ogee_datafusion::ArrowRows;

use crate::{Connection, Result};

/// Arrow rows that [`Connection::register`] makes a table of.
///
/// Batches are not copied: what they hold stays the program's, is not counted against the memory limit by the pool, and can be scanned as often as one likes, by several threads.
/// A reader gives its rows once, as they are wanted: the first statement that scans its table takes them, and any other gets an error that says so.
#[derive(Debug)]
pub struct ArrowData(ArrowRows);

impl ArrowData {
    /// Batches that all have the columns of `schema`; none at all is a table without rows.
    pub fn batches(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self(ArrowRows::Batches(schema, batches))
    }

    /// What `reader` gives, once. It is asked from a thread of its own, and may wait.
    pub fn reader(reader: impl RecordBatchReader + Send + 'static) -> Self {
        Self(ArrowRows::Reader(Box::new(reader)))
    }

    /// What readers give that `make` makes, one for each scan: rows with the columns of `schema`.
    pub fn readers<R: RecordBatchReader + Send + 'static>(
        schema: SchemaRef,
        make: impl Fn() -> Result<R, ArrowError> + Send + Sync + 'static,
    ) -> Self {
        Self(ArrowRows::Readers(schema, Box::new(move || Ok(Box::new(make()?)))))
    }
}

impl From<RecordBatch> for ArrowData {
    fn from(batch: RecordBatch) -> Self {
        Self::batches(batch.schema(), vec![batch])
    }
}

impl From<Box<dyn RecordBatchReader + Send>> for ArrowData {
    fn from(reader: Box<dyn RecordBatchReader + Send>) -> Self {
        Self(ArrowRows::Reader(reader))
    }
}

impl Connection {
    /// Makes Arrow rows a table called `name`, which all connections see until it is [unregistered](Self::unregister). One that was registered under this name before is replaced.
    ///
    /// The name is one in small letters whatever its case, as all names are, and so are those of the columns, which keep their spelling. `name` is not parsed: it may have
    /// blanks, and no schema.
    ///
    /// # Errors
    /// There is a table or view of this name that was not registered; a batch has other columns than the schema says; a column has a type that the engine does not have; another
    /// connection is in a transaction.
    pub fn register(&self, name: &str, data: impl Into<ArrowData>) -> Result<()> {
        let (name, rows, number) = (name.to_owned(), data.into().0, self.number());
        self.asked(move |inner| async move { inner.session.register(&name, rows, number).await })
    }

    /// Takes a table away that was [registered](Self::register). Statements that read it go on.
    ///
    /// # Errors
    /// No table of this name was registered; another connection is in a transaction.
    pub fn unregister(&self, name: &str) -> Result<()> {
        let (name, number) = (name.to_owned(), self.number());
        self.asked(move |inner| async move { inner.session.unregister(&name, number).await })
    }
}
