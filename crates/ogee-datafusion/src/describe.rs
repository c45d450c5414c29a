//! `DESCRIBE` and `SHOW`: the columns of a table or a query, and the tables there are, as DuckDB shows them.
//!
//! Not here: settings that `SHOW` names.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use datafusion::{
    arrow::{
        array::{ArrayRef, BooleanArray, Int32Array, ListBuilder, RecordBatch, StringBuilder},
        datatypes::{Field, Schema},
    },
    catalog::TableProvider,
    common::TableReference,
    execution::{SendableRecordBatchStream, SessionState},
    physical_plan::memory::MemoryStream,
    sql::{
        parser::Statement as ParsedStatement,
        planner::object_name_to_table_reference,
        sqlparser::ast::{DescribeAlias, ObjectName, Statement as SqlStatement, Value},
    },
};
use ogee_files::spelling::known_spelling;
use ogee_functions::{Error, Result, type_names::sql_name_of};

use ogee_sql::catalogs;

use crate::{session::is_own, table::PagedTable};

/// What a statement wants to be shown.
pub(crate) enum Shown {
    /// The columns of a table, or what else has this name.
    Columns(TableReference),
    /// The names of the tables.
    Tables,
    /// The tables with their columns.
    AllTables,
    /// The columns of a table, as `PRAGMA table_info` shows them.
    Info(TableReference),
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
            SqlStatement::Pragma { name, value, .. } => match (name.to_string().to_ascii_lowercase().as_str(), value) {
                ("show_tables", None) => Some(Self::Tables),
                ("table_info", Some(table)) => {
                    let table = match &table.value {
                        Value::SingleQuotedString(name) | Value::DoubleQuotedString(name) => name.clone(),
                        other => other.to_string(),
                    };
                    Some(Self::Info(TableReference::from(table.as_str())))
                }
                (other, _) => {
                    let instead = "table_info('t') and show_tables are; for settings use SET name = value";
                    return Err(Error::Unsupported(format!("PRAGMA {other} is not supported; {instead}")));
                }
            },
            SqlStatement::ShowTables { show_options, .. } => {
                let options = (&show_options.show_in, &show_options.filter_position, &show_options.starts_with);
                matches!(options, (None, None, None)).then_some(Self::Tables)
            }
            _ => None,
        })
    }
}

/// Whether there is nothing to do for `statement`: it has DuckDB compare its plans with others of the same answer, of which there is nothing to see, or tidies up what tables in memory have no
/// need of.
pub(crate) fn is_done(statement: &ParsedStatement) -> bool {
    let ParsedStatement::Statement(statement) = statement else { return false };
    match &**statement {
        SqlStatement::Pragma { name, value: None, .. } => {
            let name = name.to_string().to_ascii_lowercase();
            let of = name.strip_prefix("enable_").or_else(|| name.strip_prefix("disable_")).unwrap_or(&name);
            matches!(
                of,
                "verification" | "verify_external" | "verify_parallelism" | "verify_serializer" | "force_checkpoint"
            )
        }
        SqlStatement::Vacuum(vacuum) => vacuum.table_name.is_none(),
        SqlStatement::Analyze(analyze) => analyze.table_name.is_none(),
        _ => false,
    }
}

/// The name of a column as it is spelled.
pub(crate) fn name_of(field: &Field) -> &str {
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
        ("column_type", texts(&|at| Some(sql_name_of(&fields[at])))),
        ("null", texts(&|at| Some(if takes_null(at) { "YES" } else { "NO" }.to_owned()))),
        ("key", texts(&|at| keys.get(&at).map(|key| (*key).to_owned()))),
        ("default", texts(&|at| default(fields[at].name()))),
        ("extra", texts(&|_| None)),
    ])
}

/// The rows of `PRAGMA table_info` of a table.
pub(crate) fn info(provider: &Arc<dyn TableProvider>) -> Result<SendableRecordBatchStream> {
    let schema = provider.schema();
    let fields = schema.fields();
    let declared = provider.downcast_ref::<PagedTable>().and_then(PagedTable::keys);
    let is_primary =
        |at: usize| declared.iter().flat_map(|keys| keys.columns()).any(|(key, primary)| primary && key.contains(&at));
    let texts = |of: &dyn Fn(usize) -> Option<String>| -> ArrayRef {
        Arc::new((0..fields.len()).map(of).collect::<datafusion::arrow::array::StringArray>())
    };
    let truths = |of: &dyn Fn(usize) -> bool| -> ArrayRef {
        Arc::new(BooleanArray::from((0..fields.len()).map(of).collect::<Vec<_>>()))
    };
    let default = |at: usize| Some(provider.get_column_default(fields[at].name())?.human_display().to_string());
    rows(vec![
        ("cid", Arc::new(Int32Array::from_iter_values(0..fields.len() as i32))),
        ("name", texts(&|at| Some(name_of(&fields[at]).to_owned()))),
        ("type", texts(&|at| Some(sql_name_of(&fields[at])))),
        ("notnull", truths(&|at| !fields[at].is_nullable() || is_primary(at))),
        ("dflt_value", texts(&default)),
        ("pk", truths(&is_primary)),
    ])
}

/// What DuckDB calls the database and the schema of tables in `schema`: that of tables without one is `main`, and a database that is attached a schema here.
pub(crate) fn shown_place(schema: &str, attached: &BTreeSet<String>) -> (String, String) {
    let (database, main) = (catalogs::DATABASE.to_owned(), catalogs::MAIN.to_owned());
    match schema {
        catalogs::MAIN_SCHEMA => (database, main),
        attached_one if attached.contains(attached_one) => (attached_one.to_owned(), main),
        other => (database, other.to_owned()),
    }
}

/// The tables of a session in the order of their names, without those of the system; `all`: with their columns.
pub(crate) async fn tables(
    state: &SessionState,
    all: bool,
    attached: &BTreeSet<String>,
) -> Result<SendableRecordBatchStream> {
    let mut found = Vec::new();
    for catalog_name in state.catalog_list().catalog_names() {
        let Some(catalog) = state.catalog_list().catalog(&catalog_name) else { continue };
        for schema_name in catalog.schema_names().into_iter().filter(|name| name != "information_schema") {
            let Some(schema) = catalog.schema(&schema_name) else { continue };
            // Names alone are of the schema where names are looked for.
            if !all && schema_name != state.config_options().catalog.default_schema {
                continue;
            }
            for table in schema.table_names().into_iter().filter(|name| !is_own(name)) {
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
            types.values().append_value(sql_name_of(&field));
        }
        columns.append(true);
        types.append(true);
    }
    rows(vec![
        ("database", texts(&|(_, schema, _)| shown_place(schema, attached).0)),
        ("schema", texts(&|(_, schema, _)| shown_place(schema, attached).1)),
        ("name", names),
        ("column_names", Arc::new(columns.finish())),
        ("column_types", Arc::new(types.finish())),
        ("temporary", Arc::new(BooleanArray::from(vec![false; found.len()]))),
    ])
}

/// The rows of these columns, by their names.
pub(crate) fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    let field = |(name, column): &(&str, ArrayRef)| Field::new(*name, column.data_type().clone(), true);
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    Ok(RecordBatch::try_new(schema, columns).map_err(datafusion::error::DataFusionError::from)?)
}

fn rows(columns: Vec<(&str, ArrayRef)>) -> Result<SendableRecordBatchStream> {
    let batch = batch(columns)?;
    let schema = batch.schema();
    Ok(Box::pin(MemoryStream::try_new(vec![batch], schema, None)?))
}
