//! The tables and views that there are, and what is said of one: its definition as SQL, its constraints, its columns.
//!
//! Not here: the rows that are made of that (`objects`).

use std::{collections::BTreeSet, sync::Arc};

use datafusion::{
    arrow::{
        array::RecordBatch,
        datatypes::{DataType, FieldRef, SchemaRef},
    },
    catalog::TableProvider,
    common::TableReference,
    datasource::TableType,
    error::Result,
    execution::SessionState,
};
use ogee_functions::type_names::sql_name_of;
use ogee_sql::{
    catalogs::{MAIN, SYSTEM_DATABASE},
    changes::shown_expression,
    system::{INFORMATION, POSTGRES, is_system},
    views,
};

use super::{
    System,
    columns::{batch, small_numbers, texts, truths},
};
use crate::{
    describe::{name_of, shown_place},
    session::is_own,
    table::PagedTable,
};

/// The first numbers of objects of each kind.
const SCHEMA_OID: i64 = 1_000;
const TABLE_OID: i64 = 20_000;

/// A schema.
pub(super) struct ToldSchema {
    pub(super) database: String,
    pub(super) name: String,
    pub(super) oid: i64,
    pub(super) is_internal: bool,
}

/// A table or view.
pub(super) struct Told {
    pub(super) database: String,
    pub(super) schema: String,
    pub(super) name: String,
    pub(super) schema_oid: i64,
    pub(super) oid: i64,
    pub(super) is_temporary: bool,
    pub(super) comment: Option<String>,
    pub(super) column_comments: Vec<Option<String>>,
    pub(super) table: Arc<dyn TableProvider>,
}

/// What there is.
pub(super) struct Snapshot {
    /// The databases, in order.
    pub(super) databases: Vec<String>,
    pub(super) schemas: Vec<ToldSchema>,
    pub(super) told: Vec<Told>,
}

impl Snapshot {
    pub(super) fn tables(&self) -> Vec<&Told> {
        self.told.iter().filter(|told| told.table.table_type() != TableType::View).collect()
    }

    pub(super) fn views(&self) -> Vec<&Told> {
        self.told.iter().filter(|told| told.table.table_type() == TableType::View).collect()
    }

    pub(super) fn database_oid(&self, name: &str) -> Option<i64> {
        self.databases.iter().position(|database| database == name).map(|at| at as i64 + 1)
    }
}

impl System {
    /// What there is now. `binds`: with the columns that views have now.
    pub(super) async fn snapshot(&self, state: &SessionState, binds: bool) -> Result<Snapshot> {
        let attached = self.kept.attached.lock().clone();
        let catalog_name = &state.config_options().catalog.default_catalog;
        let mut databases = BTreeSet::new();
        let mut places = Vec::new();
        let catalog = self.catalogs.upgrade().and_then(|catalogs| catalogs.catalog(catalog_name));
        for raw in catalog.iter().flat_map(|catalog| catalog.schema_names()).filter(|name| !is_system(name)) {
            let (database, schema) = shown_place(&raw, &attached);
            databases.insert(database.clone());
            places.push((database, schema, raw));
        }
        places.sort();
        let mut databases: Vec<String> = databases.into_iter().collect();
        databases.push(SYSTEM_DATABASE.to_owned());
        let mut schemas: Vec<ToldSchema> = places
            .iter()
            .enumerate()
            .map(|(at, (database, name, _))| ToldSchema {
                database: database.clone(),
                name: name.clone(),
                oid: SCHEMA_OID + at as i64,
                is_internal: name == MAIN,
            })
            .collect();
        for name in [INFORMATION, MAIN, POSTGRES] {
            let oid = SCHEMA_OID + schemas.len() as i64;
            let (database, name) = (SYSTEM_DATABASE.to_owned(), name.to_owned());
            schemas.push(ToldSchema { database, name, oid, is_internal: true });
        }
        // Views that read the catalog are not planned for what is asked of it by one.
        let binds = binds && !views::is_planning_view();
        let mut told = Vec::new();
        for (at, (database, schema, raw)) in places.into_iter().enumerate() {
            let Some(of) = catalog.as_ref().and_then(|catalog| catalog.schema(&raw)) else { continue };
            let names: BTreeSet<String> = of.table_names().into_iter().filter(|name| !is_own(name)).collect();
            for name in names {
                let Some(mut table) = of.table(&name).await? else { continue };
                let reference = TableReference::full(catalog_name.as_str(), raw.as_str(), name.as_str());
                if binds && table.table_type() == TableType::View {
                    let bound = state.schema_for_ref(reference.clone())?.table(&name).await;
                    // One that cannot be planned any more is as it was.
                    table = bound.ok().flatten().unwrap_or(table);
                }
                let comments = self.kept.comments.lock();
                let comment = |column: Option<&str>| {
                    comments.get(&(raw.clone(), name.clone(), column.map(str::to_owned))).cloned()
                };
                let fields = table.schema().fields().clone();
                told.push(Told {
                    comment: comment(None),
                    column_comments: fields.iter().map(|field| comment(Some(field.name()))).collect(),
                    database: database.clone(),
                    schema: schema.clone(),
                    schema_oid: SCHEMA_OID + at as i64,
                    oid: TABLE_OID + told.len() as i64,
                    is_temporary: self.kept.temporary.lock().contains_key(&reference),
                    table,
                    name: name.clone(),
                });
            }
        }
        Ok(Snapshot { databases, schemas, told })
    }
}

/// A name as SQL writes it.
pub(super) fn written(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let starts = name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    match starts && name.bytes().all(plain) && !ogee_sql::changes::is_keyword(name) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

fn written_list(names: &[String]) -> String {
    names.iter().map(|name| written(name)).collect::<Vec<_>>().join(", ")
}

/// The value of a column that a statement leaves out, as it was written; that of one that is computed of others is a cast of it.
pub(crate) fn default_text(table: &dyn TableProvider, field: &FieldRef) -> Option<String> {
    let Some(paged) = table.downcast_ref::<PagedTable>() else {
        return table.get_column_default(field.name()).map(|default| default.human_display().to_string());
    };
    let text = paged.definition().column(field.name())?;
    if let Some(value) = &text.generated {
        return Some(format!("CAST({} AS {})", shown_expression(value), sql_name_of(field)));
    }
    text.default.as_ref().map(shown_expression)
}

/// The kind of a constraint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    PrimaryKey,
    Unique,
    NotNull,
    Check,
    ForeignKey,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::PrimaryKey => "PRIMARY KEY",
            Self::Unique => "UNIQUE",
            Self::NotNull => "NOT NULL",
            Self::Check => "CHECK",
            Self::ForeignKey => "FOREIGN KEY",
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            Self::PrimaryKey => "pkey",
            Self::Unique => "key",
            Self::NotNull => "not_null",
            Self::Check => "check",
            Self::ForeignKey => "fkey",
        }
    }
}

/// A constraint of a table.
pub(super) struct Constraint {
    pub(super) kind: Kind,
    pub(super) text: String,
    pub(super) expression: Option<String>,
    pub(super) columns: Vec<usize>,
    pub(super) names: Vec<String>,
    pub(super) referenced: Option<(String, Vec<String>)>,
    /// Whether the column of it says so.
    in_column: bool,
}

impl Constraint {
    pub(super) fn name(&self, table: &str) -> String {
        let others = self.referenced.iter().flat_map(|(_, columns)| columns);
        let names: Vec<&str> = self.names.iter().chain(others).map(String::as_str).collect();
        format!("{table}_{}_{}", names.join("_"), self.kind.suffix())
    }
}

/// The keys that the definition of `table` has, without those of its indexes.
fn declared(table: &PagedTable) -> Vec<(Vec<usize>, bool)> {
    let schema = table.rows_schema();
    let of = table.keys().into_iter().flat_map(|keys| keys.columns());
    let mut keys: Vec<(Vec<usize>, bool)> = of.map(|(of, primary)| (of.to_vec(), primary)).collect();
    for index in table.definition().indexes().iter().filter(|index| index.is_unique) {
        let columns = index.columns().unwrap_or_default();
        let key: Vec<usize> = columns.iter().filter_map(|name| schema.fields().find(name).map(|(at, _)| at)).collect();
        if let Some(at) = keys.iter().rposition(|(of, primary)| !primary && *of == key) {
            keys.remove(at);
        }
    }
    keys
}

/// What `table` asks of its rows.
pub(super) fn constraints(table: &PagedTable) -> Vec<Constraint> {
    let schema = table.rows_schema();
    let name_at = |at: usize| name_of(schema.field(at)).to_owned();
    let new = |kind: Kind, columns: Vec<usize>, text: String, in_column: bool| Constraint {
        kind,
        text,
        expression: None,
        names: columns.iter().map(|&at| name_at(at)).collect(),
        columns,
        referenced: None,
        in_column,
    };
    let keys = declared(table);
    let is_primary = |at: usize| keys.iter().any(|(of, primary)| *primary && of.contains(&at));
    let key = |of: &[usize], primary: bool, in_column: bool| {
        let kind = if primary { Kind::PrimaryKey } else { Kind::Unique };
        let names: Vec<String> = of.iter().map(|&at| name_at(at)).collect();
        new(kind, of.to_vec(), format!("{}({})", kind.name(), written_list(&names)), in_column)
    };
    let mut all = Vec::new();
    for (at, field) in schema.fields().iter().enumerate() {
        if !field.is_nullable() && !is_primary(at) {
            all.push(new(Kind::NotNull, vec![at], "NOT NULL".to_owned(), true));
        }
        let single = keys.iter().filter(|(of, _)| of == &[at]);
        all.extend(single.map(|(of, primary)| key(of, *primary, true)));
    }
    for foreign in table.definition().foreign_keys() {
        let find = |name: &String| schema.fields().find(name).map(|(at, _)| at);
        let columns: Vec<usize> = foreign.columns.iter().filter_map(find).collect();
        let names: Vec<String> = columns.iter().map(|&at| name_at(at)).collect();
        let text = format!(
            "FOREIGN KEY ({}) REFERENCES {}({})",
            written_list(&names),
            foreign.shown_table(),
            written_list(&foreign.referenced)
        );
        all.push(Constraint {
            referenced: Some((foreign.table.clone(), foreign.referenced.clone())),
            ..new(Kind::ForeignKey, columns, text, false)
        });
    }
    for check in table.definition().checks() {
        let columns = (0..schema.fields().len())
            .filter(|&at| table.definition().check_uses(check, schema.field(at).name()))
            .collect();
        let shown = shown_expression(check);
        let text = format!("CHECK({shown})");
        all.push(Constraint { expression: Some(shown), ..new(Kind::Check, columns, text, false) });
    }
    all.extend(keys.iter().filter(|(of, _)| of.len() > 1).map(|(of, primary)| key(of, *primary, false)));
    let of_primary = (0..schema.fields().len()).filter(|&at| is_primary(at));
    all.extend(of_primary.map(|at| new(Kind::NotNull, vec![at], "NOT NULL".to_owned(), true)));
    all
}

/// The statement that makes a table like `told`.
pub(super) fn made(told: &Told) -> Option<String> {
    let table = told.table.downcast_ref::<PagedTable>()?;
    let schema = table.rows_schema();
    let constraints = constraints(table);
    let is_primary = |at: usize| {
        constraints.iter().any(|constraint| constraint.kind == Kind::PrimaryKey && constraint.columns.contains(&at))
    };
    let mut items = Vec::new();
    for (at, field) in schema.fields().iter().enumerate() {
        let mut item = format!("{} {}", written(name_of(field)), sql_name_of(field));
        let text = table.definition().column(field.name());
        if let Some(value) = text.and_then(|text| text.generated.as_ref()) {
            item += &format!(" GENERATED ALWAYS AS({})", shown_expression(value));
        } else if let Some(value) = text.and_then(|text| text.default.as_ref()) {
            item += &format!(" DEFAULT({})", shown_expression(value));
        }
        for constraint in constraints.iter().filter(|constraint| constraint.in_column && constraint.columns == [at]) {
            if constraint.kind != Kind::NotNull || !is_primary(at) {
                item += " ";
                item += constraint.kind.name();
            }
        }
        items.push(item);
    }
    let others = constraints.iter().filter(|constraint| !constraint.in_column);
    items.extend(others.map(|constraint| constraint.text.clone()));
    let place = if told.schema == MAIN { String::new() } else { format!("{}.", written(&told.schema)) };
    let temporary = if told.is_temporary { "TEMP " } else { "" };
    Some(format!("CREATE {temporary}TABLE {place}{}({});", written(&told.name), items.join(", ")))
}

/// The rows of `PRAGMA table_info` of a table.
pub(super) fn info(table: &Arc<dyn TableProvider>) -> Result<RecordBatch> {
    let schema = table.schema();
    let fields = schema.fields();
    let declared = table.downcast_ref::<PagedTable>().and_then(PagedTable::keys);
    let is_primary =
        |at: usize| declared.iter().flat_map(|keys| keys.columns()).any(|(key, primary)| primary && key.contains(&at));
    let is_table = table.table_type() == TableType::Base;
    let takes_null = |at: usize| !is_table || fields[at].is_nullable() && !is_primary(at);
    batch(vec![
        ("cid", small_numbers((0..fields.len()).map(|at| Some(at as i32)))),
        ("name", texts(fields.iter().map(|field| Some(name_of(field))))),
        ("type", texts(fields.iter().map(|field| Some(sql_name_of(field))))),
        ("notnull", truths((0..fields.len()).map(|at| !takes_null(at)))),
        ("dflt_value", texts(fields.iter().map(|field| default_text(table.as_ref(), field)))),
        ("pk", truths((0..fields.len()).map(is_primary))),
    ])
}

/// The rows of `DESCRIBE` of a table.
pub(super) fn shown(table: &Arc<dyn TableProvider>) -> Result<RecordBatch> {
    let is_table = table.table_type() == TableType::Base;
    columns_shown(&table.schema(), is_table.then_some(table))
}

/// The rows of `DESCRIBE` for columns of `schema`, of `table` if they are one's.
pub(crate) fn columns_shown(schema: &SchemaRef, table: Option<&Arc<dyn TableProvider>>) -> Result<RecordBatch> {
    let keys = table.and_then(|table| table.downcast_ref::<PagedTable>()).map(declared).unwrap_or_default();
    let key_of = |at: usize| {
        let mut of = keys.iter().filter(|(of, _)| of.contains(&at)).map(|(_, primary)| *primary);
        let primary = of.next()?;
        Some(if primary || of.any(|primary| primary) { "PRI" } else { "UNI" })
    };
    let fields = schema.fields();
    // Only a table says of its columns that they take no NULL.
    let takes_null = |at: usize| table.is_none() || fields[at].is_nullable() && key_of(at) != Some("PRI");
    let default = |field: &FieldRef| {
        let paged = table?.downcast_ref::<PagedTable>();
        let is_generated = paged.is_some_and(|paged| paged.definition().is_generated(field.name()));
        if is_generated { None } else { default_text(table?.as_ref(), field) }
    };
    batch(vec![
        ("column_name", texts(fields.iter().map(|field| Some(name_of(field))))),
        ("column_type", texts(fields.iter().map(|field| Some(sql_name_of(field))))),
        ("null", texts((0..fields.len()).map(|at| Some(if takes_null(at) { "YES" } else { "NO" })))),
        ("key", texts((0..fields.len()).map(key_of))),
        ("default", texts(fields.iter().map(default))),
        ("extra", texts(fields.iter().map(|_| None::<&str>))),
    ])
}

/// The bits or digits of numbers of a type, what they are powers of, and the digits behind the point.
pub(super) fn precision(data_type: &DataType) -> Option<(i32, i32, i32)> {
    Some(match data_type {
        DataType::Int8 | DataType::UInt8 => (8, 2, 0),
        DataType::Int16 | DataType::UInt16 => (16, 2, 0),
        DataType::Int32 | DataType::UInt32 => (32, 2, 0),
        DataType::Int64 | DataType::UInt64 => (64, 2, 0),
        DataType::Float32 => (24, 2, 0),
        DataType::Float64 => (53, 2, 0),
        DataType::Decimal128(38, 0) => (128, 2, 0),
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            (i32::from(*precision), 10, i32::from(*scale))
        }
        _ => return None,
    })
}
