//! `DESCRIBE` and `SHOW`: the columns of a table or a query, and the tables there are, as DuckDB shows them.
//!
//! Not here: settings that `SHOW` names.

use std::{collections::BTreeSet, sync::Arc};

use datafusion::{
    arrow::{
        array::RecordBatch,
        datatypes::{Field, SchemaRef},
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
use ogee_functions::{Error, Result};
use ogee_sql::catalogs;

use crate::system::{batch, columns_shown, texts};

/// What a statement wants to be shown.
pub(crate) enum Shown {
    /// The columns of a table, or what else has this name.
    Columns(TableReference),
    /// All settings of the planner, or one.
    Settings(Option<String>),
}

/// Pragmas that ask for something that there is not.
const PRAGMAS: [(&str, &str); 7] = [
    ("collations", "COLLATE takes NOCASE, NOACCENT and NFC"),
    ("enable_profiling", "use EXPLAIN ANALYZE, or .timer in the shell"),
    ("enable_profile", "use EXPLAIN ANALYZE, or .timer in the shell"),
    ("functions", "use FROM duckdb_functions()"),
    ("metadata_info", "there are no database files"),
    ("platform", "use PRAGMA version"),
    ("storage_info", "use FROM duckdb_tables()"),
];

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
                [all] if is(&all.value, "all") => Some(Self::Settings(None)),
                [name] => {
                    let name = ObjectName::from(vec![name.clone()]);
                    Some(Self::Columns(object_name_to_table_reference(name, true)?))
                }
                [schema, table] => {
                    let name = ObjectName::from(vec![schema.clone(), table.clone()]);
                    Some(Self::Columns(object_name_to_table_reference(name, true)?))
                }
                parts => {
                    let name = parts.iter().map(|part| part.value.as_str()).collect::<Vec<_>>().join(".");
                    Some(Self::Settings(Some(name)))
                }
            },
            SqlStatement::Pragma { name, .. } => {
                let name = name.to_string().to_ascii_lowercase();
                let instead = PRAGMAS.iter().find(|(known, _)| *known == name).map_or(
                    "table_info(t), show_tables, database_list, database_size and version are; for settings use SET name = value",
                    |(_, instead)| instead,
                );
                return Err(Error::Unsupported(format!("PRAGMA {name} is not supported; {instead}")));
            }
            SqlStatement::ShowTables { .. } => {
                return Err(Error::Unsupported(
                    "a filter of SHOW TABLES is not supported; use FROM duckdb_tables() WHERE ..".to_owned(),
                ));
            }
            SqlStatement::ShowFunctions { .. } => {
                return Err(Error::Unsupported(
                    "SHOW FUNCTIONS is not supported; use FROM duckdb_functions()".to_owned(),
                ));
            }
            SqlStatement::ShowCreate { .. } => {
                let instead = "use SELECT sql FROM duckdb_tables(), or .schema in the shell";
                return Err(Error::Unsupported(format!("SHOW CREATE is not supported; {instead}")));
            }
            SqlStatement::Load { extension_name } | SqlStatement::Install { extension_name } => {
                let name = extension_name.value.to_ascii_lowercase();
                if is_built_in(&name) {
                    return Ok(None);
                }
                return Err(Error::Unsupported(if REMOTE.contains(&name.as_str()) {
                    format!("files by URL, which {name} is for, are read by builds with the feature `remote`")
                } else {
                    format!("there is no extension {name}, nor others: {} are built in", BUILT_IN.join(", "))
                }));
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
            ) || matches!(
                name.as_str(),
                // Answers are the same with and without it, and profiling is never on; progress is the shell's.
                "enable_optimizer"
                    | "disable_optimizer"
                    | "enable_checkpoint_on_shutdown"
                    | "disable_checkpoint_on_shutdown"
                    | "disable_profiling"
                    | "disable_profile"
                    | "enable_progress_bar"
                    | "disable_progress_bar"
                    | "enable_print_progress_bar"
                    | "disable_print_progress_bar"
                    | "enable_object_cache"
                    | "disable_object_cache"
            )
        }
        SqlStatement::Vacuum(_) | SqlStatement::Analyze(_) => true,
        // What those have is built in.
        SqlStatement::Load { extension_name } | SqlStatement::Install { extension_name } => {
            is_built_in(&extension_name.value.to_ascii_lowercase())
        }
        _ => false,
    }
}

/// Extensions of DuckDB's whose functions are here.
const BUILT_IN: &[&str] = &["core_functions", "icu", "json", "parquet"];

/// Those that read files by URL.
const REMOTE: &[&str] = &["aws", "azure", "httpfs"];

fn is_built_in(extension: &str) -> bool {
    BUILT_IN.contains(&extension) || cfg!(feature = "remote") && REMOTE.contains(&extension)
}

/// The name of a column as it is spelled.
pub(crate) fn name_of(field: &Field) -> &str {
    known_spelling(field).unwrap_or(field.name())
}

fn is(word: &str, name: &str) -> bool {
    word.eq_ignore_ascii_case(name)
}

/// The rows of `DESCRIBE` for columns of `schema`, of `table` if they are one's.
pub(crate) fn columns(schema: &SchemaRef, table: Option<&Arc<dyn TableProvider>>) -> Result<SendableRecordBatchStream> {
    rows(columns_shown(schema, table)?)
}

/// The settings of the planner, or the one of this name.
pub(crate) fn settings(state: &SessionState, name: Option<&str>) -> Result<SendableRecordBatchStream> {
    let name = match name.map(str::to_ascii_lowercase) {
        Some(zone) if ["timezone", "time.zone"].contains(&zone.as_str()) => {
            Some("datafusion.execution.time_zone".to_owned())
        }
        name => name,
    };
    let entries = state.config_options().entries();
    let runtime = state.runtime_env().config_entries();
    let mut found: Vec<(String, Option<String>)> = entries
        .into_iter()
        .chain(runtime)
        .filter(|entry| name.as_ref().is_none_or(|name| entry.key == *name))
        .map(|entry| (entry.key, entry.value))
        .collect();
    if let (Some(name), true) = (&name, found.is_empty()) {
        return Err(Error::Plan(format!("there is no table or setting '{name}'; SHOW TABLES and SHOW ALL list them")));
    }
    found.sort();
    rows(batch(vec![
        ("name", texts(found.iter().map(|(name, _)| Some(name)))),
        ("value", texts(found.iter().map(|(_, value)| value.as_ref()))),
    ])?)
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

fn rows(batch: RecordBatch) -> Result<SendableRecordBatchStream> {
    let schema = batch.schema();
    Ok(Box::pin(MemoryStream::try_new(vec![batch], schema, None)?))
}
