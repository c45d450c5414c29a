//! The rows that tell of functions, types, settings, variables, prepared statements and the version.
//!
//! Not here: tables and what belongs to them (`objects`).

use std::collections::HashMap;

use datafusion::{
    arrow::array::RecordBatch,
    error::Result,
    execution::SessionState,
    logical_expr::Volatility,
    sql::{
        parser::Statement as ParsedStatement,
        sqlparser::ast::{EnumMember, Statement as SqlStatement},
    },
};
use ogee_files::remote::Secrets;
use ogee_memory::BufferManager;
use ogee_sql::{
    catalogs::{DATABASE, MAIN, SYSTEM_DATABASE},
    macros::Macros,
    named_types::NamedTypes,
    spellings::Spellings,
};

use super::{
    TellsSettings,
    columns::{batch, lists, no_text, numbers, tags, text, texts, truths},
    snapshot::Snapshot,
};
use crate::{describe::shown_place, variables::Variables};

/// A function, as it is told of.
struct Function {
    name: String,
    alias_of: Option<String>,
    kind: &'static str,
    parameters: Vec<String>,
    definition: Option<String>,
    volatility: Volatility,
    is_internal: bool,
}

/// What is not secret of the secrets that there are.
pub(super) fn secrets(secrets: &Secrets) -> Result<RecordBatch> {
    let all = secrets.list();
    batch(vec![
        ("name", texts(all.iter().map(|secret| Some(&secret.name)))),
        ("type", texts(all.iter().map(|secret| Some(secret.kind)))),
        ("provider", texts(all.iter().map(|secret| Some(secret.provider)))),
        ("persistent", truths(all.iter().map(|_| false))),
        ("storage", text(&all, MEMORY)),
        ("scope", lists(all.iter().map(|secret| secret.scope.clone()))),
        ("secret_string", texts(all.iter().map(|secret| Some(&secret.text)))),
    ])
}

/// The secret that opens a file: `place` is its type and the URL.
pub(super) fn which_secret(secrets: &Secrets, place: &str) -> Result<RecordBatch> {
    let (kind, url) = place.split_once(' ').unwrap_or((place, ""));
    let found: Vec<String> = secrets.name_for(url, kind)?.into_iter().collect();
    batch(vec![
        ("name", texts(found.iter().map(Some))),
        ("persistent", text(&found, "TEMPORARY")),
        ("storage", text(&found, MEMORY)),
    ])
}

/// Where secrets are kept.
const MEMORY: &str = "memory";

pub(super) fn functions(state: &SessionState, macros: &Macros) -> Result<RecordBatch> {
    let mut all = Vec::new();
    let mut add = |name: &str, called: &str, kind: &'static str, volatility: Volatility| {
        all.push(Function {
            name: name.to_owned(),
            alias_of: (name != called).then(|| called.to_owned()),
            kind,
            parameters: Vec::new(),
            definition: None,
            volatility,
            is_internal: true,
        });
    };
    for (name, function) in state.scalar_functions() {
        add(name, function.name(), "scalar", function.signature().volatility);
    }
    for (name, function) in state.aggregate_functions() {
        add(name, function.name(), "aggregate", function.signature().volatility);
    }
    for (name, function) in state.window_functions() {
        add(name, function.name(), "window", function.signature().volatility);
    }
    for name in state.table_functions().keys() {
        add(name, name, "table", Volatility::Volatile);
    }
    for told in macros.list() {
        all.push(Function {
            name: told.name,
            alias_of: None,
            kind: if told.is_table { "table_macro" } else { "macro" },
            parameters: told.parameters,
            definition: Some(told.body),
            volatility: Volatility::Immutable,
            is_internal: false,
        });
    }
    // Some have a name that no statement can write, for what is written otherwise.
    all.retain(|function| !function.name.starts_with("ogee_"));
    all.sort_by(|a, b| (&a.name, a.kind).cmp(&(&b.name, b.kind)));
    let stability = |function: &Function| match (function.definition.is_some(), function.volatility) {
        (true, _) => None,
        (_, Volatility::Immutable) => Some("CONSISTENT"),
        (_, Volatility::Stable) => Some("CONSISTENT_WITHIN_QUERY"),
        (_, Volatility::Volatile) => Some("VOLATILE"),
    };
    let none = || lists(all.iter().map(|_| Vec::<&str>::new()));
    let database = |function: &Function| if function.is_internal { SYSTEM_DATABASE } else { DATABASE };
    batch(vec![
        ("database_name", texts(all.iter().map(|function| Some(database(function))))),
        ("schema_name", text(&all, MAIN)),
        ("function_name", texts(all.iter().map(|function| Some(&function.name)))),
        ("alias_of", texts(all.iter().map(|function| function.alias_of.as_ref()))),
        ("function_type", texts(all.iter().map(|function| Some(function.kind)))),
        ("description", no_text(&all)),
        ("comment", no_text(&all)),
        ("tags", tags(&all)?),
        ("return_type", no_text(&all)),
        ("parameters", lists(all.iter().map(|function| function.parameters.clone()))),
        ("parameter_types", none()),
        ("varargs", no_text(&all)),
        ("macro_definition", texts(all.iter().map(|function| function.definition.as_ref()))),
        (
            "has_side_effects",
            truths(all.iter().map(|function| function.kind == "scalar" && function.volatility == Volatility::Volatile)),
        ),
        ("internal", truths(all.iter().map(|function| function.is_internal))),
        ("function_oid", numbers((0..all.len()).map(|at| Some(50_000 + at as i64)))),
        ("examples", none()),
        ("stability", texts(all.iter().map(stability))),
        ("categories", none()),
    ])
}

/// A type as a row of `TYPES` tells it.
type NamedType = (i64, &'static str, Option<&'static str>, i64, &'static [&'static str]);

/// Types: the number, name and category, the bytes of a value, and other names.
const TYPES: [NamedType; 27] = [
    (10, "BOOLEAN", Some("BOOLEAN"), 1, &["bool", "boolean", "logical"]),
    (11, "TINYINT", Some("NUMERIC"), 1, &["int1", "tinyint"]),
    (12, "SMALLINT", Some("NUMERIC"), 2, &["int16", "int2", "short", "smallint"]),
    (13, "INTEGER", Some("NUMERIC"), 4, &["int", "int32", "int4", "integer", "integral", "signed"]),
    (14, "BIGINT", Some("NUMERIC"), 8, &["bigint", "int64", "int8", "long", "oid"]),
    (15, "DATE", Some("DATETIME"), 4, &["date"]),
    (16, "TIME", Some("DATETIME"), 8, &["time"]),
    (17, "TIMESTAMP_S", Some("DATETIME"), 8, &["timestamp_s"]),
    (18, "TIMESTAMP_MS", Some("DATETIME"), 8, &["timestamp_ms"]),
    (19, "TIMESTAMP", Some("DATETIME"), 8, &["datetime", "timestamp", "timestamp_us"]),
    (20, "TIMESTAMP_NS", Some("DATETIME"), 8, &["timestamp_ns"]),
    (21, "DECIMAL", Some("NUMERIC"), 16, &["dec", "decimal", "numeric"]),
    (22, "FLOAT", Some("NUMERIC"), 4, &["float", "float4", "real"]),
    (23, "DOUBLE", Some("NUMERIC"), 8, &["double", "float8"]),
    (25, "VARCHAR", Some("STRING"), 16, &["bpchar", "char", "nvarchar", "string", "text", "varchar"]),
    (26, "BLOB", None, 16, &["binary", "blob", "bytea", "varbinary"]),
    (27, "INTERVAL", Some("DATETIME"), 16, &["interval"]),
    (28, "UTINYINT", Some("NUMERIC"), 1, &["uint8", "utinyint"]),
    (29, "USMALLINT", Some("NUMERIC"), 2, &["uint16", "usmallint"]),
    (30, "UINTEGER", Some("NUMERIC"), 4, &["uint32", "uinteger"]),
    (31, "UBIGINT", Some("NUMERIC"), 8, &["ubigint", "uint64"]),
    (32, "TIMESTAMP WITH TIME ZONE", Some("DATETIME"), 8, &["timestamp with time zone", "timestamptz"]),
    (36, "BIT", None, 16, &["bit", "bitstring"]),
    (50, "HUGEINT", Some("NUMERIC"), 16, &["hugeint", "int128"]),
    (54, "UUID", None, 16, &["guid", "uuid"]),
    (100, "STRUCT", Some("COMPOSITE"), 0, &["row", "struct"]),
    (102, "MAP", Some("COMPOSITE"), 0, &["map"]),
];

/// The number of the type of this name.
pub(super) fn type_number(name: &str) -> Option<i64> {
    if name.ends_with("[]") {
        return Some(101);
    }
    if name.ends_with(']') {
        return Some(108);
    }
    let base = name.split('(').next().unwrap_or(name);
    match base {
        "ENUM" => Some(104),
        // A text.
        "JSON" => Some(25),
        base => TYPES.iter().find(|(_, known, ..)| *known == base).map(|(number, ..)| *number),
    }
}

pub(super) fn types(named: &NamedTypes) -> Result<RecordBatch> {
    struct Type {
        name: String,
        logical: String,
        category: Option<&'static str>,
        number: Option<i64>,
        size: i64,
        labels: Vec<String>,
        is_internal: bool,
    }
    use datafusion::sql::sqlparser::ast::DataType as SqlType;

    let mut all: Vec<Type> = TYPES
        .iter()
        .flat_map(|(number, logical, category, size, names)| {
            names.iter().map(|name| Type {
                name: (*name).to_owned(),
                logical: (*logical).to_owned(),
                category: *category,
                number: Some(*number),
                size: *size,
                labels: Vec::new(),
                is_internal: true,
            })
        })
        .collect();
    for (name, of) in named {
        let text = of.to_string();
        let base = text.split('(').next().unwrap_or(&text).to_ascii_uppercase();
        let number = type_number(&base);
        let known = TYPES.iter().find(|(other, ..)| Some(*other) == number);
        let labels = match of {
            SqlType::Enum(members, _) => members
                .iter()
                .map(|member| match member {
                    EnumMember::Name(name) | EnumMember::NamedValue(name, _) => name.clone(),
                })
                .collect(),
            _ => Vec::new(),
        };
        all.push(Type {
            name: name.clone(),
            category: known.and_then(|(_, _, category, ..)| *category),
            size: known.map_or(1, |(_, _, _, size, _)| *size),
            logical: known.map_or(base, |(_, logical, ..)| (*logical).to_owned()),
            number,
            labels,
            is_internal: false,
        });
    }
    all.sort_by(|a, b| (!a.is_internal, &a.name).cmp(&(!b.is_internal, &b.name)));
    let database = |of: &Type| if of.is_internal { SYSTEM_DATABASE } else { DATABASE };
    batch(vec![
        ("database_name", texts(all.iter().map(|of| Some(database(of))))),
        ("schema_name", text(&all, MAIN)),
        ("schema_oid", numbers(all.iter().map(|_| None))),
        ("type_oid", numbers(all.iter().map(|of| of.number))),
        ("type_name", texts(all.iter().map(|of| Some(&of.name)))),
        ("type_size", numbers(all.iter().map(|of| Some(of.size)))),
        ("logical_type", texts(all.iter().map(|of| Some(&of.logical)))),
        ("type_category", texts(all.iter().map(|of| of.category))),
        ("comment", no_text(&all)),
        ("tags", tags(&all)?),
        ("internal", truths(all.iter().map(|of| of.is_internal))),
        ("labels", lists(all.iter().map(|of| of.labels.clone()))),
    ])
}

pub(super) fn settings(tells: Option<&TellsSettings>) -> Result<RecordBatch> {
    let all = tells.map(|tells| tells()).unwrap_or_default();
    batch(vec![
        ("name", texts(all.iter().map(|setting| Some(setting.name)))),
        ("value", texts(all.iter().map(|setting| Some(&setting.value)))),
        ("description", texts(all.iter().map(|setting| Some(setting.description)))),
        ("input_type", texts(all.iter().map(|setting| Some(setting.input_type)))),
        ("scope", text(&all, "GLOBAL")),
        ("aliases", lists(all.iter().map(|setting| setting.aliases.to_vec()))),
    ])
}

pub(super) fn variables(variables: &Variables) -> Result<RecordBatch> {
    let all = variables.list();
    batch(vec![
        ("name", texts(all.iter().map(|(name, ..)| Some(name)))),
        ("value", texts(all.iter().map(|(_, value, _)| value.as_ref()))),
        ("type", texts(all.iter().map(|(.., of)| Some(of)))),
    ])
}

pub(super) fn prepared(kept: &HashMap<String, (ParsedStatement, Spellings)>) -> Result<RecordBatch> {
    let mut all: Vec<(String, String)> = kept
        .iter()
        .map(|(name, (statement, _))| {
            let text = match statement {
                ParsedStatement::Statement(prepare) => match &**prepare {
                    SqlStatement::Prepare { statement, .. } => statement.to_string(),
                    other => other.to_string(),
                },
                other => other.to_string(),
            };
            (name.clone(), text)
        })
        .collect();
    all.sort();
    batch(vec![
        ("name", texts(all.iter().map(|(name, _)| Some(name)))),
        ("statement", texts(all.iter().map(|(_, text)| Some(text)))),
    ])
}

pub(super) fn version() -> Result<RecordBatch> {
    let version = format!("v{}", env!("CARGO_PKG_VERSION"));
    batch(vec![
        ("library_version", texts([Some(version)].into_iter())),
        ("source_id", texts([Some("")].into_iter())),
        ("codename", texts([Some("Ogee")].into_iter())),
    ])
}

/// The databases that are not of the system.
fn databases(snapshot: &Snapshot) -> Vec<&String> {
    snapshot.databases.iter().filter(|name| *name != SYSTEM_DATABASE).collect()
}

pub(super) fn database_list(snapshot: &Snapshot) -> Result<RecordBatch> {
    let all = databases(snapshot);
    batch(vec![
        ("seq", numbers(all.iter().map(|name| snapshot.database_oid(name)))),
        ("name", texts(all.iter().map(Some))),
        ("file", no_text(&all)),
    ])
}

pub(super) fn database_size(snapshot: &Snapshot, memory: &BufferManager) -> Result<RecordBatch> {
    let all = databases(snapshot);
    let stats = memory.stats();
    let none = || numbers(all.iter().map(|_| Some(0)));
    batch(vec![
        ("database_name", texts(all.iter().map(Some))),
        ("database_size", text(&all, "0 bytes")),
        ("block_size", none()),
        ("total_blocks", none()),
        ("used_blocks", none()),
        ("free_blocks", none()),
        ("wal_size", text(&all, "0 bytes")),
        ("memory_usage", text(&all, &size(stats.used))),
        ("memory_limit", text(&all, &size(stats.limit))),
    ])
}

pub(super) fn memory(memory: &BufferManager) -> Result<RecordBatch> {
    let stats = memory.stats();
    let bytes = |bytes: u64| numbers([Some(i64::try_from(bytes).unwrap_or(i64::MAX))].into_iter());
    batch(vec![
        ("tag", texts([Some("ALLOCATOR")].into_iter())),
        ("memory_usage_bytes", bytes(stats.used as u64)),
        ("temporary_storage_bytes", bytes(stats.temp_bytes)),
    ])
}

/// `1.5 GiB`
fn size(bytes: usize) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return if bytes == 1 { "1 byte".to_owned() } else { format!("{bytes} bytes") };
    }
    let power = ((usize::BITS - 1 - bytes.leading_zeros()) / 10).min(5) as usize;
    format!("{:.1} {}", bytes as f64 / 1024_f64.powi(power as i32), UNITS[power - 1])
}

pub(super) fn show_databases(snapshot: &Snapshot) -> Result<RecordBatch> {
    batch(vec![("database_name", texts(databases(snapshot).into_iter().map(Some)))])
}

pub(super) fn show_schemas(state: &SessionState, snapshot: &Snapshot) -> Result<RecordBatch> {
    let attached = databases(snapshot).into_iter().filter(|name| *name != DATABASE).cloned().collect();
    let here = shown_place(&state.config_options().catalog.default_schema, &attached);
    let all: Vec<_> = snapshot.schemas.iter().filter(|schema| schema.database != SYSTEM_DATABASE).collect();
    let is_here = |database: &str, name: &str| here.0 == database && here.1 == name;
    batch(vec![
        ("database_name", texts(all.iter().map(|schema| Some(&schema.database)))),
        ("schema_name", texts(all.iter().map(|schema| Some(&schema.name)))),
        ("current", truths(all.iter().map(|schema| is_here(&schema.database, &schema.name)))),
    ])
}
