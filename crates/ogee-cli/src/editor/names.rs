//! The names that completion knows: tables and their columns as they are now, and functions, which stay.
//!
//! They are asked for when somebody completes something, and again after statements ran.

use std::sync::Arc;

use ogee::Connection;

use crate::session::texts;

/// Names of one catalog.
#[derive(Default)]
pub struct Names {
    connection: Option<Arc<Connection>>,
    /// Tables with their columns.
    tables: Option<Vec<(String, Vec<String>)>>,
    functions: Option<Vec<String>>,
}

impl Names {
    /// Statements may have run: tables are asked for again.
    pub fn refresh(&mut self, connection: &Arc<Connection>) {
        if !self.connection.as_ref().is_some_and(|known| Arc::ptr_eq(known, connection)) {
            self.connection = Some(Arc::clone(connection));
            self.functions = None;
        }
        self.tables = None;
    }

    /// Tables and views, with their columns.
    pub fn tables(&mut self) -> &[(String, Vec<String>)] {
        if self.tables.is_none() {
            self.tables = Some(self.connection.as_deref().map(tables).unwrap_or_default());
        }
        self.tables.as_deref().unwrap_or_default()
    }

    /// Functions.
    pub fn functions(&mut self) -> &[String] {
        if self.functions.is_none() {
            self.functions = Some(self.connection.as_deref().map(functions).unwrap_or_default());
        }
        self.functions.as_deref().unwrap_or_default()
    }
}

/// Nothing where the catalog cannot be asked, as in a transaction that failed.
fn tables(connection: &Connection) -> Vec<(String, Vec<String>)> {
    let rows = texts(
        connection,
        "SELECT table_name, column_name FROM duckdb_columns() ORDER BY schema_name, table_name, column_index",
    );
    let mut tables: Vec<(String, Vec<String>)> = Vec::new();
    for row in rows.unwrap_or_default() {
        let mut values = row.into_iter().flatten();
        let (Some(table), Some(column)) = (values.next(), values.next()) else { continue };
        match tables.last_mut() {
            Some((last, columns)) if *last == table => columns.push(column),
            _ => tables.push((table, vec![column])),
        }
    }
    tables
}

/// Without operators and what has no name that can be written.
fn functions(connection: &Connection) -> Vec<String> {
    let rows = texts(connection, "SELECT DISTINCT function_name FROM duckdb_functions() ORDER BY function_name");
    let is_written = |name: &String| name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    let own = |name: &String| name.starts_with("ogee_");
    rows.unwrap_or_default().into_iter().flatten().flatten().filter(|name| is_written(name) && !own(name)).collect()
}
