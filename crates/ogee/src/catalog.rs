//! What a database has: schemas, tables with their columns, functions.

pub use ogee_datafusion::{ColumnInfo, FunctionInfo, FunctionKind, TableInfo, TableKind};

use crate::{Connection, Result};

/// A schema.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SchemaInfo {
    /// The database: `memory`, or the name of one that was attached.
    pub database: String,
    /// The name: `main`, or that of one that was made.
    pub name: String,
}

impl Connection {
    /// All tables and views with their columns, in the order of their names.
    ///
    /// ```
    /// # use ogee::{Config, Database, TableKind};
    /// # let connection = Database::open_in_memory(Config::default())?.connect();
    /// connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, price DECIMAL(10, 2))")?;
    /// let tables = connection.tables()?;
    /// assert_eq!((tables[0].name.as_str(), tables[0].kind), ("t", TableKind::Table));
    /// let columns: Vec<_> = tables[0].columns.iter().map(|column| (&*column.name, &*column.data_type)).collect();
    /// assert_eq!(columns, [("id", "INTEGER"), ("price", "DECIMAL(10,2)")]);
    /// # Ok::<(), ogee::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of asking a table for its columns.
    pub fn tables(&self) -> Result<Vec<TableInfo>> {
        self.asked(|inner| async move { inner.session.table_list().await })
    }

    /// All schemas of all databases, in order.
    pub fn schemas(&self) -> Vec<SchemaInfo> {
        let schemas = self.inner().session.schema_list();
        schemas.into_iter().map(|(database, name)| SchemaInfo { database, name }).collect()
    }

    /// All functions, in the order of their names: those of SQL, and those that the program gave.
    pub fn functions(&self) -> Vec<FunctionInfo> {
        self.inner().session.function_list()
    }
}
