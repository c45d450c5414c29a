//! Settings of a handle, by `SET`, `SHOW` and `RESET`; all can change while statements run.
//!
//! Not here: the planner's settings, which go by their own names (`datafusion.…`).

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use datafusion::{
    arrow::{
        array::{ArrayRef, RecordBatch, StringArray},
        compute::cast,
        datatypes::{DataType, Field, Schema},
    },
    sql::{
        parser::{ResetStatement, Statement as Parsed},
        sqlparser::ast::{Expr, Set, Statement as SqlStatement, UnaryOperator, Value},
    },
};
use ogee_datafusion::{NullOrder, PIVOT_COLUMNS_MAX, SettingInfo, Statement, near};
use ogee_memory::TempCompression;
use parking_lot::Mutex;

use crate::{
    Error, Result,
    database::Inner,
    settings_known::{FIXED, Fixed, absent, fixed_named},
    size::{format_size, parse_memory_limit, parse_size},
};

/// A setting of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    DefaultNullOrder,
    DefaultOrder,
    EnableExternalAccess,
    IntegerDivision,
    LockConfiguration,
    MemoryLimit,
    PivotLimit,
    ScalarSubqueryErrors,
    Threads,
    TempCompression,
    TempDirectory,
    MaxTempSize,
    PreserveInsertionOrder,
}

const SETTINGS: [(&str, Setting); 13] = [
    ("default_null_order", Setting::DefaultNullOrder),
    ("default_order", Setting::DefaultOrder),
    ("enable_external_access", Setting::EnableExternalAccess),
    ("integer_division", Setting::IntegerDivision),
    ("lock_configuration", Setting::LockConfiguration),
    ("max_temp_size", Setting::MaxTempSize),
    ("memory_limit", Setting::MemoryLimit),
    ("pivot_limit", Setting::PivotLimit),
    ("preserve_insertion_order", Setting::PreserveInsertionOrder),
    ("scalar_subquery_error_on_multiple_rows", Setting::ScalarSubqueryErrors),
    ("temp_compression", Setting::TempCompression),
    ("temp_directory", Setting::TempDirectory),
    ("threads", Setting::Threads),
];

/// Values of `temp_compression`.
const COMPRESSIONS: [(&str, TempCompression); 3] =
    [("auto", TempCompression::Auto), ("off", TempCompression::Off), ("always", TempCompression::Always)];

/// Settings of the planner that would take memory or temporary space past the pool, and what to set instead.
const TAKEN_OVER: [(&str, &str); 3] = [
    ("datafusion.runtime.memory_limit", "memory_limit"),
    ("datafusion.runtime.temp_directory", "temp_directory"),
    ("datafusion.runtime.max_temp_directory_size", "max_temp_size"),
];

/// Settings of DuckDB that are taken and have no effect: of progress bars, which are the shell's (`.progress`), of what does not exist here, and of how DuckDB does what it does, where answers are the
/// same whatever it is.
const WITHOUT_EFFECT: &[&str] = &[
    "allocator_background_threads",
    "allocator_bulk_deallocation_flush_threshold",
    "allocator_flush_threshold",
    "asof_loop_join_threshold",
    "autoinstall_known_extensions",
    "autoload_known_extensions",
    "catalog_error_max_schemas",
    "checkpoint_threshold",
    "default_block_size",
    "disabled_optimizers",
    "dynamic_or_filter_threshold",
    "enable_caching_operators",
    "enable_external_file_cache",
    "enable_fsst_vectors",
    "enable_http_metadata_cache",
    "enable_macro_dependencies",
    "enable_object_cache",
    "enable_progress_bar",
    "enable_progress_bar_print",
    "enable_view_dependencies",
    "external_threads",
    "immediate_transaction_mode",
    "index_scan_max_count",
    "index_scan_percentage",
    "late_materialization_max_rows",
    "max_vacuum_tasks",
    "merge_join_threshold",
    "nested_loop_join_threshold",
    "ordered_aggregate_threshold",
    "parquet_metadata_cache",
    "partitioned_write_flush_threshold",
    "partitioned_write_max_open_files",
    "perfect_ht_threshold",
    "pivot_filter_threshold",
    "prefer_range_joins",
    "progress_bar_time",
    "scheduler_process_partial",
    "streaming_buffer_size",
    "validate_external_file_cache",
    "wal_autocheckpoint",
    "write_buffer_row_group_count",
];

/// How the names of others begin that have no effect: those of DuckDB's own tests.
const BEGIN_WITHOUT_EFFECT: &[&str] = &["debug_", "verify_"];

/// Whether the setting of this name has no effect.
fn without_effect(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    WITHOUT_EFFECT.contains(&name.as_str()) || BEGIN_WITHOUT_EFFECT.iter().any(|begin| name.starts_with(begin))
}

/// DuckDB's other names of settings.
const OTHER_NAMES: [(&str, &str); 4] = [
    ("max_memory", "memory_limit"),
    ("max_temp_directory_size", "max_temp_size"),
    ("null_order", "default_null_order"),
    ("worker_threads", "threads"),
];

impl Setting {
    /// What it is for, and the type of its values.
    fn told(self) -> (&'static str, &'static str) {
        match self {
            Self::DefaultNullOrder => ("Where NULLs come in an order that does not say it.", "VARCHAR"),
            Self::DefaultOrder => ("The direction of an order that says none: ASC or DESC.", "VARCHAR"),
            Self::EnableExternalAccess => {
                ("Whether statements read and write files. It is turned off for good.", "BOOLEAN")
            }
            Self::IntegerDivision => ("Whether / of whole numbers is a whole number.", "BOOLEAN"),
            Self::LockConfiguration => ("Whether settings stay as they are. It is turned on for good.", "BOOLEAN"),
            Self::MemoryLimit => ("Bytes that the process may hold.", "VARCHAR"),
            Self::PivotLimit => ("How many columns a PIVOT may make.", "UBIGINT"),
            Self::ScalarSubqueryErrors => {
                ("Whether a subquery of several rows is an error as a value, or that of its first row.", "BOOLEAN")
            }
            Self::Threads => ("Workers.", "BIGINT"),
            Self::TempCompression => ("How temporary data is compressed: auto, off or always.", "VARCHAR"),
            Self::TempDirectory => ("Where temporary data goes.", "VARCHAR"),
            Self::MaxTempSize => ("Bytes of temporary data, at most.", "VARCHAR"),
            Self::PreserveInsertionOrder => {
                ("Whether rows that nobody sorts come in the order in which they lie.", "BOOLEAN")
            }
        }
    }
}

/// A statement about settings of the engine.
#[derive(Debug)]
pub(crate) enum Command {
    /// `SET name = value`
    Set(Setting, String),
    /// `RESET name`
    Reset(Setting),
    /// `SHOW name`
    Show(Setting),
    /// `SHOW ALL`
    ShowAll,
    /// `SET` or `RESET` of one that has no effect here.
    Nothing,
    /// `SHOW` of one that has one value.
    ShowFixed(&'static Fixed),
}

impl Command {
    /// What `statement` asks of the engine's settings, if it does.
    pub(crate) fn of(statement: &Statement) -> Result<Option<Self>> {
        match statement.parsed() {
            Parsed::Statement(statement) => match &**statement {
                SqlStatement::Set(Set::SingleAssignment { variable, values, .. }) => {
                    if without_effect(&variable.to_string()) {
                        return Ok(Some(Self::Nothing));
                    }
                    if let (Some(fixed), [value]) = (fixed_named(&variable.to_string()), values.as_slice()) {
                        return fixed.check(&text_of(value)).map(|()| Some(Self::Nothing));
                    }
                    let Some(setting) = named(&variable.to_string())? else {
                        return unknown(&variable.to_string()).map_or(Ok(None), Err);
                    };
                    match values.as_slice() {
                        [Expr::Identifier(word)]
                            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default") =>
                        {
                            Ok(Some(Self::Reset(setting)))
                        }
                        [value] => Ok(Some(Self::Set(setting, text_of(value)))),
                        _ => Err(Error::setting(format!("{variable} takes one value"))),
                    }
                }
                SqlStatement::ShowVariable { variable } => {
                    let name = variable.iter().map(|part| part.value.as_str()).collect::<Vec<_>>().join(".");
                    if name.eq_ignore_ascii_case("all") {
                        return Ok(Some(Self::ShowAll));
                    }
                    Ok(known(&name).map(Self::Show).or_else(|| fixed_named(&name).map(Self::ShowFixed)))
                }
                _ => Ok(None),
            },
            Parsed::Reset(ResetStatement::Variable(variable)) => {
                let name = variable.to_string();
                if without_effect(&name) || fixed_named(&name).is_some() {
                    return Ok(Some(Self::Nothing));
                }
                match named(&name)? {
                    Some(setting) => Ok(Some(Self::Reset(setting))),
                    None => unknown(&name).map_or(Ok(None), Err),
                }
            }
            _ => Ok(None),
        }
    }
}

fn known(name: &str) -> Option<Setting> {
    let other = OTHER_NAMES.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
    let name = other.map_or(name, |(_, name)| name);
    SETTINGS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, setting)| *setting)
}

fn named(name: &str) -> Result<Option<Setting>> {
    match TAKEN_OVER.iter().find(|(theirs, _)| theirs.eq_ignore_ascii_case(name)) {
        Some((theirs, ours)) => Err(Error::setting(format!("{theirs} has no effect here; set {ours}"))),
        None => Ok(known(name)),
    }
}

/// Settings without a point in their name that others know.
const OF_OTHERS: [&str; 5] = ["timezone", "schema", "search_path", "names", "time zone"];

/// That there is no setting of this name, with one that is near to it.
fn unknown(name: &str) -> Option<Error> {
    if name.contains('.') || OF_OTHERS.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return None;
    }
    if let Some(absent) = absent(name) {
        return Some(absent);
    }
    let names = SETTINGS.iter().map(|(known, _)| *known).chain(OF_OTHERS);
    let near = match near(name, names) {
        Some(near) => format!("did you mean {near}?"),
        None => "SHOW ALL lists them".to_owned(),
    };
    Some(Error::setting(format!("there is no setting '{name}'; {near}")))
}

fn text_of(value: &Expr) -> String {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        Expr::Identifier(name) => name.value.clone(),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => format!("-{}", text_of(expr)),
        other => other.to_string(),
    }
}

/// # Errors
/// If `value` is no number of threads.
pub(crate) fn parse_threads(value: &str) -> Result<usize> {
    let threads = value.trim().parse().ok().filter(|threads| (1..=4096).contains(threads));
    threads.ok_or_else(|| Error::setting(format!("'{value}' is not a number of threads; set 1 to 4096")))
}

/// # Errors
/// If `value` is no way to compress.
pub(crate) fn parse_compression(value: &str) -> Result<TempCompression> {
    let mode = COMPRESSIONS.iter().find(|(name, _)| name.eq_ignore_ascii_case(value)).map(|(_, mode)| *mode);
    mode.ok_or_else(|| Error::setting(format!("'{value}' is no way to compress; set auto, off or always")))
}

/// # Errors
/// If `setting`, one that is set once there is a handle, does not take `value`.
pub(crate) fn check(setting: Setting, value: &str) -> Result<()> {
    match setting {
        Setting::DefaultNullOrder => NullOrder::named(value).map(drop).map_err(Into::into),
        Setting::DefaultOrder => is_descending(value).map(drop),
        Setting::PivotLimit => parse_pivot_limit(value).map(drop),
        _ => truth_of(value).map(drop),
    }
}

/// # Errors
/// If `value` is no direction.
fn is_descending(value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "asc" | "ascending" => Ok(false),
        "desc" | "descending" => Ok(true),
        _ => Err(Error::setting(format!("'{value}' is no direction of an order; set ASC or DESC"))),
    }
}

/// # Errors
/// If `value` is no number of columns.
fn parse_pivot_limit(value: &str) -> Result<usize> {
    let columns = value.trim().parse().ok().filter(|columns| (1..=PIVOT_COLUMNS_MAX).contains(columns));
    columns.ok_or_else(|| {
        Error::setting(format!("'{value}' is no number of columns for a PIVOT; set 1 to {PIVOT_COLUMNS_MAX}"))
    })
}

/// # Errors
/// If `value` is neither true nor false.
fn truth_of(value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" | "yes" | "t" => Ok(true),
        "false" | "off" | "0" | "no" | "f" => Ok(false),
        _ => Err(Error::setting(format!("'{value}' is neither true nor false; set one of them"))),
    }
}

/// Which setting of the engine `name` is; `None` for one that others know.
///
/// # Errors
/// Nobody knows it, or it would have no effect.
pub(crate) fn by_name(name: &str) -> Result<Option<Setting>> {
    match named(name)? {
        Some(setting) => Ok(Some(setting)),
        None => unknown(name).map_or(Ok(None), Err),
    }
}

/// Whether `name` can stand in a statement as it is.
pub(crate) fn is_written(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.')
}

/// What was set and cannot be asked of others.
#[derive(Debug)]
pub(crate) struct Settings {
    temp: Mutex<Temp>,
    is_locked: AtomicBool,
}

#[derive(Debug)]
struct Temp {
    directory: Option<PathBuf>,
    max_bytes: Option<u64>,
}

impl Settings {
    pub(crate) fn new(directory: Option<PathBuf>, max_bytes: Option<u64>) -> Self {
        Self { temp: Mutex::new(Temp { directory, max_bytes }), is_locked: AtomicBool::new(false) }
    }

    /// Obeys `command`; the rows are those of `SHOW`.
    pub(crate) fn run(&self, command: &Command, inner: &Inner) -> Result<Vec<RecordBatch>> {
        let shown: Vec<_> = match command {
            Command::Set(setting, value) => {
                self.set(*setting, Some(value), inner)?;
                return Ok(Vec::new());
            }
            Command::Reset(setting) => {
                self.set(*setting, None, inner)?;
                return Ok(Vec::new());
            }
            Command::Nothing => {
                self.check_lock()?;
                return Ok(Vec::new());
            }
            Command::ShowFixed(fixed) => {
                let names: ArrayRef = Arc::new(StringArray::from(vec![fixed.name]));
                let values: ArrayRef = Arc::new(StringArray::from(vec![fixed.value]));
                return Ok(vec![show_batch(vec![names, values])?]);
            }
            Command::Show(setting) => SETTINGS.iter().filter(|(_, known)| known == setting).collect(),
            Command::ShowAll => SETTINGS.iter().collect(),
        };
        let names: ArrayRef = Arc::new(StringArray::from_iter_values(shown.iter().map(|(name, _)| *name)));
        let values: ArrayRef =
            Arc::new(StringArray::from_iter_values(shown.iter().map(|(_, setting)| self.value(*setting, inner))));
        Ok(vec![show_batch(vec![names, values])?])
    }

    /// The value of the setting of this name.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn named(&self, name: &str, inner: &Inner) -> Result<String> {
        let of_session = match name.to_ascii_lowercase().as_str() {
            "timezone" => inner.session.zone(),
            "schema" => Some(inner.session.schema()),
            "search_path" => Some(inner.session.search_path()),
            _ => fixed_named(name).map(|fixed| fixed.value.to_owned()),
        };
        if let Some(value) = of_session {
            return Ok(value);
        }
        match known(name) {
            Some(setting) => Ok(self.value(setting, inner)),
            None => Err(unknown(name).unwrap_or_else(|| {
                Error::setting(format!("current_setting does not know '{name}', which SHOW {name} shows"))
            })),
        }
    }

    /// # Errors
    /// If settings stay as they are.
    pub(crate) fn check_lock(&self) -> Result<()> {
        match self.is_locked.load(Ordering::Relaxed) {
            true => Err(Error::setting("settings stay as they are: lock_configuration is true".to_owned())),
            false => Ok(()),
        }
    }

    /// All settings, for who lists them.
    pub(crate) fn list(&self, inner: &Inner) -> Vec<SettingInfo> {
        let mut all = Vec::new();
        type Text = &'static str;
        let mut add = |name: Text, value: String, description: Text, input_type: Text, aliases: &'static [Text]| {
            all.push(SettingInfo { name, value, description, input_type, aliases });
        };
        for (name, setting) in SETTINGS {
            let (description, input_type) = setting.told();
            let aliases: &'static [Text] = match setting {
                Setting::DefaultNullOrder => &["null_order"],
                Setting::MemoryLimit => &["max_memory"],
                Setting::MaxTempSize => &["max_temp_directory_size"],
                Setting::Threads => &["worker_threads"],
                _ => &[],
            };
            let value = self.value(setting, inner);
            for alias in aliases {
                add(*alias, value.clone(), description, input_type, &[]);
            }
            add(name, value, description, input_type, aliases);
        }
        for fixed in &FIXED {
            add(fixed.name, fixed.value.to_owned(), "It has no other value.", fixed.input_type, &[]);
        }
        let zone = inner.session.zone().unwrap_or_default();
        add("TimeZone", zone, "The zone in which instants are shown.", "VARCHAR", &[]);
        add("schema", inner.session.schema(), "Where names are looked for first.", "VARCHAR", &[]);
        add("search_path", inner.session.search_path(), "Where names are looked for.", "VARCHAR", &[]);
        all.sort_by_key(|setting| setting.name);
        all
    }

    /// What `setting` is set to, as `SET` takes it.
    pub(crate) fn value(&self, setting: Setting, inner: &Inner) -> String {
        let options = inner.session.options();
        match setting {
            Setting::DefaultOrder => {
                let direction = if options.is_descending() { "DESCENDING" } else { "ASCENDING" };
                direction.to_owned()
            }
            Setting::EnableExternalAccess => inner.session.access().is_allowed().to_string(),
            Setting::LockConfiguration => self.is_locked.load(Ordering::Relaxed).to_string(),
            Setting::PivotLimit => options.pivot_columns().to_string(),
            Setting::ScalarSubqueryErrors => (!options.takes_first()).to_string(),
            Setting::DefaultNullOrder => inner.session.null_order().name().to_owned(),
            Setting::IntegerDivision => inner.session.division().is_whole().to_string(),
            Setting::MemoryLimit => format_size(inner.memory.limit() as u64),
            Setting::Threads => inner.session.engine().settings().threads.to_string(),
            Setting::PreserveInsertionOrder => inner.session.engine().settings().keeps_order.to_string(),
            Setting::TempCompression => {
                let mode = inner.memory.temp_compression();
                COMPRESSIONS.iter().find(|(_, known)| *known == mode).map_or("", |(name, _)| name).to_owned()
            }
            Setting::TempDirectory => {
                self.temp.lock().directory.clone().unwrap_or_else(std::env::temp_dir).display().to_string()
            }
            Setting::MaxTempSize => {
                self.temp.lock().max_bytes.map_or_else(|| "90% of what is free".to_owned(), format_size)
            }
        }
    }

    /// Sets to `value`, or to the default.
    pub(crate) fn set(&self, setting: Setting, value: Option<&str>, inner: &Inner) -> Result<()> {
        self.check_lock()?;
        let options = inner.session.options();
        match setting {
            Setting::DefaultOrder => options.set_descending(value.map(is_descending).transpose()?.unwrap_or(false)),
            Setting::EnableExternalAccess => {
                let is_allowed = value.map(truth_of).transpose()?.unwrap_or(true);
                match (is_allowed, inner.session.access().is_allowed()) {
                    (false, _) => inner.session.access().deny(),
                    (true, true) => {}
                    (true, false) => {
                        return Err(Error::setting(
                            "enable_external_access has been turned off, and stays so until the end".to_owned(),
                        ));
                    }
                }
            }
            Setting::LockConfiguration => {
                self.is_locked.store(value.map(truth_of).transpose()?.unwrap_or(false), Ordering::Relaxed);
            }
            Setting::PivotLimit => {
                options.set_pivot_columns(value.map(parse_pivot_limit).transpose()?.unwrap_or(PIVOT_COLUMNS_MAX));
            }
            Setting::ScalarSubqueryErrors => {
                options.set_takes_first(!value.map(truth_of).transpose()?.unwrap_or(true));
            }
            Setting::DefaultNullOrder => {
                let order = value.map(NullOrder::named).transpose()?.unwrap_or_default();
                inner.session.set_null_order(order);
            }
            Setting::IntegerDivision => {
                inner.session.division().set_whole(value.map(truth_of).transpose()?.unwrap_or(true));
            }
            Setting::MemoryLimit => {
                let bytes = value.map(parse_memory_limit).transpose()?.unwrap_or_else(ogee_memory::default_limit);
                inner.memory.set_limit(bytes)?;
            }
            Setting::Threads => {
                let threads = match value {
                    None => ogee_memory::default_threads(),
                    Some(value) => parse_threads(value)?,
                };
                inner.session.engine().set_threads(threads);
            }
            Setting::PreserveInsertionOrder => {
                inner.session.engine().set_keeps_order(value.map(truth_of).transpose()?.unwrap_or(true));
            }
            Setting::TempCompression => {
                let mode = match value {
                    None => TempCompression::default(),
                    Some(value) => parse_compression(value)?,
                };
                inner.memory.set_temp_compression(mode);
            }
            Setting::TempDirectory => {
                inner.session.access().check()?;
                let directory = value.map(PathBuf::from);
                inner.memory.set_temp_directory(directory.clone())?;
                self.temp.lock().directory = directory;
            }
            Setting::MaxTempSize => {
                let bytes = value.map(parse_size).transpose()?;
                inner.memory.set_max_temp_bytes(bytes);
                self.temp.lock().max_bytes = bytes;
            }
        }
        Ok(())
    }
}

/// Rows of `SHOW`: names and values.
pub(crate) fn show_batch(columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    let fields = vec![Field::new("name", DataType::Utf8, false), Field::new("value", DataType::Utf8, true)];
    let text = |column: &ArrayRef| cast(column, &DataType::Utf8);
    columns
        .iter()
        .map(text)
        .collect::<Result<Vec<_>, _>>()
        .and_then(|columns| RecordBatch::try_new(Arc::new(Schema::new(fields)), columns))
        .map_err(|error| ogee_datafusion::Error::from(&error).into())
}
