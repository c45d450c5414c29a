//! What there is: tables, views and functions, for programs that ask.
//!
//! Not here: what `SHOW` and `DESCRIBE` show (`describe`).

use datafusion::{
    arrow::datatypes::{DataType, FieldRef},
    catalog::TableProvider,
    common::TableReference,
    datasource::TableType,
};
use ogee_functions::{Result, type_names::sql_name_of};
use ogee_sql::system::is_system;

use crate::{
    describe::{name_of, shown_place},
    registered::is_registered,
    session::{Session, is_own},
    table::PagedTable,
};

/// A table or a view.
#[derive(Clone, Debug, PartialEq)]
pub struct TableInfo {
    /// The database: `memory`, or the name of one that was attached.
    pub database: String,
    /// The schema: `main`, or the name of one that was made.
    pub schema: String,
    /// The name, in small letters, as statements compare it.
    pub name: String,
    /// What it is.
    pub kind: TableKind,
    /// Whether it goes with the connection that made it.
    pub is_temporary: bool,
    /// Its columns in their order; none of a view that cannot be planned any more.
    pub columns: Vec<ColumnInfo>,
}

/// What a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// Made by `CREATE TABLE`.
    Table,
    /// Made by `CREATE VIEW`.
    View,
    /// Rows of the program.
    Registered,
    /// Rows of files, and what else was made known to the planner.
    External,
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnInfo {
    /// The name as it is spelled.
    pub name: String,
    /// The type as SQL writes it, e.g. `DECIMAL(10,2)`.
    pub data_type: String,
    /// The type that results have.
    pub arrow_type: DataType,
    /// Whether it takes NULL.
    pub is_nullable: bool,
    /// Whether it is part of the primary key.
    pub is_primary_key: bool,
    /// What an `INSERT` that leaves it out gives it.
    pub default: Option<String>,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FunctionInfo {
    /// The name.
    pub name: String,
    /// What it is.
    pub kind: FunctionKind,
    /// Whether the program gave it.
    pub is_of_program: bool,
}

/// What a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FunctionKind {
    /// A value for each row.
    Scalar,
    /// A value for each group.
    Aggregate,
    /// A value for each row, of the rows around it.
    Window,
    /// A table.
    Table,
}

impl Session {
    /// All tables and views, by database, schema and name.
    ///
    /// # Errors
    /// Those of asking a table for its columns.
    pub async fn table_list(&self) -> Result<Vec<TableInfo>> {
        let state = self.context().state();
        let attached = self.attached();
        let mut tables = Vec::new();
        for catalog_name in state.catalog_list().catalog_names() {
            let Some(catalog) = state.catalog_list().catalog(&catalog_name) else { continue };
            for schema_name in catalog.schema_names().into_iter().filter(|name| !is_system(name)) {
                let Some(schema) = catalog.schema(&schema_name) else { continue };
                let (database, shown_schema) = shown_place(&schema_name, &attached);
                for name in schema.table_names().into_iter().filter(|name| !is_own(name)) {
                    let is_view = schema.table_type(&name).await? == Some(TableType::View);
                    let table = match schema.table(&name).await {
                        // Dropped in between.
                        Ok(None) => continue,
                        Ok(table) => table,
                        // What a view is of may be gone.
                        Err(_) if is_view => None,
                        Err(error) => return Err(error.into()),
                    };
                    let reference = TableReference::full(catalog_name.as_str(), schema_name.as_str(), name.as_str());
                    tables.push(TableInfo {
                        database: database.clone(),
                        schema: shown_schema.clone(),
                        kind: match &table {
                            _ if is_view => TableKind::View,
                            Some(table) if table.downcast_ref::<PagedTable>().is_some() => TableKind::Table,
                            Some(table) if is_registered(table) => TableKind::Registered,
                            _ => TableKind::External,
                        },
                        is_temporary: self.is_temporary(&reference),
                        columns: table.as_ref().map(|table| columns(&**table)).unwrap_or_default(),
                        name,
                    });
                }
            }
        }
        tables.sort_by(|a, b| (&a.database, &a.schema, &a.name).cmp(&(&b.database, &b.schema, &b.name)));
        Ok(tables)
    }

    /// All schemas: their databases and names, in order.
    pub fn schema_list(&self) -> Vec<(String, String)> {
        let attached = self.attached();
        let state = self.context().state();
        let catalogs = state.catalog_list();
        let names = catalogs.catalog_names().into_iter().filter_map(|name| catalogs.catalog(&name));
        let mut schemas: Vec<(String, String)> = names
            .flat_map(|catalog| catalog.schema_names())
            .filter(|name| !is_system(name))
            .map(|name| shown_place(&name, &attached))
            .collect();
        schemas.sort();
        schemas
    }
}

fn columns(table: &dyn TableProvider) -> Vec<ColumnInfo> {
    let schema = table.schema();
    let declared = table.downcast_ref::<PagedTable>().and_then(PagedTable::keys);
    let is_primary_key =
        |at: usize| declared.iter().flat_map(|keys| keys.columns()).any(|(key, primary)| primary && key.contains(&at));
    let column = |(at, field): (usize, &FieldRef)| ColumnInfo {
        name: name_of(field).to_owned(),
        data_type: sql_name_of(field),
        arrow_type: field.data_type().clone(),
        is_nullable: field.is_nullable() && !is_primary_key(at),
        is_primary_key: is_primary_key(at),
        default: table.get_column_default(field.name()).map(|default| default.human_display().to_string()),
    };
    schema.fields().iter().enumerate().map(column).collect()
}
