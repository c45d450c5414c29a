//! Rows that a program appends to a table: kept in pages of the pool, which spill, until an `INSERT` takes them all.
//!
//! What a table asks of its rows is thus asked as of those of any `INSERT`, and they are in the table wholly or not at all.
//!
//! Not here: values of rows (crate `ogee`).

use std::sync::{Arc, atomic::Ordering};

use datafusion::{
    arrow::{
        array::RecordBatch,
        datatypes::{Field, FieldRef, Schema, SchemaRef},
    },
    common::TableReference,
    datasource::TableType,
    sql::{
        parser::Statement as ParsedStatement,
        planner::object_name_to_table_reference,
        sqlparser::ast::{Statement as SqlStatement, TableObject},
    },
};
use ogee_files::spelling::folded;
use ogee_functions::{Error, Result};
use ogee_sql::{parse, told::near};

use super::{Computed, Session};
use crate::{changing::RowsWriter, describe::name_of, table::PagedTable};

/// Rows of some columns of a table, on their way there.
pub struct Staging {
    /// The table, as it is written.
    table: String,
    /// The columns that rows have values for, with their types.
    columns: Vec<FieldRef>,
    schema: SchemaRef,
    rows: RowsWriter,
    count: u64,
}

impl Staging {
    /// The columns that rows have values for, as they are spelled, with their types.
    pub fn columns(&self) -> &[FieldRef] {
        &self.columns
    }

    /// How many rows there are.
    pub fn rows(&self) -> u64 {
        self.count
    }

    /// Adds the rows of `batch`, whose columns are of the types of [`columns`](Self::columns).
    ///
    /// # Errors
    /// There is no room for them.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        // The names are those of whoever made it.
        self.rows.push(batch.clone())?;
        self.count += rows as u64;
        Ok(())
    }
}

impl Session {
    /// Nothing yet for `table`, whose name is written as in SQL: values for `columns`, or for all that it does not compute.
    ///
    /// # Errors
    /// There is no such table or column; the table was not made by `CREATE TABLE`.
    pub async fn stage(&self, table: &str, columns: Option<&[String]>) -> Result<Staging> {
        let reference = self.written_name(table)?;
        if !self.table_exists(&reference)? {
            return Err(Error::Plan(format!("table '{table}' does not exist")));
        }
        let schema = self.context.state().schema_for_ref(reference.clone())?;
        let no_table =
            || Error::Unsupported(format!("'{table}' was not made by CREATE TABLE, and rows are appended to no other"));
        if schema.table_type(reference.table()).await? == Some(TableType::View) {
            return Err(no_table());
        }
        let provider = schema.table(reference.table()).await?;
        let provider = provider.as_ref().and_then(|provider| provider.downcast_ref::<PagedTable>());
        let provider = provider.ok_or_else(no_table)?;
        let fields = provider.rows_schema();
        let definition = provider.definition();
        let wanted: Vec<&Field> = match columns {
            None => {
                let all = fields.fields().iter().map(AsRef::as_ref);
                all.filter(|field: &&Field| !definition.is_generated(field.name())).collect()
            }
            Some(names) => {
                let mut wanted: Vec<&Field> = Vec::with_capacity(names.len());
                for name in names {
                    let Some((_, field)) = fields.fields().find(&folded(name)) else {
                        let known = fields.fields().iter().map(|field| name_of(field));
                        let hint = near(name, known).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                        return Err(Error::Plan(format!("table '{table}' has no column '{name}'{hint}")));
                    };
                    if definition.is_generated(field.name()) {
                        return Err(Error::Plan(format!("column '{name}' of table '{table}' is computed of others")));
                    }
                    if wanted.iter().any(|other| other.name() == field.name()) {
                        return Err(Error::Plan(format!("column '{name}' is named twice")));
                    }
                    wanted.push(field);
                }
                wanted
            }
        };
        if wanted.is_empty() {
            return Err(Error::Plan(format!("rows for table '{table}' have a value for one column at least")));
        }
        // What is said of the columns is asked when they are inserted.
        let columns = wanted.iter().map(|field| Arc::new(Field::new(name_of(field), field.data_type().clone(), true)));
        let columns: Vec<FieldRef> = columns.collect();
        let staged =
            wanted.iter().enumerate().map(|(at, field)| Field::new(format!("c{at}"), field.data_type().clone(), true));
        let schema: SchemaRef = Arc::new(Schema::new(staged.collect::<Vec<_>>()));
        let rows = RowsWriter::new(&schema, self.engine.memory());
        Ok(Staging { table: table.to_owned(), columns, schema, rows, count: 0 })
    }

    /// Has `insert` run the statement that takes the rows of `staging` into its table.
    ///
    /// # Errors
    /// Those of `insert`, and of writing the rows.
    pub fn insert_staged<T, E: From<Error>>(
        &self,
        staging: Staging,
        insert: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, E> {
        let Staging { table, columns, schema, rows, count: _ } = staging;
        let blocks = rows.finish().map_err(Error::from)?;
        let name = format!("ogee_appended_{}", self.computed.fetch_add(1, Ordering::Relaxed));
        let rows = PagedTable::of_blocks(schema, Arc::clone(self.engine.memory()), blocks);
        self.context.register_table(name.as_str(), Arc::new(rows)).map_err(Error::from)?;
        let _known = Computed { context: &self.context, name: name.clone() };
        let quoted: Vec<String> =
            columns.iter().map(|field| format!("\"{}\"", field.name().replace('"', "\"\""))).collect();
        insert(&format!("INSERT INTO {table} ({}) SELECT * FROM {name}", quoted.join(", ")))
    }

    /// What `name` names where SQL has it.
    fn written_name(&self, name: &str) -> Result<TableReference> {
        let not_one =
            || Error::Parse(format!("'{name}' is no name of a table; write names with blanks in double quotes"));
        let mut statements = parse(&format!("INSERT INTO {name} SELECT 1")).map_err(|_| not_one())?;
        let (Some(mut statement), 0) = (statements.pop(), statements.len()) else { return Err(not_one()) };
        self.write_out_places(&self.context.state(), &mut statement.0);
        let ParsedStatement::Statement(statement) = statement.0 else { return Err(not_one()) };
        match *statement {
            SqlStatement::Insert(insert) if insert.columns.is_empty() && insert.table_alias.is_none() => {
                match insert.table {
                    TableObject::TableName(name) => Ok(object_name_to_table_reference(name, true)?),
                    _ => Err(not_one()),
                }
            }
            _ => Err(not_one()),
        }
    }
}
