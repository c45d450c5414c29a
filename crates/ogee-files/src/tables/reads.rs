//! Files that a table function reads, with its options: `read_csv('x.txt', delim = '|')`.
//!
//! A call becomes the name of a table ([`Read::name`]), which is resolved where other names of files are. Options have the names that they have in DuckDB. One that
//! would change the rows and is not supported is an error; one that says what is so anyway is taken.
//!
//! Not here: what a format makes of its options (`csv`, `json`).

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
    catalog::TableProvider,
    common::{DFSchema, TableReference, plan_datafusion_err, plan_err},
    error::Result,
    execution::{SessionState, runtime_env::RuntimeEnv},
    logical_expr::ExprSchemable,
};
use ogee_functions::Error;
use ogee_memory::BufferManager;

use super::{Kind, contents::Contents, facts::Facts, listing::list};
use crate::{
    csv::{BETWEEN_NULLS, DELIMITER_MAX, OWN_OPTION, candidate},
    remote,
};

/// What begins the name of such a table.
const PREFIX: &str = "ogee_read";
/// Between the parts of such a name, and between an option and its value.
const BETWEEN: char = '\u{1f}';
const IS: char = '\u{1e}';
/// Between several paths.
pub(super) const BETWEEN_PATHS: char = '\u{1c}';

/// Table functions, and the format that each reads.
const FUNCTIONS: [(&str, &str); 21] = [
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
    ("read_json_objects", "json"),
    ("read_json_objects_auto", "json"),
    ("read_ndjson", "json"),
    ("read_ndjson_auto", "json"),
    ("read_ndjson_objects", "json"),
    ("read_parquet", "parquet"),
    ("read_text", "contents"),
    ("glob", "glob"),
    ("scan_arrow_ipc", "arrow"),
    ("sniff_csv", "csv"),
];

/// The function that says what a file looks like.
const SNIFF: &str = "sniff_csv";

/// Whether table function `name` reads files.
pub fn reads_files(name: &str) -> bool {
    FUNCTIONS.iter().any(|(function, _)| *function == name)
}

/// Whether what table function `name` gives of several files is a union of what it gives of each.
pub fn reads_files_apart(name: &str) -> bool {
    let is_apart = |format: &str| matches!(format, "contents" | "facts" | "glob");
    FUNCTIONS.iter().any(|(function, format)| *function == name && is_apart(format))
}

/// A call of a table function.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    function: String,
    format: &'static str,
    /// One, or several with [`BETWEEN_PATHS`] between them.
    pub(super) path: String,
    options: Vec<(String, String)>,
}

/// What options say of the columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Columns {
    declared: Vec<(String, FieldRef)>,
    types: Vec<(String, FieldRef)>,
    names: Vec<String>,
    all_text: bool,
    /// Those of a table that takes the rows.
    of_table: Option<SchemaRef>,
    /// Directories name none.
    pub(super) ignores_directories: bool,
    /// The types of some that directories name.
    pub(super) directory_types: Vec<(String, DataType)>,
    /// The others are text.
    pub(super) directories_are_text: bool,
    /// What the column of the file's path is called, if there is one.
    pub(super) file_name: Option<String>,
}

impl Columns {
    /// Whether they are not as they are found.
    pub(super) fn are_given(&self) -> bool {
        !self.declared.is_empty()
            || !self.types.is_empty()
            || !self.names.is_empty()
            || self.all_text
            || self.of_table.is_some()
    }

    /// All of them, if options say which there are.
    pub(super) fn declared(&self) -> Option<SchemaRef> {
        if let Some(schema) = &self.of_table {
            return Some(Arc::clone(schema));
        }
        let field = |(name, of): &(String, FieldRef)| of.as_ref().clone().with_name(name).with_nullable(true);
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
        for (name, of) in &self.types {
            // By position where a list is given.
            let at = match name.parse::<usize>() {
                Ok(at) => Some(at).filter(|at| *at < fields.len()),
                Err(_) => fields.iter().position(|field| field.name().eq_ignore_ascii_case(name)),
            };
            let Some(at) = at else { return plan_err!("there is no column '{name}', of which a type is given") };
            fields[at] = of.as_ref().clone().with_name(fields[at].name()).with_nullable(true);
        }
        Ok(Arc::new(Schema::new(fields)))
    }
}

impl Read {
    /// The name of the table that `function` makes of `paths` with `options`.
    pub fn name(function: &str, paths: &[String], options: &[(String, String)]) -> String {
        let path = paths.join(&BETWEEN_PATHS.to_string());
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

    /// Whether it says what a file looks like.
    pub(super) fn is_sniff(&self) -> bool {
        self.function == SNIFF
    }

    /// The options that are said.
    pub(super) fn said(&self) -> &[(String, String)] {
        &self.options
    }

    /// Whether it lists files, and reads none.
    pub(super) fn is_glob(&self) -> bool {
        self.format == "glob"
    }

    /// What it says of the files, or gives of each as a whole: a table of `memory`, if it does not read rows.
    ///
    /// # Errors
    /// Options, which it has none of; files that are not there, or not what they are said to be.
    pub(super) async fn of_files(
        &self,
        runtime: &RuntimeEnv,
        memory: &Arc<BufferManager>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        if !matches!(self.format, "contents" | "facts") {
            return Ok(None);
        }
        if let Some((option, _)) = self.options.first() {
            return self.refuse(option, "it takes files alone");
        }
        if remote::is_url(&self.path) {
            // That there are none at all is told first.
            remote::store_of(runtime, &self.path)?;
            let shown = remote::bare(&self.path);
            let what = format!("{} of '{shown}' is not supported; copy the file to this machine", self.function);
            return Err(Error::Unsupported(what).into());
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
        if self.function.starts_with("read_ndjson") {
            format.insert(format!("format.{OWN_OPTION}layout"), "values".to_owned());
        }
        if self.function.contains("_objects") {
            format.insert(format!("format.{OWN_OPTION}depth"), "0".to_owned());
        }
        for (option, value) in &self.options {
            let name = option.split_once('.').unwrap_or((option, ""));
            if !(self.option_of_all(state, option, name, value, &mut columns)?
                || self.format == "csv" && self.option_of_csv(state, name, value, &mut format, &mut columns)?
                || self.option_of_others(state, option, name, value, &mut format, &mut columns)?)
            {
                return self.refuse(option, "leave it out");
            }
        }
        let is_into = self.options.iter().any(|(option, _)| option.starts_with(INTO));
        if self.format == "csv" && (is_into || !columns.declared.is_empty()) {
            format.insert(format!("format.{OWN_OPTION}by_place"), "true".to_owned());
        }
        Ok((format, columns))
    }

    /// Takes an option that all readers have; whether it is one.
    fn option_of_all(
        &self,
        state: &SessionState,
        option: &str,
        (name, of): (&str, &str),
        value: &str,
        columns: &mut Columns,
    ) -> Result<bool> {
        if self.format == "glob" {
            return self.refuse(option, "it takes a pattern alone");
        }
        match name {
            "hive_partitioning" => columns.ignores_directories = !self.boolean(name, value)?,
            "hive_types" if !of.is_empty() => {
                let data_type = self.field(state, value)?.data_type().clone();
                columns.directory_types.push((of.to_owned(), data_type));
            }
            "hive_types_autocast" | "hive_type_autocast" => {
                columns.directories_are_text = !self.boolean(name, value)?
            }
            "filename" => {
                let said =
                    if is_boolean(value) { self.boolean(name, value)?.then_some("filename") } else { Some(value) };
                columns.file_name = said.map(str::to_owned);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes an option of CSV; whether it is one.
    fn option_of_csv(
        &self,
        state: &SessionState,
        (option, of): (&str, &str),
        value: &str,
        format: &mut HashMap<String, String>,
        columns: &mut Columns,
    ) -> Result<bool> {
        let mut set = |name: &str, value: &str| drop(format.insert(format!("format.{name}"), value.to_owned()));
        let own = |name: &str| format!("{OWN_OPTION}{name}");
        match option {
            "header" => set("has_header", &self.boolean(option, value)?.to_string()),
            "delim" | "delimiter" | "sep" | "separator" => match self.mark(option, value, DELIMITER_MAX)?.as_str() {
                "" => set(&own("no_delimiter"), "true"),
                delimiter => set(&own("delimiter"), delimiter),
            },
            "quote" => match self.mark(option, value, 1)?.as_str() {
                "" => set(&own("no_quote"), "true"),
                quote => set("quote", quote),
            },
            "escape" => match self.mark(option, value, 1)?.as_str() {
                "" => set(&own("no_escape"), "true"),
                escape => set("escape", escape),
            },
            "comment" => match self.mark(option, value, 1)?.as_str() {
                "" => {}
                comment => set("comment", comment),
            },
            // All ends of lines are known.
            "new_line" if matches!(value, "\\n" | "\\r\\n" | "\\r" | "\n" | "\r\n" | "\r") => {}
            "new_line" => return plan_err!("the option new_line of {} is no end of a line: '{value}'", self.function),
            "null_padding" => set("truncated_rows", &self.boolean(option, value)?.to_string()),
            "all_varchar" => columns.all_text = self.boolean(option, value)?,
            "types" | "dtypes" | "column_types" if !of.is_empty() => {
                columns.types.push((of.to_owned(), self.field(state, value)?));
            }
            "names" | "column_names" => columns.names.push(value.to_owned()),
            "skip" => set(&own("skip"), &self.number(option, value, 0)?.to_string()),
            "nullstr" | "null" => add(format, &own("nulls"), value),
            "force_not_null" => add(format, &own("never_null"), value),
            "allow_quoted_nulls" if !self.boolean(option, value)? => set(&own("quoted_texts"), "true"),
            "ignore_errors" if self.boolean(option, value)? => set(&own("ignore_errors"), "true"),
            "normalize_names" if self.boolean(option, value)? => set(&own("plain_names"), "true"),
            "strict_mode" if !self.boolean(option, value)? => set(&own("lenient"), "true"),
            "union_by_name" if self.boolean(option, value)? => set(&own("union"), "true"),
            "allow_quoted_nulls" | "ignore_errors" | "normalize_names" | "strict_mode" | "union_by_name" => {}
            "encoding" => set(&own("encoding"), value),
            "dateformat" | "date_format" => set(&own("date_format"), value),
            "timestampformat" | "timestamp_format" => set(&own("timestamp_format"), value),
            "decimal_separator" if value == "," => set(&own("decimal_comma"), "true"),
            "decimal_separator" if value == "." => {}
            "decimal_separator" => return plan_err!("the option decimal_separator of {} is '.' or ','", self.function),
            "thousands" => {
                let said = |known: &&(String, String)| known.0 == "decimal_separator";
                let decimal = self.options.iter().find(said).map_or(".", |(_, value)| value.as_str());
                match self.mark(option, value, 1)?.as_str() {
                    "" => {}
                    mark if mark == decimal => {
                        return plan_err!("the options thousands and decimal_separator of {} differ", self.function);
                    }
                    mark => set(&own("thousands"), mark),
                }
            }
            "auto_type_candidates" => match candidate(value) {
                Some(_) => add(format, &own("candidates"), value),
                None => {
                    return plan_err!(
                        "{} finds no columns of type '{value}'; it finds BOOLEAN, TIME, DATE, TIMESTAMP, TIMESTAMPTZ, \
                         BIGINT, HUGEINT, DOUBLE and VARCHAR, and others are given with types",
                        self.function
                    );
                }
            },
            "max_line_size" | "maximum_line_size" => set(&own("line_max"), &self.number(option, value, 1)?.to_string()),
            // What is so anyway.
            "buffer_size" => drop(self.number(option, value, 1)?),
            "parallel" => drop(self.boolean(option, value)?),
            "auto_detect" if self.boolean(option, value)? => {}
            "auto_detect" => {
                if !self.options.iter().any(|(option, _)| option.starts_with("columns.") || option.starts_with(INTO)) {
                    return plan_err!("{} needs the option columns where auto_detect is false", self.function);
                }
                for (name, value) in
                    [(own("delimiter"), ","), ("quote".to_owned(), "\""), ("has_header".to_owned(), "false")]
                {
                    format.entry(format!("format.{name}")).or_insert_with(|| value.to_owned());
                }
            }
            "store_rejects" if !self.boolean(option, value)? => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes an option of another format, or one that CSV has in common with another; whether it is one.
    fn option_of_others(
        &self,
        state: &SessionState,
        option: &str,
        (name, of): (&str, &str),
        value: &str,
        format: &mut HashMap<String, String>,
        columns: &mut Columns,
    ) -> Result<bool> {
        match (self.format, name) {
            ("csv" | "json", "columns") if !of.is_empty() => {
                columns.declared.push((of.to_owned(), self.field(state, value)?));
            }
            ("csv" | "json", "sample_size") => {
                let rows = if value == "-1" { usize::MAX >> 1 } else { self.number(name, value, 1)? };
                format.insert("format.schema_infer_max_rec".to_owned(), rows.to_string());
            }
            ("csv" | "json", "compression") => {}
            (_, INTO | INTO_COLUMNS) => {}
            ("json", "format") => {
                let layout = match value.to_ascii_lowercase().as_str() {
                    "auto" => None,
                    "unstructured" | "newline_delimited" | "nd" => Some("values"),
                    "array" => Some("array"),
                    _ => {
                        return plan_err!(
                            "the option format of {} is auto, array, newline_delimited or unstructured, not '{value}'",
                            self.function
                        );
                    }
                };
                format.remove(&format!("format.{OWN_OPTION}layout"));
                format.extend(layout.map(|layout| (format!("format.{OWN_OPTION}layout"), layout.to_owned())));
            }
            ("json", "records")
                if value.eq_ignore_ascii_case("auto") || is_boolean(value) && self.boolean(name, value)? => {}
            ("json", "records") if is_boolean(value) => {
                format.insert(format!("format.{OWN_OPTION}whole"), "true".to_owned());
            }
            ("json", "maximum_depth") if value == "-1" => {}
            ("json", "maximum_depth") => {
                format.insert(format!("format.{OWN_OPTION}depth"), self.number(name, value, 0)?.to_string());
            }
            ("json", "auto_detect" | "maximum_object_size") => {}
            ("parquet", "binary_as_string") => {
                let said = self.boolean(name, value)?.to_string();
                format.insert("format.binary_as_string".to_owned(), said);
            }
            // Files of other formats always are.
            (_, "union_by_name") => drop(self.boolean(name, value)?),
            (_, "ignore_errors" | "normalize_names" | "file_row_number") if !self.boolean(name, value)? => {}
            _ => return self.refuse(option, "leave it out"),
        }
        Ok(true)
    }

    /// Has the columns be those of the table that takes the rows, if an option says which that is.
    ///
    /// # Errors
    /// There is no such table, or it has no such column.
    pub(super) async fn take_columns_of_table(&self, state: &SessionState, columns: &mut Columns) -> Result<()> {
        let of = |option: &str| -> Vec<&str> {
            let values =
                self.options.iter().filter(|(name, _)| name.split_once('.').is_some_and(|(name, _)| name == option));
            values.map(|(_, value)| value.as_str()).collect()
        };
        let table = match of(INTO).as_slice() {
            [] => return Ok(()),
            [table] => TableReference::bare(*table),
            [schema, table] => TableReference::partial(*schema, *table),
            [catalog, schema, table] => TableReference::full(*catalog, *schema, *table),
            parts => return plan_err!("no table is named '{}'", parts.join(".")),
        };
        let schema = state.schema_for_ref(table.clone())?;
        let Some(provider) = schema.table(table.table()).await? else {
            return plan_err!("no table is named '{table}'");
        };
        let schema = provider.schema();
        let names = of(INTO_COLUMNS);
        let fields = match names.is_empty() {
            true => schema.fields().iter().cloned().collect::<Vec<_>>(),
            false => {
                let field =
                    |name: &&str| match schema.fields().iter().find(|field| field.name().eq_ignore_ascii_case(name)) {
                        Some(field) => Ok(Arc::clone(field)),
                        None => plan_err!("table '{table}' has no column '{name}'"),
                    };
                names.iter().map(field).collect::<Result<Vec<_>>>()?
            }
        };
        let field = |field: FieldRef| Arc::new(field.as_ref().clone().with_nullable(true));
        columns.of_table = Some(Arc::new(Schema::new(fields.into_iter().map(field).collect::<Vec<_>>())));
        Ok(())
    }

    fn refuse<T>(&self, option: &str, instead: &str) -> Result<T> {
        let option = option.split_once('.').map_or(option, |(option, _)| option);
        let message = format!("the option {option} of {} is not supported with that value; {instead}", self.function);
        Err(Error::Unsupported(message).into())
    }

    /// The mark of at most `most` bytes that `value` of `option` is; none if it is empty.
    fn mark(&self, option: &str, value: &str, most: usize) -> Result<String> {
        match value.replace("\\t", "\t") {
            mark if mark.len() <= most => Ok(mark),
            other if most == 1 => plan_err!("the option {option} of {} is one byte, not '{other}'", self.function),
            other => plan_err!("the option {option} of {} is of {most} bytes at most, not '{other}'", self.function),
        }
    }

    fn boolean(&self, option: &str, value: &str) -> Result<bool> {
        match value.to_ascii_lowercase().as_str() {
            "true" | "t" | "yes" | "on" | "1" => Ok(true),
            "false" | "f" | "no" | "off" | "0" => Ok(false),
            _ => plan_err!("the option {option} of {} is true or false, not '{value}'", self.function),
        }
    }

    /// A whole number, which is no less than `least`.
    fn number(&self, option: &str, value: &str, least: usize) -> Result<usize> {
        match value.parse::<usize>() {
            Ok(number) if number >= least => Ok(number),
            _ => plan_err!("the option {option} of {} is a whole number from {least} on, not '{value}'", self.function),
        }
    }

    /// A field of the type of this name.
    fn field(&self, state: &SessionState, name: &str) -> Result<FieldRef> {
        let none = DFSchema::empty();
        let cast = state.create_logical_expr(&format!("CAST(NULL AS {name})"), &none);
        let field = cast.and_then(|cast| Ok(cast.to_field(&none)?.1));
        field.map_err(|_| plan_datafusion_err!("{} knows no type '{name}'", self.function))
    }
}

/// The option of a read whose rows a table takes: the parts of its name; and which of its columns.
const INTO: &str = "ogee_into";
const INTO_COLUMNS: &str = "ogee_into_columns";

fn is_boolean(value: &str) -> bool {
    ["true", "false", "1", "0"].iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// Adds `value` to those of an option that has several.
fn add(format: &mut HashMap<String, String>, option: &str, value: &str) {
    let values = format.entry(format!("format.{option}"));
    values
        .and_modify(|values| {
            values.push(BETWEEN_NULLS);
            values.push_str(value);
        })
        .or_insert_with(|| value.to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_names() {
        let options = vec![("delim".to_owned(), "|".to_owned()), ("types.a.b".to_owned(), "INT".to_owned())];
        let name = Read::name("read_csv", &["d/x y.txt".to_owned()], &options);
        let read = Read::of(&name).expect("a call");
        assert_eq!((read.format, read.path.as_str(), &read.options), ("csv", "d/x y.txt", &options));
        assert_eq!(Read::of("d/x.csv"), None);
        assert_eq!(Read::of("ogee_read"), None);
    }

    #[test]
    fn columns_are_as_they_are_given() {
        let found = Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Int64, true)]);
        let of = |data_type| Arc::new(Field::new("", data_type, true));
        let given = Columns {
            names: vec!["x".to_owned()],
            types: vec![("B".to_owned(), of(DataType::Utf8View)), ("0".to_owned(), of(DataType::Float64))],
            ..Columns::default()
        };
        let schema = given.of(&found).expect("columns");
        assert_eq!(schema.field(0), &Field::new("x", DataType::Float64, true));
        assert_eq!(schema.field(1), &Field::new("b", DataType::Utf8View, true));
        let none = Columns { types: vec![("c".to_owned(), of(DataType::Int8))], ..Columns::default() };
        assert!(none.of(&found).is_err());
    }
}
