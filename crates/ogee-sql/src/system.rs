//! Tables that tell of the catalog: `duckdb_tables()`, `pragma_table_info('t')`, `information_schema.columns`, `pg_class`.
//!
//! They are in schemas of their own, which list no tables. A call of a function becomes the name of a table there, with its argument in it; `pg_class` and `sqlite_master` alone are theirs where no
//! other table has the name (`catalogs`). Those of the standard and of PostgreSQL are queries of the others ([`query_of`]).
//!
//! Not here: what is in them.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::ast::{
        Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, TableAlias, TableFactor, Value, VisitorMut,
    },
};
use ogee_functions::{Error, Result};

use crate::{names::normal_name, syntax};

/// The schema of what functions of the catalog give.
pub const SYSTEM: &str = "ogee_system";
/// The schema of the standard.
pub const INFORMATION: &str = "information_schema";
/// The schema of PostgreSQL.
pub const POSTGRES: &str = "pg_catalog";

/// Whether `schema` is one of those that tell of the catalog.
pub fn is_system(schema: &str) -> bool {
    [SYSTEM, INFORMATION, POSTGRES].contains(&schema)
}

/// Functions without arguments.
const FUNCTIONS: &[&str] = &[
    "duckdb_columns",
    "duckdb_constraints",
    "duckdb_databases",
    "duckdb_functions",
    "duckdb_indexes",
    "duckdb_memory",
    "duckdb_prepared_statements",
    "duckdb_schemas",
    "duckdb_secrets",
    "duckdb_sequences",
    "duckdb_settings",
    "duckdb_tables",
    "duckdb_types",
    "duckdb_variables",
    "duckdb_views",
    "pragma_database_list",
    "pragma_database_size",
    "pragma_show_databases",
    "pragma_show_schemas",
    "pragma_show_tables_expanded",
    "pragma_version",
];

/// Functions with the name of a table or of a schema for their argument.
const OF_NAMES: [&str; 3] = ["pragma_show", "pragma_show_tables", "pragma_table_info"];

/// The function of a URL and the type of a secret.
const WHICH_SECRET: &str = "which_secret";

/// Those that are tables, too.
const VIEWS: [&str; 9] = [
    "duckdb_columns",
    "duckdb_constraints",
    "duckdb_databases",
    "duckdb_indexes",
    "duckdb_schemas",
    "duckdb_tables",
    "duckdb_types",
    "duckdb_views",
    "pragma_database_list",
];

/// Whether a table of schema [`SYSTEM`] has this name.
pub fn is_told(name: &str) -> bool {
    FUNCTIONS.contains(&name) || OF_NAMES.contains(&called(name).0) || called(name).0 == WHICH_SECRET
}

/// Whether it is a function that takes nothing.
fn is_without_arguments(name: &str) -> bool {
    FUNCTIONS.contains(&name) || SYSTEM_QUERIES.iter().any(|(known, _)| *known == name)
}

/// The function that the table `name` of schema [`SYSTEM`] is of, and its argument.
pub fn called(name: &str) -> (&str, Option<&str>) {
    name.split_once(' ').map_or((name, None), |(function, argument)| (function, Some(argument)))
}

/// The schema of the table that `name` alone is of, where no other table has it.
pub fn schema_of(name: &str) -> Option<&'static str> {
    if VIEWS.contains(&name) {
        return Some(SYSTEM);
    }
    if SQLITE.iter().any(|(known, _)| *known == name) {
        return Some(POSTGRES);
    }
    POSTGRES_TABLES.iter().any(|(known, _)| *known == name).then_some(POSTGRES)
}

/// Has `statement` read tables where it calls such functions.
///
/// # Errors
/// A function of one name is called with something else.
pub(crate) fn write_out(statement: &mut Parsed) -> Result<()> {
    struct Told;

    impl VisitorMut for Told {
        type Break = Error;

        fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
            match in_factor(factor) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            }
        }
    }

    syntax::visit(statement, &mut Told).break_value().map_or(Ok(()), Err)
}

fn in_factor(factor: &mut TableFactor) -> Result<()> {
    let TableFactor::Table { name, args, alias, .. } = factor else { return Ok(()) };
    let Some(given) = args else { return Ok(()) };
    let [function] = name.0.as_slice() else { return Ok(()) };
    let Some(ident) = function.as_ident().cloned() else { return Ok(()) };
    let function = normal_name(&ident);
    let wants_name = OF_NAMES.contains(&function.as_str());
    let table = match given.args.as_slice() {
        [] if is_without_arguments(&function) || function == "pragma_show_tables" => function,
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] if wants_name => match &value.value {
            Value::SingleQuotedString(argument) => format!("{function} {argument}"),
            _ => return Err(Error::Plan(format!("{function} takes a name as a text: {function}('t')"))),
        },
        _ if wants_name => return Err(Error::Plan(format!("{function} takes a name as a text: {function}('t')"))),
        [
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(url))),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(kind))),
        ] if function == WHICH_SECRET => match (&url.value, &kind.value) {
            (Value::SingleQuotedString(url), Value::SingleQuotedString(kind)) => format!("{function} {kind} {url}"),
            _ => return Err(of_which_secret()),
        },
        _ if function == WHICH_SECRET => return Err(of_which_secret()),
        _ if is_without_arguments(&function) => {
            return Err(Error::Plan(format!("{function} takes no arguments")));
        }
        _ => return Ok(()),
    };
    *name = ObjectName::from(vec![Ident::new(SYSTEM), Ident::with_quote('"', table)]);
    *args = None;
    if alias.is_none() {
        *alias = Some(TableAlias { explicit: true, name: ident, columns: Vec::new(), at: None });
    }
    Ok(())
}

fn of_which_secret() -> Error {
    Error::Plan(format!(
        "{WHICH_SECRET} takes a URL and the type of a secret as texts: {WHICH_SECRET}('s3://bucket/x', 's3')"
    ))
}

/// The query of the table `name` of `schema`, where that is one of queries.
pub fn query_of(schema: &str, name: &str) -> Option<&'static str> {
    let of: &[(&str, &str)] = match schema {
        SYSTEM => &SYSTEM_QUERIES,
        INFORMATION => &INFORMATION_TABLES,
        POSTGRES => &POSTGRES_TABLES,
        _ => return None,
    };
    let found = of.iter().find(|(known, _)| *known == name);
    let found = found.or_else(|| SQLITE.iter().find(|(known, _)| schema == POSTGRES && *known == name));
    found.map(|(_, query)| *query)
}

/// Functions that are queries, of what there is none here for the most part.
const SYSTEM_QUERIES: [(&str, &str); 13] = [
    ("duckdb_approx_database_count", "SELECT count(*)::UBIGINT AS approx_count FROM duckdb_databases() WHERE NOT internal"),
    ("duckdb_connection_count", "SELECT 1::UBIGINT AS count"),
    (
        "duckdb_dependencies",
        "SELECT 0::BIGINT AS classid, 0::BIGINT AS objid, 0::INTEGER AS objsubid, 0::BIGINT AS refclassid, 0::BIGINT AS refobjid,
0::INTEGER AS refobjsubid, '' AS deptype WHERE false",
    ),
    (
        "duckdb_extensions",
        "SELECT extension_name, true AS loaded, true AS installed, '(BUILT-IN)' AS install_path, description, []::VARCHAR[] AS aliases,
version() AS extension_version, 'STATICALLY_LINKED' AS install_mode, '' AS installed_from, NULL::VARCHAR AS signature_key_fingerprint
FROM (VALUES ('core_functions', 'Core function library'),
('icu', 'Adds support for time zones and collations using the ICU library'), ('json', 'Adds support for JSON operations'),
('parquet', 'Adds support for reading and writing parquet files')) AS known(extension_name, description)",
    ),
    (
        "duckdb_external_file_cache",
        "SELECT '' AS path, 0::BIGINT AS nr_bytes, 0::BIGINT AS location, false AS loaded, false AS spilled WHERE false",
    ),
    (
        "duckdb_log_contexts",
        "SELECT 0::UBIGINT AS context_id, '' AS scope, 0::UBIGINT AS connection_id, 0::UBIGINT AS transaction_id,
0::UBIGINT AS query_id, 0::UBIGINT AS thread_id WHERE false",
    ),
    (
        "duckdb_logs",
        "SELECT 0::UBIGINT AS context_id, now() AS timestamp, '' AS type, '' AS log_level, '' AS message WHERE false",
    ),
    ("duckdb_optimizers", "SELECT '' AS name WHERE false"),
    (
        "duckdb_secret_types",
        "SELECT type, 'config' AS default_provider, '' AS extension FROM (VALUES ('s3'), ('gcs'), ('azure'), ('http')) AS known(type)",
    ),
    (
        "duckdb_temporary_files",
        "SELECT '' AS path, temporary_storage_bytes AS size FROM duckdb_memory() WHERE false",
    ),
    ("pragma_metadata_info", "SELECT 0::BIGINT AS block_id, 0::BIGINT AS total_blocks, 0::BIGINT AS free_blocks, []::BIGINT[] AS free_list WHERE false"),
    ("pragma_collations", "SELECT unnest(['noaccent', 'nocase', 'nfc']) AS collname"),
    ("pragma_user_agent", "SELECT 'ogee/' || version() AS user_agent"),
];

/// What SQLite calls its catalog.
const SQLITE: [(&str, &str); 2] = [("sqlite_master", SQLITE_MASTER), ("sqlite_schema", SQLITE_MASTER)];

const SQLITE_MASTER: &str = "SELECT 'table' AS type, table_name AS name, table_name AS tbl_name, 0::INTEGER AS rootpage, sql FROM duckdb_tables()
UNION ALL SELECT 'view', view_name, view_name, 0::INTEGER, sql FROM duckdb_views()
UNION ALL SELECT 'index', index_name, table_name, 0::INTEGER, sql FROM duckdb_indexes()";

const INFORMATION_TABLES: [(&str, &str); 9] = [
    (
        "tables",
        r#"SELECT database_name AS table_catalog, schema_name AS table_schema, table_name,
if(temporary, 'LOCAL TEMPORARY', 'BASE TABLE') AS table_type,
NULL::VARCHAR AS self_referencing_column_name, NULL::VARCHAR AS reference_generation, NULL::VARCHAR AS user_defined_type_catalog,
NULL::VARCHAR AS user_defined_type_schema, NULL::VARCHAR AS user_defined_type_name,
'YES' AS is_insertable_into, 'NO' AS is_typed, if(temporary, 'PRESERVE', NULL) AS commit_action, "comment" AS "TABLE_COMMENT"
FROM duckdb_tables()
UNION ALL SELECT database_name, schema_name, view_name, 'VIEW', NULL, NULL, NULL, NULL, NULL, 'NO', 'NO', NULL, "comment" FROM duckdb_views()"#,
    ),
    (
        "columns",
        r#"SELECT database_name AS table_catalog, schema_name AS table_schema, table_name, column_name, column_index AS ordinal_position,
column_default, if(is_nullable, 'YES', 'NO') AS is_nullable, data_type, character_maximum_length, NULL::INTEGER AS character_octet_length,
numeric_precision, numeric_precision_radix, numeric_scale, NULL::INTEGER AS datetime_precision, NULL::VARCHAR AS interval_type,
NULL::INTEGER AS interval_precision, NULL::VARCHAR AS character_set_catalog, NULL::VARCHAR AS character_set_schema,
NULL::VARCHAR AS character_set_name, NULL::VARCHAR AS collation_catalog, NULL::VARCHAR AS collation_schema,
NULL::VARCHAR AS collation_name, NULL::VARCHAR AS domain_catalog, NULL::VARCHAR AS domain_schema, NULL::VARCHAR AS domain_name,
NULL::VARCHAR AS udt_catalog, NULL::VARCHAR AS udt_schema, NULL::VARCHAR AS udt_name, NULL::VARCHAR AS scope_catalog,
NULL::VARCHAR AS scope_schema, NULL::VARCHAR AS scope_name, NULL::BIGINT AS maximum_cardinality, NULL::VARCHAR AS dtd_identifier,
NULL::BOOLEAN AS is_self_referencing, NULL::BOOLEAN AS is_identity, NULL::VARCHAR AS identity_generation,
NULL::VARCHAR AS identity_start, NULL::VARCHAR AS identity_increment, NULL::VARCHAR AS identity_maximum,
NULL::VARCHAR AS identity_minimum, NULL::BOOLEAN AS identity_cycle, if(is_generated, 'ALWAYS', 'NEVER') AS is_generated,
generation_expression, NULL::BOOLEAN AS is_updatable, "comment" AS "COLUMN_COMMENT" FROM duckdb_columns()"#,
    ),
    (
        "schemata",
        "SELECT database_name AS catalog_name, schema_name, 'duckdb' AS schema_owner, NULL::VARCHAR AS default_character_set_catalog,
NULL::VARCHAR AS default_character_set_schema, NULL::VARCHAR AS default_character_set_name, sql AS sql_path FROM duckdb_schemas()",
    ),
    (
        "views",
        "SELECT database_name AS table_catalog, schema_name AS table_schema, view_name AS table_name, sql AS view_definition,
'NONE' AS check_option, 'NO' AS is_updatable, 'NO' AS is_insertable_into, 'NO' AS is_trigger_updatable, 'NO' AS is_trigger_deletable,
'NO' AS is_trigger_insertable_into FROM duckdb_views()",
    ),
    (
        "key_column_usage",
        "SELECT constraint_catalog, constraint_schema, constraint_name, table_catalog, table_schema, table_name, names[at] AS column_name,
at AS ordinal_position, if(is_foreign, at, NULL) AS position_in_unique_constraint FROM (
SELECT database_name AS constraint_catalog, schema_name AS constraint_schema, constraint_name, database_name AS table_catalog,
schema_name AS table_schema, table_name, constraint_column_names AS names, unnest(generate_series(1, len(constraint_column_names))) AS at,
constraint_type = 'FOREIGN KEY' AS is_foreign FROM duckdb_constraints()
WHERE constraint_type IN ('FOREIGN KEY', 'PRIMARY KEY', 'UNIQUE')) AS used",
    ),
    (
        "table_constraints",
        "SELECT database_name AS constraint_catalog, schema_name AS constraint_schema, constraint_name, database_name AS table_catalog,
schema_name AS table_schema, table_name, if(constraint_type = 'NOT NULL', 'CHECK', constraint_type) AS constraint_type,
'NO' AS is_deferrable, 'NO' AS initially_deferred, 'YES' AS enforced, 'YES' AS nulls_distinct FROM duckdb_constraints()",
    ),
    (
        "referential_constraints",
        "SELECT f.database_name AS constraint_catalog, f.schema_name AS constraint_schema, f.constraint_name,
k.database_name AS unique_constraint_catalog, k.schema_name AS unique_constraint_schema, k.constraint_name AS unique_constraint_name,
'NONE' AS match_option, 'NO ACTION' AS update_rule, 'NO ACTION' AS delete_rule
FROM duckdb_constraints() AS f JOIN duckdb_constraints() AS k ON k.schema_oid = f.schema_oid AND k.table_name = f.referenced_table
AND k.constraint_column_names = f.referenced_column_names
WHERE f.constraint_type = 'FOREIGN KEY' AND k.constraint_type IN ('PRIMARY KEY', 'UNIQUE')",
    ),
    (
        "constraint_column_usage",
        "SELECT database_name AS table_catalog, schema_name AS table_schema, table_name, unnest(constraint_column_names) AS column_name,
database_name AS constraint_catalog, schema_name AS constraint_schema, constraint_name, constraint_type, constraint_text
FROM duckdb_constraints() WHERE constraint_type <> 'NOT NULL'",
    ),
    (
        "character_sets",
        "SELECT NULL::VARCHAR AS character_set_catalog, NULL::VARCHAR AS character_set_schema, 'UTF8' AS character_set_name,
'UCS' AS character_repertoire, 'UTF8' AS form_of_use, current_database() AS default_collate_catalog,
'pg_catalog' AS default_collate_schema, 'ucs_basic' AS default_collate_name",
    ),
];

const POSTGRES_TABLES: [(&str, &str); 22] = [
    (
        "pg_class",
        "SELECT oid, relname, relnamespace, 0::INTEGER AS reltype, 0::INTEGER AS reloftype, 0::INTEGER AS relowner, 0::INTEGER AS relam,
0::INTEGER AS relfilenode, 0::INTEGER AS reltablespace, 0::INTEGER AS relpages, reltuples, 0::INTEGER AS relallvisible,
0::INTEGER AS reltoastrelid, 0::INTEGER AS reltoastidxid, relhasindex, false AS relisshared, relpersistence, relkind, relnatts, relchecks,
false AS relhasoids, relhaspkey, false AS relhasrules, false AS relhastriggers, false AS relhassubclass, false AS relrowsecurity,
true AS relispopulated, NULL AS relreplident, false AS relispartition, 0::INTEGER AS relrewrite, 0::INTEGER AS relfrozenxid, NULL AS relminmxid,
NULL AS relacl, NULL AS reloptions, NULL AS relpartbound FROM (
SELECT table_oid AS oid, table_name AS relname, schema_oid AS relnamespace, estimated_size::FLOAT AS reltuples, index_count > 0 AS relhasindex,
if(temporary, 't', 'p') AS relpersistence, 'r' AS relkind, column_count AS relnatts, check_constraint_count AS relchecks,
has_primary_key AS relhaspkey FROM duckdb_tables()
UNION ALL SELECT view_oid, view_name, schema_oid, 0, false, if(temporary, 't', 'p'), 'v', column_count, 0, false FROM duckdb_views()
UNION ALL SELECT sequence_oid, sequence_name, schema_oid, 0, false, 'p', 'S', 0, 0, false FROM duckdb_sequences()
UNION ALL SELECT index_oid, index_name, schema_oid, 0, false, 'p', 'i', NULL, 0, false FROM duckdb_indexes()) AS class",
    ),
    (
        "pg_tables",
        "SELECT schema_name AS schemaname, table_name AS tablename, 'duckdb' AS tableowner, NULL AS tablespace, index_count > 0 AS hasindexes,
false AS hasrules, false AS hastriggers FROM duckdb_tables()",
    ),
    ("pg_namespace", "SELECT oid, schema_name AS nspname, 0::INTEGER AS nspowner, NULL AS nspacl FROM duckdb_schemas()"),
    (
        "pg_type",
        "SELECT type_oid AS oid, type_name AS typname, schema_oid AS typnamespace, 0::INTEGER AS typowner, type_size AS typlen, false AS typbyval,
if(logical_type = 'ENUM', 'e', 'b') AS typtype,
CASE type_category WHEN 'NUMERIC' THEN 'N' WHEN 'STRING' THEN 'S' WHEN 'DATETIME' THEN 'D' WHEN 'BOOLEAN' THEN 'B' WHEN 'COMPOSITE' THEN 'C' ELSE 'X' END
AS typcategory, false AS typispreferred, true AS typisdefined, NULL AS typdelim, NULL AS typrelid, NULL AS typsubscript, NULL AS typelem,
NULL AS typarray, NULL AS typinput, NULL AS typoutput, NULL AS typreceive, NULL AS typsend, NULL AS typmodin, NULL AS typmodout,
NULL AS typanalyze, 'd' AS typalign, 'p' AS typstorage, NULL AS typnotnull, NULL AS typbasetype, NULL AS typtypmod, NULL AS typndims,
NULL AS typcollation, NULL AS typdefaultbin, NULL AS typdefault, NULL AS typacl FROM duckdb_types()",
    ),
    (
        "pg_attribute",
        "SELECT table_oid AS attrelid, column_name AS attname, data_type_id AS atttypid, 0::INTEGER AS attstattarget, NULL AS attlen,
column_index AS attnum, 0::INTEGER AS attndims, -1::INTEGER AS attcacheoff,
if(data_type LIKE 'DECIMAL%', numeric_precision * 1000 + numeric_scale, -1)::INTEGER AS atttypmod, false AS attbyval,
NULL AS attstorage, NULL AS attalign, NOT is_nullable AS attnotnull, column_default IS NOT NULL AS atthasdef, false AS atthasmissing, '' AS attidentity,
if(is_generated, 's', '') AS attgenerated, false AS attisdropped, true AS attislocal, 0::INTEGER AS attinhcount, 0::INTEGER AS attcollation,
NULL AS attcompression, NULL AS attacl, NULL AS attoptions, NULL AS attfdwoptions, NULL AS attmissingval FROM duckdb_columns()",
    ),
    (
        "pg_attrdef",
        "SELECT column_index AS oid, table_oid AS adrelid, column_index AS adnum, column_default AS adbin FROM duckdb_columns()
WHERE column_default IS NOT NULL",
    ),
    ("pg_views", "SELECT schema_name AS schemaname, view_name AS viewname, 'duckdb' AS viewowner, sql AS definition FROM duckdb_views()"),
    (
        "pg_database",
        "SELECT database_oid AS oid, database_name AS datname, true AS datallowconn, false AS datistemplate FROM duckdb_databases()",
    ),
    (
        "pg_index",
        "SELECT index_oid AS indexrelid, table_oid AS indrelid, 0::INTEGER AS indnatts, 0::INTEGER AS indnkeyatts, is_unique AS indisunique,
is_primary AS indisprimary, false AS indisexclusion, true AS indimmediate, false AS indisclustered, true AS indisvalid, false AS indcheckxmin,
true AS indisready, true AS indislive, false AS indisreplident, NULL::INTEGER[] AS indkey, NULL::BIGINT[] AS indcollation,
NULL::BIGINT[] AS indclass, NULL::INTEGER[] AS indoption, expressions AS indexprs, NULL AS indpred
FROM duckdb_indexes()",
    ),
    (
        "pg_indexes",
        "SELECT schema_name AS schemaname, table_name AS tablename, index_name AS indexname, NULL AS tablespace, sql AS indexdef FROM duckdb_indexes()",
    ),
    (
        "pg_constraint",
        "SELECT table_oid * 1000000 + constraint_index AS oid, constraint_text AS conname, schema_oid AS connamespace,
CASE constraint_type WHEN 'CHECK' THEN 'c' WHEN 'FOREIGN KEY' THEN 'f' WHEN 'PRIMARY KEY' THEN 'p' WHEN 'UNIQUE' THEN 'u' ELSE 'x' END AS contype,
false AS condeferrable, false AS condeferred, true AS convalidated, table_oid AS conrelid, 0::INTEGER AS contypid, 0::INTEGER AS conindid, 0::INTEGER AS conparentid,
0::INTEGER AS confrelid, NULL AS confupdtype, NULL AS confdeltype, NULL AS confmatchtype, true AS conislocal, 0::INTEGER AS coninhcount,
false AS connoinherit, constraint_column_indexes AS conkey, NULL AS confkey, NULL AS conpfeqop, NULL AS conppeqop, NULL AS conffeqop,
NULL AS conexclop, expression AS conbin FROM duckdb_constraints()",
    ),
    (
        "pg_sequences",
        "SELECT schema_name AS schemaname, sequence_name AS sequencename, 'duckdb' AS sequenceowner, 0::INTEGER AS data_type, start_value, min_value,
max_value, increment_by, cycle, 0::INTEGER AS cache_size, last_value FROM duckdb_sequences()",
    ),
    (
        "pg_settings",
        "SELECT name, value AS setting, description AS short_desc, input_type AS vartype FROM duckdb_settings()",
    ),
    ("pg_am", "SELECT 0::INTEGER AS oid, 'art' AS amname, NULL AS amhandler, 'i' AS amtype"),
    ("pg_collation", "SELECT 0::BIGINT AS oid, '' AS collname WHERE false"),
    (
        "pg_depend",
        "SELECT classid, objid, objsubid, refclassid, refobjid, refobjsubid, deptype FROM duckdb_dependencies()",
    ),
    (
        "pg_description",
        r#"SELECT objoid, classoid, objsubid, description FROM (
SELECT table_oid AS objoid, 'pg_class' AS classoid, 0::INTEGER AS objsubid, "comment" AS description FROM duckdb_tables()
UNION ALL SELECT table_oid, 'pg_class', column_index, "comment" FROM duckdb_columns()
UNION ALL SELECT view_oid, 'pg_class', 0, "comment" FROM duckdb_views()
UNION ALL SELECT sequence_oid, 'pg_class', 0, "comment" FROM duckdb_sequences()
UNION ALL SELECT type_oid, 'pg_type', 0, "comment" FROM duckdb_types()) AS told WHERE description IS NOT NULL"#,
    ),
    (
        "pg_enum",
        "SELECT NULL AS oid, type_oid AS enumtypid, at::INTEGER AS enumsortorder, labels[at] AS enumlabel FROM (
SELECT type_oid, labels, unnest(generate_series(1, len(labels))) AS at FROM duckdb_types() WHERE logical_type = 'ENUM') AS enums",
    ),
    (
        "pg_prepared_statements",
        "SELECT name, statement, NULL AS prepare_time, NULL::VARCHAR[] AS parameter_types, NULL::VARCHAR[] AS result_types, NULL AS from_sql, NULL AS generic_plans,
NULL AS custom_plans FROM duckdb_prepared_statements()",
    ),
    (
        "pg_proc",
        "SELECT function_oid AS oid, function_name AS proname, 0::BIGINT AS pronamespace, NULL AS proowner, NULL AS prolang, 0::INTEGER AS procost,
0::INTEGER AS prorows, varargs AS provariadic, 0::INTEGER AS prosupport, if(function_type = 'aggregate', 'a', 'f') AS prokind,
false AS prosecdef, false AS proleakproof, false AS proisstrict, function_type = 'table' AS proretset,
CASE WHEN has_side_effects THEN 'v' ELSE 'i' END AS provolatile, 'u' AS proparallel, len(parameters) AS pronargs, 0::INTEGER AS pronargdefaults,
return_type AS prorettype, parameter_types AS proargtypes, NULL AS proallargtypes, NULL AS proargmodes, parameters AS proargnames,
NULL AS proargdefaults, NULL AS protrftypes, NULL AS prosrc, NULL AS probin, macro_definition AS prosqlbody, NULL AS proconfig, NULL AS proacl,
function_type = 'aggregate' AS proisagg FROM duckdb_functions()",
    ),
    (
        "pg_sequence",
        "SELECT sequence_oid AS seqrelid, 0::INTEGER AS seqtypid, start_value AS seqstart, increment_by AS seqincrement, max_value AS seqmax,
min_value AS seqmin, 0::INTEGER AS seqcache, cycle AS seqcycle FROM duckdb_sequences()",
    ),
    (
        "pg_tablespace",
        "SELECT 0::INTEGER AS oid, 'pg_default' AS spcname, 0::INTEGER AS spcowner, NULL AS spcacl, NULL AS spcoptions",
    ),
];

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::parse;

    #[test]
    fn calls_are_tables() {
        for (sql, usual) in [
            ("FROM duckdb_tables()", "SELECT * FROM ogee_system.\"duckdb_tables\" AS duckdb_tables"),
            (
                "SELECT t.name FROM pragma_table_info('s.t') AS t",
                "SELECT t.name FROM ogee_system.\"pragma_table_info s.t\" AS t",
            ),
            ("PRAGMA table_info(t)", "SELECT * FROM ogee_system.\"pragma_table_info t\" AS pragma_table_info"),
            ("SHOW TABLES FROM s", "SELECT * FROM ogee_system.\"pragma_show_tables s\" AS pragma_show_tables"),
            ("CALL f(3)", "SELECT * FROM f(3)"),
            (
                "SELECT name FROM (SHOW TABLES)",
                "SELECT name FROM (SELECT * FROM ogee_system.\"pragma_show_tables\" AS pragma_show_tables)",
            ),
        ] {
            assert_eq!(parse(sql).unwrap().pop().unwrap().to_string(), usual, "{sql}");
        }
        for sql in ["FROM duckdb_tables(1)", "FROM pragma_table_info(t)", "FROM pragma_table_info()"] {
            let Err(error) = parse(sql) else { panic!("{sql}") };
            assert!(error.to_string().contains("takes"), "{sql}: {error}");
        }
    }

    #[test]
    fn queries_are_queries() {
        let all = INFORMATION_TABLES.iter().chain(&POSTGRES_TABLES).chain(&SQLITE).chain(&SYSTEM_QUERIES);
        for (name, query) in all {
            assert_eq!(parse(query).map(|parsed| parsed.len()).ok(), Some(1), "{name}");
        }
    }
}
