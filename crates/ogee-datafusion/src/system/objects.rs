//! The rows that tell of tables, views, columns, constraints, indexes, sequences, schemas and databases.
//!
//! Not here: what there is (`snapshot`).

use datafusion::{
    arrow::{array::RecordBatch, datatypes::FieldRef},
    common::plan_err,
    error::Result,
    execution::SessionState,
};
use ogee_functions::type_names::sql_name_of;
use ogee_sql::catalogs::{DATABASE, MAIN, SYSTEM_DATABASE};

use super::{
    columns::{batch, lists, no_text, number_lists, numbers, small_numbers, tags, text, texts, truth, truths},
    others::type_number,
    snapshot::{Constraint, Kind, Snapshot, Told, constraints, default_text, made, precision, written},
};
use crate::{
    describe::{name_of, shown_place},
    sequences::Sequences,
    table::PagedTable,
};

fn paged(told: &Told) -> Option<&PagedTable> {
    told.table.downcast_ref()
}

fn width(told: &Told) -> i64 {
    told.table.schema().fields().len() as i64
}

pub(super) fn tables(snapshot: &Snapshot) -> Result<RecordBatch> {
    let all = snapshot.tables();
    let constraints: Vec<Vec<Constraint>> =
        all.iter().map(|told| paged(told).map(constraints).unwrap_or_default()).collect();
    let count = |at: usize, of: &dyn Fn(&Constraint) -> bool| constraints[at].iter().filter(|one| of(one)).count();
    // DuckDB keeps an index for each key, and for each foreign one.
    let keeps = |one: &Constraint| matches!(one.kind, Kind::PrimaryKey | Kind::Unique | Kind::ForeignKey);
    let indexes = |at: usize| paged(all[at]).map_or(0, |table| table.definition().indexes().len()) + count(at, &keeps);
    let rows = |told: &&Told| paged(told).map(|table| table.blocks().iter().map(|block| block.rows() as i64).sum());
    batch(vec![
        ("database_name", texts(all.iter().map(|told| Some(&told.database)))),
        ("database_oid", numbers(all.iter().map(|told| snapshot.database_oid(&told.database)))),
        ("schema_name", texts(all.iter().map(|told| Some(&told.schema)))),
        ("schema_oid", numbers(all.iter().map(|told| Some(told.schema_oid)))),
        ("table_name", texts(all.iter().map(|told| Some(&told.name)))),
        ("table_oid", numbers(all.iter().map(|told| Some(told.oid)))),
        ("comment", texts(all.iter().map(|told| told.comment.as_ref()))),
        ("tags", tags(&all)?),
        ("internal", truth(&all, false)),
        ("temporary", truths(all.iter().map(|told| told.is_temporary))),
        ("has_primary_key", truths((0..all.len()).map(|at| count(at, &|one| one.kind == Kind::PrimaryKey) > 0))),
        ("estimated_size", numbers(all.iter().map(rows))),
        ("column_count", numbers(all.iter().map(|told| Some(width(told))))),
        ("index_count", numbers((0..all.len()).map(|at| Some(indexes(at) as i64)))),
        (
            "check_constraint_count",
            numbers((0..all.len()).map(|at| Some(count(at, &|one| one.kind == Kind::Check) as i64))),
        ),
        ("sql", texts(all.iter().map(|told| made(told)))),
    ])
}

pub(super) fn columns(snapshot: &Snapshot) -> Result<RecordBatch> {
    let all: Vec<(&Told, usize, FieldRef)> = snapshot
        .tables()
        .into_iter()
        .chain(snapshot.views())
        .flat_map(|told| {
            let fields = told.table.schema().fields().to_vec();
            fields.into_iter().enumerate().map(move |(at, field)| (told, at, field))
        })
        .collect();
    let takes_null = |(told, at, field): &(&Told, usize, FieldRef)| {
        let Some(keys) = paged(told).map(PagedTable::keys) else { return true };
        let is_primary = keys.iter().flat_map(|keys| keys.columns()).any(|(of, primary)| primary && of.contains(at));
        field.is_nullable() && !is_primary
    };
    let default = |(told, _, field): &(&Told, usize, FieldRef)| {
        paged(told).and_then(|_| default_text(told.table.as_ref(), field))
    };
    let is_generated = |(told, _, field): &(&Told, usize, FieldRef)| {
        paged(told).is_some_and(|table| table.definition().is_generated(field.name()))
    };
    let digits = |which: fn((i32, i32, i32)) -> i32| {
        small_numbers(all.iter().map(move |(_, _, field)| precision(field.data_type()).map(which)))
    };
    batch(vec![
        ("database_name", texts(all.iter().map(|(told, ..)| Some(&told.database)))),
        ("database_oid", numbers(all.iter().map(|(told, ..)| snapshot.database_oid(&told.database)))),
        ("schema_name", texts(all.iter().map(|(told, ..)| Some(&told.schema)))),
        ("schema_oid", numbers(all.iter().map(|(told, ..)| Some(told.schema_oid)))),
        ("table_name", texts(all.iter().map(|(told, ..)| Some(&told.name)))),
        ("table_oid", numbers(all.iter().map(|(told, ..)| Some(told.oid)))),
        ("column_name", texts(all.iter().map(|(_, _, field)| Some(name_of(field))))),
        ("column_index", small_numbers(all.iter().map(|(_, at, _)| Some(*at as i32 + 1)))),
        ("comment", texts(all.iter().map(|(told, at, _)| told.column_comments.get(*at).and_then(Option::as_ref)))),
        ("internal", truth(&all, false)),
        ("column_default", texts(all.iter().map(default))),
        ("is_nullable", truths(all.iter().map(takes_null))),
        ("data_type", texts(all.iter().map(|(_, _, field)| Some(sql_name_of(field))))),
        ("data_type_id", numbers(all.iter().map(|(_, _, field)| type_number(&sql_name_of(field))))),
        ("character_maximum_length", small_numbers(all.iter().map(|_| None))),
        ("numeric_precision", digits(|(precision, ..)| precision)),
        ("numeric_precision_radix", digits(|(_, radix, _)| radix)),
        ("numeric_scale", digits(|(.., scale)| scale)),
        ("tags", tags(&all)?),
        ("is_generated", truths(all.iter().map(is_generated))),
        ("generation_expression", texts(all.iter().map(|of| is_generated(of).then(|| default(of)).flatten()))),
    ])
}

pub(super) fn views(snapshot: &Snapshot) -> Result<RecordBatch> {
    let all = snapshot.views();
    let sql = |told: &&Told| {
        let definition = told.table.get_table_definition()?.trim_end_matches(';');
        Some(format!("{definition};"))
    };
    batch(vec![
        ("database_name", texts(all.iter().map(|told| Some(&told.database)))),
        ("database_oid", numbers(all.iter().map(|told| snapshot.database_oid(&told.database)))),
        ("schema_name", texts(all.iter().map(|told| Some(&told.schema)))),
        ("schema_oid", numbers(all.iter().map(|told| Some(told.schema_oid)))),
        ("view_name", texts(all.iter().map(|told| Some(&told.name)))),
        ("view_oid", numbers(all.iter().map(|told| Some(told.oid)))),
        ("comment", texts(all.iter().map(|told| told.comment.as_ref()))),
        ("tags", tags(&all)?),
        ("internal", truth(&all, false)),
        ("temporary", truths(all.iter().map(|told| told.is_temporary))),
        ("column_count", numbers(all.iter().map(|told| Some(width(told))))),
        ("sql", texts(all.iter().map(sql))),
        ("is_bound", truth(&all, true)),
    ])
}

pub(super) fn constraints_told(snapshot: &Snapshot) -> Result<RecordBatch> {
    let of = |told: &Told| paged(told).map(constraints).unwrap_or_default();
    let tables = snapshot.tables();
    let all: Vec<_> = tables.iter().flat_map(|told| of(told).into_iter().map(move |one| (*told, one))).collect();
    batch(vec![
        ("database_name", texts(all.iter().map(|(told, _)| Some(&told.database)))),
        ("database_oid", numbers(all.iter().map(|(told, _)| snapshot.database_oid(&told.database)))),
        ("schema_name", texts(all.iter().map(|(told, _)| Some(&told.schema)))),
        ("schema_oid", numbers(all.iter().map(|(told, _)| Some(told.schema_oid)))),
        ("table_name", texts(all.iter().map(|(told, _)| Some(&told.name)))),
        ("table_oid", numbers(all.iter().map(|(told, _)| Some(told.oid)))),
        ("constraint_index", numbers((0..all.len()).map(|at| Some(at as i64)))),
        ("constraint_type", texts(all.iter().map(|(_, one)| Some(one.kind.name())))),
        ("constraint_text", texts(all.iter().map(|(_, one)| Some(&one.text)))),
        ("expression", texts(all.iter().map(|(_, one)| one.expression.as_ref()))),
        (
            "constraint_column_indexes",
            number_lists(all.iter().map(|(_, one)| one.columns.iter().map(|&at| at as i64).collect())),
        ),
        ("constraint_column_names", lists(all.iter().map(|(_, one)| one.names.clone()))),
        ("constraint_name", texts(all.iter().map(|(told, one)| Some(one.name(&told.name))))),
        ("referenced_table", texts(all.iter().map(|(_, one)| one.referenced.as_ref().map(|(table, _)| table)))),
        (
            "referenced_column_names",
            lists(
                all.iter()
                    .map(|(_, one)| one.referenced.as_ref().map(|(_, columns)| columns.clone()).unwrap_or_default()),
            ),
        ),
    ])
}

pub(super) fn schemas(snapshot: &Snapshot) -> Result<RecordBatch> {
    let all = &snapshot.schemas;
    batch(vec![
        ("oid", numbers(all.iter().map(|schema| Some(schema.oid)))),
        ("database_name", texts(all.iter().map(|schema| Some(&schema.database)))),
        ("database_oid", numbers(all.iter().map(|schema| snapshot.database_oid(&schema.database)))),
        ("schema_name", texts(all.iter().map(|schema| Some(&schema.name)))),
        ("comment", no_text(all)),
        ("tags", tags(all)?),
        ("internal", truths(all.iter().map(|schema| schema.is_internal))),
        ("sql", no_text(all)),
    ])
}

pub(super) fn databases(snapshot: &Snapshot) -> Result<RecordBatch> {
    let all = &snapshot.databases;
    batch(vec![
        ("database_name", texts(all.iter().map(Some))),
        ("database_oid", numbers(all.iter().map(|name| snapshot.database_oid(name)))),
        ("path", no_text(all)),
        ("comment", no_text(all)),
        ("tags", tags(all)?),
        ("internal", truths(all.iter().map(|name| name == SYSTEM_DATABASE))),
        ("type", text(all, "duckdb")),
        ("readonly", truth(all, false)),
    ])
}

pub(super) fn indexes(snapshot: &Snapshot) -> Result<RecordBatch> {
    let tables = snapshot.tables();
    let of = |told: &Told| paged(told).map(|table| table.definition().indexes().to_vec()).unwrap_or_default();
    let all: Vec<_> = tables.iter().flat_map(|told| of(told).into_iter().map(move |index| (*told, index))).collect();
    let sql = |(told, index): &(&Told, ogee_sql::changes::IndexText)| {
        let unique = if index.is_unique { "UNIQUE " } else { "" };
        let place = if told.schema == MAIN { String::new() } else { format!("{}.", written(&told.schema)) };
        let of = index.shown().join(", ");
        format!("CREATE {unique}INDEX {} ON {place}{}({of});", written(&index.name), written(&told.name))
    };
    batch(vec![
        ("database_name", texts(all.iter().map(|(told, _)| Some(&told.database)))),
        ("database_oid", numbers(all.iter().map(|(told, _)| snapshot.database_oid(&told.database)))),
        ("schema_name", texts(all.iter().map(|(told, _)| Some(&told.schema)))),
        ("schema_oid", numbers(all.iter().map(|(told, _)| Some(told.schema_oid)))),
        ("index_name", texts(all.iter().map(|(_, index)| Some(&index.name)))),
        ("index_oid", numbers((0..all.len()).map(|at| Some(40_000 + at as i64)))),
        ("table_name", texts(all.iter().map(|(told, _)| Some(&told.name)))),
        ("table_oid", numbers(all.iter().map(|(told, _)| Some(told.oid)))),
        ("comment", no_text(&all)),
        ("tags", tags(&all)?),
        ("is_unique", truths(all.iter().map(|(_, index)| index.is_unique))),
        ("is_primary", truth(&all, false)),
        ("expressions", texts(all.iter().map(|(_, index)| Some(format!("[{}]", index.shown().join(", ")))))),
        ("sql", texts(all.iter().map(|of| Some(sql(of))))),
    ])
}

pub(super) fn sequences(snapshot: &Snapshot, sequences: &Sequences) -> Result<RecordBatch> {
    let all = sequences.list();
    let main = snapshot.schemas.iter().find(|schema| schema.database == DATABASE && schema.name == MAIN);
    let sql = |name: &str, of: &crate::sequences::SequenceInfo| {
        format!(
            "CREATE SEQUENCE {} INCREMENT BY {} MINVALUE {} MAXVALUE {} START {} {};",
            written(name),
            of.step,
            of.least,
            of.greatest,
            of.start,
            if of.cycles { "CYCLE" } else { "NO CYCLE" }
        )
    };
    batch(vec![
        ("database_name", text(&all, DATABASE)),
        ("database_oid", numbers(all.iter().map(|_| snapshot.database_oid(DATABASE)))),
        ("schema_name", text(&all, MAIN)),
        ("schema_oid", numbers(all.iter().map(|_| main.map(|schema| schema.oid)))),
        ("sequence_name", texts(all.iter().map(|(name, _)| Some(name)))),
        ("sequence_oid", numbers((0..all.len()).map(|at| Some(30_000 + at as i64)))),
        ("comment", no_text(&all)),
        ("tags", tags(&all)?),
        ("temporary", truth(&all, false)),
        ("start_value", numbers(all.iter().map(|(_, of)| Some(of.start)))),
        ("min_value", numbers(all.iter().map(|(_, of)| Some(of.least)))),
        ("max_value", numbers(all.iter().map(|(_, of)| Some(of.greatest)))),
        ("increment_by", numbers(all.iter().map(|(_, of)| Some(of.step)))),
        ("cycle", truths(all.iter().map(|(_, of)| of.cycles))),
        ("last_value", numbers(all.iter().map(|(_, of)| of.last))),
        ("sql", texts(all.iter().map(|(name, of)| Some(sql(name, of))))),
    ])
}

/// Whether an object of a schema, by their names, is where one looks.
type IsThere = Box<dyn Fn(&str, &str) -> bool>;

/// The names of the tables of `place`, a schema or a database, or of the schema in which names are looked for.
pub(super) fn names(state: &SessionState, snapshot: &Snapshot, place: Option<&str>) -> Result<RecordBatch> {
    let normal = |name: &str| match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(quoted) => quoted.to_owned(),
        None => name.to_ascii_lowercase(),
    };
    let here: IsThere = match place {
        None => {
            let attached = snapshot.databases.iter().filter(|name| *name != DATABASE && *name != SYSTEM_DATABASE);
            let attached = attached.cloned().collect();
            let (database, schema) = shown_place(&state.config_options().catalog.default_schema, &attached);
            Box::new(move |of, name| of == database && name == schema)
        }
        Some(place) => {
            let wanted: Vec<String> = place.split('.').map(normal).collect();
            let is_wanted = move |database: &str, schema: &str| match wanted.as_slice() {
                [one] => schema == one || database == one,
                [of, one] => database == of && schema == one,
                _ => false,
            };
            if !snapshot.schemas.iter().any(|schema| is_wanted(&schema.database, &schema.name)) {
                return plan_err!("there is no schema or database '{place}'");
            }
            Box::new(is_wanted)
        }
    };
    let mut found: Vec<&str> =
        snapshot.told.iter().filter(|told| here(&told.database, &told.schema)).map(|told| told.name.as_str()).collect();
    found.sort_unstable();
    batch(vec![("name", texts(found.into_iter().map(Some)))])
}

/// All tables with their columns.
pub(super) fn expanded(snapshot: &Snapshot) -> Result<RecordBatch> {
    let all = &snapshot.told;
    let of = |what: &dyn Fn(&FieldRef) -> String| {
        lists(all.iter().map(|told| told.table.schema().fields().iter().map(what).collect()))
    };
    batch(vec![
        ("database", texts(all.iter().map(|told| Some(&told.database)))),
        ("schema", texts(all.iter().map(|told| Some(&told.schema)))),
        ("name", texts(all.iter().map(|told| Some(&told.name)))),
        ("column_names", of(&|field| name_of(field).to_owned())),
        ("column_types", of(&|field| sql_name_of(field))),
        ("temporary", truths(all.iter().map(|told| told.is_temporary))),
    ])
}
