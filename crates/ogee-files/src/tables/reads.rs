//! Files that a table function reads, with its options: `read_csv('x.txt', delim = '|')`.
//!
//! A call becomes the name of a table ([`Read::name`]), which is resolved where other names of files are. Options have the names that they have in DuckDB. One that
//! would change the rows and is not supported is an error; one that says what is so anyway is taken.
//!
//! Not here: what a format makes of its options (`csv`, `json`).

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    arrow::datatypes::{DataType, Field, Schema, SchemaRef},
    catalog::TableProvider,
    common::{DFSchema, plan_datafusion_err, plan_err},
    error::Result,
    execution::SessionState,
    logical_expr::ExprSchemable,
};
use ogee_functions::Error;
use ogee_memory::BufferManager;

use super::{Kind, contents::Contents, facts::Facts, listing::list};
use crate::csv::{BETWEEN_NULLS, OWN_OPTION};

/// What begins the name of such a table.
const PREFIX: &str = "ogee_read";
/// Between the parts of such a name, and between an option and its value.
const BETWEEN: char = '\u{1f}';
const IS: char = '\u{1e}';

/// Table functions, and the format that each reads.
const FUNCTIONS: [(&str, &str); 17] = [
    ("parquet_file_metadata", "facts"),
    ("parquet_kv_metadata", "facts"),
    ("parquet_metadata", "facts"),
    ("parquet_scan", "parquet"),
    ("parquet_schema", "facts"),
    ("read_arrow", "arrow"),
    ("read_blob", "contents"),
    ("read_csv", "csv"),
    ("read_csv_auto", "csv"),
    ("read_json", "json"),
    ("read_json_auto", "json"),
    ("read_ndjson", "json"),
    ("read_ndjson_auto", "json"),
    ("read_parquet", "parquet"),
    ("read_text", "contents"),
    ("glob", "glob"),
    ("scan_arrow_ipc", "arrow"),
];

/// Whether table function `name` reads files.
pub fn reads_files(name: &str) -> bool {
    FUNCTIONS.iter().any(|(function, _)| *function == name)
}

/// A call of a table function, of one path.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    function: String,
    format: &'static str,
    pub(super) path: String,
    options: Vec<(String, String)>,
}

/// What options say of the columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Columns {
    declared: Vec<(String, DataType)>,
    types: Vec<(String, DataType)>,
    names: Vec<String>,
    all_text: bool,
    /// Directories name none.
    pub(super) ignores_directories: bool,
    /// The path of the file is one.
    pub(super) with_file_name: bool,
}

impl Columns {
    /// Whether they are not as they are found.
    pub(super) fn are_given(&self) -> bool {
        !self.declared.is_empty() || !self.types.is_empty() || !self.names.is_empty() || self.all_text
    }

    /// All of them, if options say which there are.
    pub(super) fn declared(&self) -> Option<SchemaRef> {
        let field = |(name, data_type): &(String, DataType)| Field::new(name, data_type.clone(), true);
        let fields: Vec<Field> = self.declared.iter().map(field).collect();
        (!fields.is_empty()).then(|| Arc::new(Schema::new(fields)))
    }

    /// Those that were `found`, as they are given.
    ///
    /// # Errors
    /// If a column that is given is not there.
    pub(super) fn of(&self, found: &Schema) -> Result<SchemaRef> {
        let mut fields: Vec<Field> = found.fields().iter().map(|field| field.as_ref().clone()).collect();
        if self.names.len() > fields.len() {
            return plan_err!("{} names are given, and there are {} columns", self.names.len(), fields.len());
        }
        for (field, name) in fields.iter_mut().zip(&self.names) {
            *field = field.clone().with_name(name);
        }
        if self.all_text {
            fields = fields.into_iter().map(|field| field.with_data_type(DataType::Utf8View)).collect();
        }
        for (name, data_type) in &self.types {
            // By position where a list is given.
            let at = match name.parse::<usize>() {
                Ok(at) => Some(at).filter(|at| *at < fields.len()),
                Err(_) => fields.iter().position(|field| field.name().eq_ignore_ascii_case(name)),
            };
            let Some(at) = at else { return plan_err!("there is no column '{name}', of which a type is given") };
            fields[at] = fields[at].clone().with_data_type(data_type.clone());
        }
        Ok(Arc::new(Schema::new(fields)))
    }
}

impl Read {
    /// The name of the table that `function` makes of `path` with `options`.
    pub fn name(function: &str, path: &str, options: &[(String, String)]) -> String {
        let mut name = format!("{PREFIX}{BETWEEN}{function}{BETWEEN}{path}");
        for (option, value) in options {
            name.push(BETWEEN);
            name.push_str(option);
            name.push(IS);
            name.push_str(value);
        }
        name
    }

    /// Whether `name` is that of such a table.
    pub fn is_name(name: &str) -> bool {
        Self::of(name).is_some()
    }

    /// The call that `name` stands for.
    pub(super) fn of(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(PREFIX)?.strip_prefix(BETWEEN)?.split(BETWEEN);
        let (function, path) = (parts.next()?, parts.next()?);
        let (_, format) = FUNCTIONS.iter().find(|(known, _)| *known == function)?;
        let option = |part: &str| part.split_once(IS).map(|(option, value)| (option.to_owned(), value.to_owned()));
        let options = parts.map(option).collect::<Option<_>>()?;
        Some(Self { function: function.to_owned(), format, path: path.to_owned(), options })
    }

    /// Whether it lists files, and reads none.
    pub(super) fn is_glob(&self) -> bool {
        self.format == "glob"
    }

    /// What it says of the files, or gives of each as a whole: a table of `memory`, if it does not read rows.
    ///
    /// # Errors
    /// Options, which it has none of; files that are not there, or not what they are said to be.
    pub(super) fn of_files(&self, memory: &Arc<BufferManager>) -> Result<Option<Arc<dyn TableProvider>>> {
        if !matches!(self.format, "contents" | "facts") {
            return Ok(None);
        }
        if let Some((option, _)) = self.options.first() {
            return self.refuse(option, "it takes files alone");
        }
        let files = list(&self.path)?.files;
        if files.is_empty() {
            return plan_err!("no file is named '{}'", self.path);
        }
        match Facts::of(&self.function) {
            Some(facts) => facts.table(&files, memory).map(Some),
            None => Contents::table(files, self.function == "read_text", memory).map(Some),
        }
    }

    /// What the files are, whatever they are called.
    pub(super) fn kind(&self) -> Result<Kind> {
        let mut kind = Kind { format: self.format, is_tabbed: false, compression: None, is_given: true };
        if let Some((_, compression)) = self.options.iter().find(|(option, _)| option == "compression") {
            kind.compression = match compression.to_ascii_lowercase().as_str() {
                "gzip" | "gz" => Some("gz"),
                "zstd" | "zst" => Some("zst"),
                "bz2" | "bzip2" => Some("bz2"),
                "xz" => Some("xz"),
                "auto" | "auto_detect" | "none" | "uncompressed" => None,
                other => return plan_err!("{} knows no compression '{other}'", self.function),
            };
        }
        Ok(kind)
    }

    /// The options of the format, in the words of DataFusion, and what is said of the columns.
    ///
    /// # Errors
    /// An option that there is not, or that is not supported.
    pub(super) fn options(&self, state: &SessionState) -> Result<(HashMap<String, String>, Columns)> {
        let (mut format, mut columns) = (HashMap::new(), Columns::default());
        let mut nulls: Option<String> = None;
        let own = |name: &str| format!("{OWN_OPTION}{name}");
        for (option, value) in &self.options {
            let mut set = |name: &str, value: &str| drop(format.insert(format!("format.{name}"), value.to_owned()));
            let is_false = || value.eq_ignore_ascii_case("false");
            match (self.format, option.split_once('.').unwrap_or((option, ""))) {
                ("csv", ("header", _)) => set("has_header", value),
                ("csv", ("delim" | "delimiter" | "sep", _)) => set("delimiter", &self.byte(option, value)?),
                ("csv", ("quote", _)) => set("quote", &self.byte(option, value)?),
                ("csv", ("escape", _)) => set("escape", &self.byte(option, value)?),
                ("csv", ("comment", _)) => set("comment", &self.byte(option, value)?),
                ("csv", ("null_padding", _)) => set("truncated_rows", value),
                ("csv", ("all_varchar", _)) => columns.all_text = !is_false(),
                ("csv", ("types" | "dtypes" | "column_types", name)) => {
                    columns.types.push((name.to_owned(), self.data_type(state, value)?));
                }
                ("csv", ("names" | "column_names", _)) => columns.names.push(value.clone()),
                ("csv" | "json", ("columns", name)) => {
                    columns.declared.push((name.to_owned(), self.data_type(state, value)?));
                }
                ("csv" | "json", ("sample_size", _)) => {
                    let rows = value.parse::<usize>().unwrap_or(usize::MAX >> 1);
                    set("schema_infer_max_rec", &rows.to_string());
                }
                ("csv" | "json", ("compression", _)) => {}
                ("csv", ("skip", _)) if value.parse::<usize>().is_ok() => set(&own("skip"), value),
                ("csv", ("nullstr" | "null", _)) => match &mut nulls {
                    Some(nulls) => {
                        nulls.push(BETWEEN_NULLS);
                        nulls.push_str(value);
                    }
                    None => nulls = Some(value.clone()),
                },
                ("csv", ("ignore_errors", _)) if !is_false() => set(&own("ignore_errors"), value),
                // What is so anyway.
                ("csv", ("auto_detect" | "parallel" | "max_line_size" | "maximum_line_size" | "buffer_size", _)) => {}
                ("json", ("format", _)) if !value.eq_ignore_ascii_case("unstructured") => {}
                ("json", ("records", _)) if !is_false() => {}
                ("json", ("auto_detect" | "maximum_object_size", _)) => {}
                ("glob", _) => return self.refuse(option, "it takes a pattern alone"),
                (_, ("hive_partitioning", _)) => columns.ignores_directories = is_false(),
                (_, ("filename", _)) => columns.with_file_name = !is_false(),
                (_, ("union_by_name", _)) if !is_false() => {}
                (_, ("ignore_errors" | "normalize_names" | "binary_as_string" | "file_row_number", _))
                    if is_false() => {}
                (_, ("union_by_name", _)) => {}
                _ => return self.refuse(option, "leave it out"),
            }
        }
        if let Some(nulls) = nulls {
            format.insert(format!("format.{}", own("nulls")), nulls);
        }
        Ok((format, columns))
    }

    fn refuse<T>(&self, option: &str, instead: &str) -> Result<T> {
        let option = option.split_once('.').map_or(option, |(option, _)| option);
        let message = format!("the option {option} of {} is not supported with that value; {instead}", self.function);
        Err(Error::Unsupported(message).into())
    }

    /// The one byte that `value` of `option` is.
    fn byte(&self, option: &str, value: &str) -> Result<String> {
        match value {
            "\\t" => Ok("\t".to_owned()),
            byte if byte.len() == 1 => Ok(byte.to_owned()),
            other => plan_err!("the option {option} of {} is one byte, not '{other}'", self.function),
        }
    }

    fn data_type(&self, state: &SessionState, name: &str) -> Result<DataType> {
        let none = DFSchema::empty();
        let cast = state.create_logical_expr(&format!("CAST(NULL AS {name})"), &none);
        let data_type = cast.and_then(|cast| cast.get_type(&none));
        data_type.map_err(|_| plan_datafusion_err!("{} knows no type '{name}'", self.function))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_names() {
        let options = vec![("delim".to_owned(), "|".to_owned()), ("types.a.b".to_owned(), "INT".to_owned())];
        let name = Read::name("read_csv", "d/x y.txt", &options);
        let read = Read::of(&name).expect("a call");
        assert_eq!((read.format, read.path.as_str(), &read.options), ("csv", "d/x y.txt", &options));
        assert_eq!(Read::of("d/x.csv"), None);
        assert_eq!(Read::of("ogee_read"), None);
    }

    #[test]
    fn columns_are_as_they_are_given() {
        let found = Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Int64, true)]);
        let given = Columns {
            names: vec!["x".to_owned()],
            types: vec![("B".to_owned(), DataType::Utf8View), ("0".to_owned(), DataType::Float64)],
            ..Columns::default()
        };
        let schema = given.of(&found).expect("columns");
        assert_eq!(schema.field(0), &Field::new("x", DataType::Float64, true));
        assert_eq!(schema.field(1), &Field::new("b", DataType::Utf8View, true));
        let none = Columns { types: vec![("c".to_owned(), DataType::Int8)], ..Columns::default() };
        assert!(none.of(&found).is_err());
    }
}
