//! `COMMENT ON`, and the tables `duckdb_tables()` and `duckdb_columns()`, where comments are to be seen.
//!
//! A comment is kept by the name of what it is of, and goes to what takes that name.
//!
//! Not here: `SHOW` and `DESCRIBE` (`describe`).

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use datafusion::{
    arrow::{
        array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringViewArray},
        datatypes::Field,
    },
    common::TableReference,
    datasource::TableType,
    execution::SessionState,
    sql::{
        parser::Statement as ParsedStatement,
        planner::object_name_to_table_reference,
        sqlparser::ast::{CommentObject, ObjectName, ObjectNamePart, Statement as SqlStatement},
    },
};
use ogee_functions::{Error, Result, type_names::sql_name_of};
use ogee_sql::catalogs::{self, CatalogTable};

use super::{Computed, Outcome, Session, changes::Made, transactions::is_own};
use crate::{
    changing::RowsWriter,
    describe::{batch, name_of, shown_place},
    table::PagedTable,
};

/// Comments by schema, table, and column where one is of a column.
pub(super) type Comments = HashMap<(String, String, Option<String>), String>;

/// A table as it is told of.
struct Told {
    schema: String,
    name: String,
    table: Arc<dyn datafusion::catalog::TableProvider>,
}

impl Session {
    /// Runs `statement` if it comments on something.
    pub(super) async fn comment(&self, state: &SessionState, statement: &ParsedStatement) -> Result<Option<Outcome>> {
        let ParsedStatement::Statement(statement) = statement else { return Ok(None) };
        let SqlStatement::Comment { object_type, object_name, comment, if_exists, .. } = &**statement else {
            return Ok(None);
        };
        let (name, column) = match object_type {
            CommentObject::Table | CommentObject::View => (object_name.clone(), None),
            CommentObject::Column => match object_name.0.as_slice() {
                [table @ .., ObjectNamePart::Identifier(column)] if !table.is_empty() => {
                    (ObjectName(table.to_vec()), Some(column.clone()))
                }
                _ => return Err(Error::Plan(format!("'{object_name}' is no column: write table.column"))),
            },
            other => {
                let instead = "comments are of tables, views and columns";
                return Err(Error::Unsupported(format!("COMMENT ON {other} is not supported; {instead}")));
            }
        };
        let reference = object_name_to_table_reference(name.clone(), true)?;
        if !self.table_exists(&reference)? {
            if *if_exists {
                return Ok(Some(Outcome::Done(None)));
            }
            return Err(Error::Plan(format!("table '{name}' does not exist")));
        }
        let provider = state.schema_for_ref(reference.clone())?;
        let kind = provider.table_type(reference.table()).await?;
        match (object_type, kind) {
            (CommentObject::Table, Some(TableType::View)) => {
                return Err(Error::Plan(format!("'{name}' is a view; use COMMENT ON VIEW")));
            }
            (CommentObject::View, Some(TableType::Base)) => {
                return Err(Error::Plan(format!("'{name}' is a table; use COMMENT ON TABLE")));
            }
            _ => {}
        }
        let column = match column {
            None => None,
            Some(column) => {
                let column = catalogs::last_name(&column);
                let table = provider.table(reference.table()).await?;
                let fields = table.map(|table| table.schema());
                let found = fields.as_ref().and_then(|fields| {
                    fields
                        .fields()
                        .iter()
                        .find(|field| *field.name() == column || field.name().eq_ignore_ascii_case(&column))
                });
                let missing = || Error::Plan(format!("table '{name}' has no column '{column}'"));
                Some(found.ok_or_else(missing)?.name().clone())
            }
        };
        let options = &state.config_options().catalog;
        let resolved = reference.resolve(&options.default_catalog, &options.default_schema);
        let key = (resolved.schema.to_string(), resolved.table.to_string(), column);
        let mut comments = self.comments.lock();
        match comment {
            Some(comment) => comments.insert(key, comment.clone()),
            None => comments.remove(&key),
        };
        Ok(Some(Outcome::Done(None)))
    }

    /// Has `statement` read what there is in the place of `duckdb_tables()` and `duckdb_columns()`.
    pub(super) async fn tell_catalog(
        &self,
        state: &SessionState,
        statement: &mut ParsedStatement,
    ) -> Result<Vec<Computed<'_>>> {
        let mut made = Made::default();
        let wanted = catalogs::catalog_tables(statement);
        let mut names = HashMap::new();
        for table in wanted {
            let told = self.told(state).await?;
            let batch = match table {
                CatalogTable::Tables => self.tables_told(&told)?,
                CatalogTable::Columns => self.columns_told(&told)?,
            };
            let schema = batch.schema();
            let mut writer = RowsWriter::new(&schema, self.engine.memory());
            writer.push(batch)?;
            let rows = PagedTable::of_blocks(schema, Arc::clone(self.engine.memory()), writer.finish()?);
            names.insert(table, self.make(Arc::new(rows), &mut made)?);
        }
        catalogs::read_catalog(statement, &names);
        Ok(made.into_tables())
    }

    async fn told(&self, state: &SessionState) -> Result<Vec<Told>> {
        let mut found = BTreeMap::new();
        let catalog = &state.config_options().catalog.default_catalog;
        let Some(of) = self.catalogs.catalog(catalog) else { return Ok(Vec::new()) };
        for schema_name in of.schema_names().into_iter().filter(|name| name != "information_schema") {
            let Some(schema) = of.schema(&schema_name) else { continue };
            for name in schema.table_names().into_iter().filter(|name| !is_own(name)) {
                let reference = TableReference::full(catalog.as_str(), schema_name.as_str(), name.as_str());
                if let Some(table) = state.schema_for_ref(reference)?.table(&name).await? {
                    found.insert((schema_name.clone(), name.clone()), table);
                }
            }
        }
        Ok(found.into_iter().map(|((schema, name), table)| Told { schema, name, table }).collect())
    }

    fn comment_of(&self, of: &Told, column: Option<&str>) -> Option<String> {
        let key = (of.schema.clone(), of.name.clone(), column.map(str::to_owned));
        self.comments.lock().get(&key).cloned()
    }

    fn tables_told(&self, told: &[Told]) -> Result<RecordBatch> {
        let attached = self.attached();
        let told: Vec<&Told> = told.iter().filter(|told| told.table.table_type() != TableType::View).collect();
        let ours = |told: &&Told| told.table.downcast_ref::<PagedTable>().is_some();
        let of = |told: &&Told, what: &dyn Fn(&PagedTable) -> i64| told.table.downcast_ref::<PagedTable>().map(what);
        let has_key =
            |table: &PagedTable| i64::from(table.keys().is_some_and(|keys| keys.columns().any(|(_, primary)| primary)));
        let rows = |table: &PagedTable| table.blocks().iter().map(|block| block.rows() as i64).sum();
        let checks = |table: &PagedTable| table.definition().checks().len() as i64;
        let keys = told.iter().map(|told| Some(ours(told) && of(told, &has_key) == Some(1))).collect::<BooleanArray>();
        batch(vec![
            ("database_name", texts(told.iter().map(|told| Some(shown_place(&told.schema, &attached).0)))),
            ("schema_name", texts(told.iter().map(|told| Some(shown_place(&told.schema, &attached).1)))),
            ("table_name", texts(told.iter().map(|told| Some(told.name.clone())))),
            ("comment", texts(told.iter().map(|told| self.comment_of(told, None)))),
            ("has_primary_key", Arc::new(keys)),
            ("estimated_size", numbers(told.iter().map(|told| of(told, &rows)))),
            ("column_count", numbers(told.iter().map(|told| Some(told.table.schema().fields().len() as i64)))),
            ("check_constraint_count", numbers(told.iter().map(|told| of(told, &checks)))),
        ])
    }

    fn columns_told(&self, told: &[Told]) -> Result<RecordBatch> {
        let attached = self.attached();
        let columns: Vec<(&Told, usize, Arc<Field>)> = told
            .iter()
            .flat_map(|told| {
                let fields = told.table.schema().fields().to_vec();
                fields.into_iter().enumerate().map(move |(at, field)| (told, at, field)).collect::<Vec<_>>()
            })
            .collect();
        let default = |(told, _, field): &(&Told, usize, Arc<Field>)| {
            Some(told.table.get_column_default(field.name())?.human_display().to_string())
        };
        let nullable = columns.iter().map(|(_, _, field)| Some(field.is_nullable())).collect::<BooleanArray>();
        batch(vec![
            ("database_name", texts(columns.iter().map(|(told, ..)| Some(shown_place(&told.schema, &attached).0)))),
            ("schema_name", texts(columns.iter().map(|(told, ..)| Some(shown_place(&told.schema, &attached).1)))),
            ("table_name", texts(columns.iter().map(|(told, ..)| Some(told.name.clone())))),
            ("column_name", texts(columns.iter().map(|(_, _, field)| Some(name_of(field).to_owned())))),
            ("column_index", numbers(columns.iter().map(|(_, at, _)| Some(*at as i64 + 1)))),
            ("comment", texts(columns.iter().map(|(told, _, field)| self.comment_of(told, Some(field.name()))))),
            ("column_default", texts(columns.iter().map(default))),
            ("is_nullable", Arc::new(nullable)),
            ("data_type", texts(columns.iter().map(|(_, _, field)| Some(sql_name_of(field))))),
        ])
    }
}

fn texts(values: impl Iterator<Item = Option<String>>) -> ArrayRef {
    Arc::new(values.collect::<StringViewArray>())
}

fn numbers(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(values.collect::<Int64Array>())
}
