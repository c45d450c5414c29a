//! Tables that a program registers: names for its Arrow rows, known to all connections until they are taken away.
//!
//! Not here: how they are read (`crate::registered`).

use datafusion::common::TableReference;
use ogee_files::spelling::folded;
use ogee_functions::{Error, Result};

use super::Session;
use crate::registered::{ArrowRows, is_registered};

impl Session {
    /// Makes `rows` a table called `name`, in any case, for a program that has `connection`. It takes the place of one that was registered before.
    ///
    /// # Errors
    /// There is another table or view of this name; a batch has other columns than the schema; another connection is in a transaction.
    pub async fn register(&self, name: &str, rows: ArrowRows, connection: u64) -> Result<()> {
        let reference = self.reference(name)?;
        self.may_change(connection)?;
        let table = rows.table(name)?;
        if self.table_exists(&reference)? {
            if !self.is_of_program(&reference).await? {
                return Err(Error::Plan(format!(
                    "table '{name}' exists already, and it was not registered; use DROP before, or another name"
                )));
            }
            self.context.deregister_table(reference.clone())?;
        }
        self.context.register_table(reference, table)?;
        Ok(())
    }

    /// Takes table `name`, which was registered, away. Statements that read it go on.
    ///
    /// # Errors
    /// No table of this name was registered; another connection is in a transaction.
    pub async fn unregister(&self, name: &str, connection: u64) -> Result<()> {
        let reference = self.reference(name)?;
        self.may_change(connection)?;
        if !self.table_exists(&reference)? {
            return Err(Error::Plan(format!("table '{name}' does not exist")));
        }
        if !self.is_of_program(&reference).await? {
            return Err(Error::Plan(format!("table '{name}' was not registered; use DROP")));
        }
        self.context.deregister_table(reference)?;
        Ok(())
    }

    fn reference(&self, name: &str) -> Result<TableReference> {
        match name {
            "" => Err(Error::Plan("a table is registered under a name, and this one is empty".to_owned())),
            name => Ok(TableReference::bare(folded(name).into_owned())),
        }
    }

    /// Whether the table of this name, which there is, was registered.
    async fn is_of_program(&self, reference: &TableReference) -> Result<bool> {
        let schema = self.context.state().schema_for_ref(reference.clone())?;
        // Views are not planned for this.
        if schema.table_type(reference.table()).await? == Some(datafusion::datasource::TableType::View) {
            return Ok(false);
        }
        Ok(schema.table(reference.table()).await?.is_some_and(|table| is_registered(&table)))
    }
}
