//! `DESCRIBE` and `SHOW`: the columns of a table or a query, and the tables there are, as DuckDB shows them.
//!
//! Not here: settings that `SHOW` names.

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    arrow::{
        array::{ArrayRef, BooleanArray, ListBuilder, RecordBatch, StringBuilder},
        datatypes::{Field, Schema},
    },
    catalog::TableProvider,
    common::TableReference,
    execution::{SendableRecordBatchStream, SessionState},
    physical_plan::memory::MemoryStream,
    sql::{
        parser::Statement as ParsedStatement,
        planner::object_name_to_table_reference,
        sqlparser::ast::{DescribeAlias, ObjectName, Statement as SqlStatement},
    },
};
use ogee_files::spelling::known_spelling;
use ogee_functions::{Result, type_names::sql_name};

use crate::table::PagedTable;

/// What a statement wants to be shown.
pub(crate) enum Shown {
    /// The columns of a table, or what else has this name.
    Columns(TableReference),
    /// The names of the tables.
    Tables,
    /// The tables with their columns.
    AllTables,
}

impl Shown {
    /// What `statement` wants to be shown, if that is all it wants. `SHOW` of one name may be of a setting.
    pub(crate) fn of(statement: &ParsedStatement) -> Result<Option<Self>> {
        let ParsedStatement::Statement(statement) = statement else { return Ok(None) };
        Ok(match &**statement {
            SqlStatement::ExplainTable {
                describe_alias: DescribeAlias::Describe | DescribeAlias::Desc,
                table_name,
                ..
            } => Some(Self::Columns(object_name_to_table_reference(table_name.clone(), true)?)),
            SqlStatement::ShowVariable { variable } => match variable.as_slice() {
                [name] => {
                    let name = ObjectName::from(vec![name.clone()]);
                    Some(Self::Columns(object_name_to_table_reference(name, true)?))
                }
                [all, tables] if is(all.value.as_str(), "all") && is(&tables.value, "tables") => Some(Self::AllTables),
                _ => None,
            },
            SqlStatement::ShowTables { show_options, .. } => {
                let options = (&show_options.show_in, &show_options.filter_position, &show_options.starts_with);
                matches!(options, (None, None, None)).then_some(Self::Tables)
            }
            _ => None,
        })
    }
}

/// The name of a column as it is spelled.
fn name_of(field: &Field) -> &str {
    known_spelling(field).unwrap_or(field.name())
}

fn is(word: &str, name: &str) -> bool {
    word.eq_ignore_ascii_case(name)
}

/// The rows of `DESCRIBE` for columns of `schema`, of `table` if they are one's.
pub(crate) fn columns(schema: &Schema, table: Option<&Arc<dyn TableProvider>>) -> Result<SendableRecordBatchStream> {
    let mut keys: HashMap<usize, &str> = HashMap::new();
    let declared = table.and_then(|table| table.downcast_ref::<PagedTable>()).and_then(PagedTable::keys);
    for (of, primary) in declared.iter().flat_map(|keys| keys.columns()) {
        for column in of {
            keys.entry(*column).or_insert(if primary { "PRI" } else { "UNI" });
        }
    }
    let default = |name: &str| Some(table?.get_column_default(name)?.human_display().to_string());
    let fields = schema.fields();
    let texts = |of: &dyn Fn(usize) -> Option<String>| -> ArrayRef {
        Arc::new((0..fields.len()).map(of).collect::<datafusion::arrow::array::StringArray>())
    };
    // Only a table says of its columns that they take no NULL.
    let takes_null = |at: usize| table.is_none() || fields[at].is_nullable() && keys.get(&at) != Some(&"PRI");
    rows(vec![
        ("column_name", texts(&|at| Some(name_of(&fields[at]).to_owned()))),
        ("column_type", texts(&|at| Some(sql_name(fields[at].data_type())))),
        ("null", texts(&|at| Some(if takes_null(at) { "YES" } else { "NO" }.to_owned()))),
        ("key", texts(&|at| keys.get(&at).map(|key| (*key).to_owned()))),
        ("default", texts(&|at| default(fields[at].name()))),
        ("extra", texts(&|_| None)),
    ])
}

/// The tables of a session in the order of their names, without those of the system; `all`: with their columns.
pub(crate) async fn tables(state: &SessionState, all: bool) -> Result<SendableRecordBatchStream> {
    let mut found = Vec::new();
    for catalog_name in state.catalog_list().catalog_names() {
        let Some(catalog) = state.catalog_list().catalog(&catalog_name) else { continue };
        for schema_name in catalog.schema_names().into_iter().filter(|name| name != "information_schema") {
            let Some(schema) = catalog.schema(&schema_name) else { continue };
            for table in schema.table_names() {
                found.push((catalog_name.clone(), schema_name.clone(), table));
            }
        }
    }
    found.sort();
    let texts = |of: &dyn Fn(&(String, String, String)) -> String| -> ArrayRef {
        let texts: Vec<String> = found.iter().map(of).collect();
        Arc::new(datafusion::arrow::array::StringArray::from(texts))
    };
    let names = texts(&|(_, _, table)| table.clone());
    if !all {
        return rows(vec![("name", names)]);
    }
    let (mut columns, mut types) = (ListBuilder::new(StringBuilder::new()), ListBuilder::new(StringBuilder::new()));
    for (catalog, schema, table) in &found {
        let reference = TableReference::full(catalog.as_str(), schema.as_str(), table.as_str());
        let provider = state.schema_for_ref(reference)?.table(table).await?;
        for field in provider.iter().flat_map(|provider| provider.schema().fields().to_vec()) {
            columns.values().append_value(name_of(&field));
            types.values().append_value(sql_name(field.data_type()));
        }
        columns.append(true);
        types.append(true);
    }
    rows(vec![
        ("database", texts(&|(catalog, ..)| catalog.clone())),
        ("schema", texts(&|(_, schema, _)| schema.clone())),
        ("name", names),
        ("column_names", Arc::new(columns.finish())),
        ("column_types", Arc::new(types.finish())),
        ("temporary", Arc::new(BooleanArray::from(vec![false; found.len()]))),
    ])
}

fn rows(columns: Vec<(&str, ArrayRef)>) -> Result<SendableRecordBatchStream> {
    let field = |(name, column): &(&str, ArrayRef)| Field::new(*name, column.data_type().clone(), true);
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(datafusion::error::DataFusionError::from)?;
    Ok(Box::pin(MemoryStream::try_new(vec![batch], schema, None)?))
}
