//! CSV as a format of files, in DataFusion's terms.
//!
//! Not here: reading (`source`).

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    fmt,
    io::Read,
    sync::Arc,
};

use datafusion::{
    arrow::datatypes::{DataType, Field, Schema, SchemaRef},
    catalog::Session,
    common::{
        GetExt,
        config::{ConfigFileType, CsvOptions},
        parsers::CompressionTypeVariant,
    },
    datasource::file_format::{
        FileFormat, FileFormatFactory,
        csv::{CsvFormat as CsvWriter, CsvFormatFactory},
    },
    error::Result,
    object_store::{ObjectMeta, ObjectStore, path::Path},
};
use ogee_functions::{
    Error,
    times::{Zone, formats::MomentFormat},
};
use ogee_memory::BufferManager;
use parking_lot::{Mutex, RwLock};

use super::{
    compression::is_compressed,
    encoding::decoded,
    records::{NO_DELIMITER, NO_QUOTE, Tail},
    sniff::{Given, Look, SAMPLE_BYTES, SAMPLE_ROWS, look},
    values::{Kind, Kinds, Order},
    writer::{CsvManner, CsvRows},
};
use crate::{
    read_through::{Format, Writing, known_zone, shown, text},
    spelling::folded,
    text_memory::{Part, TextMemory},
    text_sink::RowText,
};

/// What options begin with that DataFusion's CSV has not (`own`).
pub(crate) const OWN_OPTION: &str = "ogee_";

/// The name of an option of ours that `key` is.
pub(crate) fn own_name(key: &str) -> Option<&str> {
    key.strip_prefix("format.")?.strip_prefix(OWN_OPTION)
}

/// Between texts that stand for NULL.
pub(crate) const BETWEEN_NULLS: char = '\u{1d}';

/// Files of a table that are looked at for the types of its columns. All others are only read.
const FILES_LOOKED_AT: usize = 64;

/// Bytes looked at where records are so long that there are few in [`SAMPLE_BYTES`].
const SAMPLE_BYTES_MAX: usize = 4 * SAMPLE_BYTES;

/// Bytes of all files together that are looked at for types.
const TABLE_BYTES: u64 = SAMPLE_BYTES_MAX as u64;

/// Bytes by which a file that is only read is known.
const SHORT_BYTES: usize = 256 << 10;

/// What files look like that is remembered; the next forgets all.
const LOOKS_KEPT: usize = 1024;

/// Makes formats of CSV files; one for each session.
#[derive(Debug)]
pub struct CsvFormats {
    looks: Arc<Looks>,
    memory: Arc<BufferManager>,
}

impl CsvFormats {
    /// Formats whose readers reserve in `memory`.
    pub fn new(memory: &Arc<BufferManager>) -> Self {
        Self { looks: Arc::default(), memory: Arc::clone(memory) }
    }

    fn format(&self, options: CsvOptions, given: Given, manner: CsvManner, zone: Zone) -> Format<Reading, CsvFiles> {
        let reading = Reading {
            given,
            compression: options.compression,
            found: Arc::default(),
            looks: Arc::clone(&self.looks),
            has_null_regex: options.null_regex.is_some(),
            zone,
            manager: Arc::clone(&self.memory),
        };
        Format { reading, writer: CsvFiles { plain: CsvWriter::default().with_options(options), manner } }
    }
}

impl CsvFormats {
    /// How files are read with these options.
    pub(crate) fn reading(&self, state: &dyn Session, options: &HashMap<String, String>) -> Result<Reading> {
        Ok(self.made(state, options)?.reading)
    }

    fn made(&self, state: &dyn Session, options: &HashMap<String, String>) -> Result<Format<Reading, CsvFiles>> {
        let mut table_options = state.default_table_options();
        table_options.set_config_format(ConfigFileType::CSV);
        let (own, others) = options.iter().partition::<HashMap<_, _>, _>(|(key, _)| own_name(key).is_some());
        let others = others.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        table_options.alter_with_string_hash_map(&others)?;
        let own: HashMap<&str, &str> =
            own.iter().filter_map(|(key, value)| Some((own_name(key)?, value.as_str()))).collect();
        let csv = table_options.csv;
        let is_given =
            |name: &str| options.keys().any(|key| key.trim_start_matches("format.").trim_start_matches("csv.") == name);
        let given = Given {
            delimiter: (is_given("delimiter") || csv.delimiter != b',').then_some((csv.delimiter, Tail::default())),
            quote: (is_given("quote") || csv.quote != b'"').then_some(csv.quote),
            escape: csv.escape.map(Some),
            terminator: csv.terminator,
            comment: csv.comment,
            has_header: csv.has_header,
            truncated: csv.truncated_rows == Some(true),
            rows: csv.schema_infer_max_rec,
            ..Given::default()
        };
        let given = own_options(given, &own)?;
        let manner = CsvManner {
            quoted: own.get("force_quote").map(|names| names_in(names)).unwrap_or_default(),
            date: given.manner.date.clone(),
            timestamp: given.manner.timestamp.clone(),
            prefix: own.get("prefix").map(|&prefix| prefix.to_owned()),
            has_no_quotes: own.contains_key("no_quote"),
        };
        let zone = known_zone(state.config_options())?;
        Ok(self.format(csv, given, manner, zone))
    }
}

impl FileFormatFactory for CsvFormats {
    fn create(&self, state: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        Ok(Arc::new(self.made(state, options)?))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(self.format(CsvOptions::default(), Given::default(), CsvManner::default(), Zone::UTC))
    }
}

/// The texts in an option that has several.
fn names_in(names: &str) -> Vec<String> {
    names.split(BETWEEN_NULLS).map(ToOwned::to_owned).collect()
}

/// `given` with the options that DataFusion's CSV has not, by their names.
fn own_options(mut given: Given, own: &HashMap<&str, &str>) -> Result<Given> {
    let text = |name: &str| own.get(name).copied();
    let has = |name: &str| own.contains_key(name);
    if let Some([first, tail @ ..]) = text("delimiter").map(str::as_bytes) {
        given.delimiter = Some((*first, Tail::of(tail)));
    }
    if has("no_delimiter") {
        given.delimiter = Some((NO_DELIMITER, Tail::default()));
    }
    if has("no_quote") {
        given.quote = Some(NO_QUOTE);
    }
    if has("no_escape") {
        given.escape = Some(None);
    }
    given.skip = text("skip").and_then(|lines| lines.parse().ok()).unwrap_or(0);
    given.nulls = text("nulls").map(names_in);
    given.has_quoted_texts = has("quoted_texts");
    given.never_null = text("never_null").map(names_in).unwrap_or_default();
    given.ignores_errors = has("ignore_errors");
    given.is_lenient = has("lenient");
    given.line_max = text("line_max").and_then(|bytes| bytes.parse().ok());
    given.has_plain_names = has("plain_names");
    given.is_union = has("union");
    given.by_place = has("by_place");
    given.encoding = text("encoding").map(str::to_owned);
    given.manner.date = text("date_format").map(MomentFormat::of).transpose()?;
    given.manner.timestamp = text("timestamp_format").map(MomentFormat::of).transpose()?;
    given.manner.has_decimal_comma = has("decimal_comma");
    given.manner.thousands = text("thousands").and_then(|mark| mark.bytes().next());
    given.manner.candidates =
        text("candidates").map(|names| names_in(names).iter().filter_map(|of| candidate(of)).collect());
    Ok(given)
}

/// The type of a column that is called `name`, if a column may be found to have it.
pub(crate) fn candidate(name: &str) -> Option<DataType> {
    let kind = match name.to_ascii_uppercase().as_str() {
        "BOOLEAN" | "BOOL" | "LOGICAL" => Kind::Boolean,
        "TIME" => Kind::Time,
        "DATE" => Kind::Date(Order::YearMonthDay),
        "TIMESTAMP" | "DATETIME" => Kind::Timestamp(Order::YearMonthDay, false),
        "TIMESTAMPTZ" | "TIMESTAMP WITH TIME ZONE" => Kind::Instant,
        "BIGINT" | "INT8" | "LONG" => Kind::Integer,
        "HUGEINT" | "INT128" => Kind::LargeInteger,
        "DOUBLE" | "FLOAT8" => Kind::Double,
        "VARCHAR" | "TEXT" | "STRING" | "NULL" => Kind::Text,
        _ => return None,
    };
    Some(kind.data_type())
}

/// CSV files that are written.
#[derive(Debug)]
struct CsvFiles {
    manner: CsvManner,
    /// What else is known of the format.
    plain: CsvWriter,
}

impl Writing for CsvFiles {
    fn format(&self) -> &dyn FileFormat {
        &self.plain
    }

    fn rows(&self, state: &dyn Session) -> Result<Option<(Arc<dyn RowText>, CompressionTypeVariant)>> {
        let options = state.config_options();
        let zone = known_zone(options)?;
        let plain = self.plain.options();
        let rows = CsvRows::new(plain, options.catalog.has_header, self.manner.clone(), zone);
        Ok(Some((Arc::new(rows), plain.compression)))
    }
}

impl GetExt for CsvFormats {
    fn get_ext(&self) -> String {
        CsvFormatFactory::new().get_ext()
    }
}

/// What files look like, as far as they were looked at.
#[derive(Debug, Default)]
pub(super) struct Looks(Mutex<HashMap<Key, Arc<Look>>>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    path: Path,
    size: u64,
    modified: i64,
    given: Given,
    is_short: bool,
    compression: String,
}

/// Names and kinds of a table's columns.
type Found = Vec<(String, Kind)>;

/// How the files of a table are read.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(super) given: Given,
    pub(super) compression: CompressionTypeVariant,
    /// Names and kinds of the columns, if they were found out: otherwise the table was declared.
    pub(super) found: Arc<RwLock<Option<Found>>>,
    looks: Arc<Looks>,
    /// The zone of the session.
    pub(super) zone: Zone,
    pub(super) manager: Arc<BufferManager>,
    /// Asked for, and not supported.
    pub(super) has_null_regex: bool,
}

impl Reading {
    /// Memory of a reader.
    pub(super) fn memory(&self) -> TextMemory {
        TextMemory::new(&self.manager, "CSV reader")
    }

    /// The text of `file`, in UTF-8 if its encoding is said.
    pub(super) async fn input(&self, store: &Arc<dyn ObjectStore>, file: &ObjectMeta) -> Result<Box<dyn Read + Send>> {
        let input = text(store, &file.location, self.compression).await?;
        Ok(match &self.given.encoding {
            Some(encoding) => decoded(input, encoding)?,
            None => input,
        })
    }

    /// What `file` looks like; `is_short`: but for the kinds of its columns.
    pub(super) async fn look(
        &self,
        store: &Arc<dyn ObjectStore>,
        file: &ObjectMeta,
        is_short: bool,
    ) -> Result<Arc<Look>> {
        let mut key = Key {
            path: file.location.clone(),
            size: file.size,
            modified: file.last_modified.timestamp_micros(),
            given: self.given.clone(),
            is_short: false,
            compression: format!("{:?}", self.compression),
        };
        if let Some(known) = self.looks.0.lock().get(&key) {
            return Ok(Arc::clone(known));
        }
        key.is_short = is_short;
        if let Some(known) = self.looks.0.lock().get(&key) {
            return Ok(Arc::clone(known));
        }
        let (mut found, mut memory) = (None, self.memory());
        for bytes in [if is_short { SHORT_BYTES } else { SAMPLE_BYTES }, SAMPLE_BYTES_MAX] {
            let failed =
                |why: &dyn fmt::Display| Error::Source(format!("cannot read '{}': {why}", shown(&file.location)));
            let is_plain = !is_compressed(&file.location, self.compression) && self.given.encoding.is_none();
            let most = if is_plain { (bytes as u64).min(file.size) as usize } else { bytes } + 1;
            // Columns are told apart in the sample: it is here with the first record's fields.
            memory.set(Part::Text, most).map_err(|error| failed(&error))?;
            let mut sample = Vec::with_capacity(most);
            let mut input = self.input(store, file).await?.take(bytes as u64 + 1);
            input.read_to_end(&mut sample).map_err(|error| failed(&error))?;
            if sample.starts_with(b"\xff\xfe") || sample.starts_with(b"\xfe\xff") {
                let file = shown(&file.location);
                let what = "is UTF-16; read it with read_csv(.., encoding = 'utf-16')";
                return Err(Error::Source(format!("'{file}' {what}")).into());
            }
            let is_all = sample.len() <= bytes;
            let (look, rows) = look(&sample, is_all, &self.given);
            found = Some(look);
            if is_all || rows >= SAMPLE_ROWS || is_short && rows > 0 {
                break;
            }
        }
        let found = Arc::new(found.expect("the sample was looked at"));
        let mut looks = self.looks.0.lock();
        if looks.len() >= LOOKS_KEPT {
            looks.clear();
        }
        looks.insert(key, Arc::clone(&found));
        Ok(found)
    }

    /// Finds out which columns a table of `objects` has.
    pub(super) async fn find(&self, store: &Arc<dyn ObjectStore>, objects: &[ObjectMeta]) -> Result<SchemaRef> {
        let mut columns: Vec<(String, Kinds)> = Vec::new();
        let mut first: Option<&ObjectMeta> = None;
        let files: Vec<&ObjectMeta> = objects.iter().collect();
        // Files with nothing in them say nothing of the others.
        let mut empty = None;
        let mut looked_at = 0;
        // The columns of all are those of the table where files may have others.
        let most = if self.given.is_union { usize::MAX } else { FILES_LOOKED_AT };
        for file in files.into_iter().take(most) {
            if looked_at >= TABLE_BYTES && !self.given.is_union {
                break;
            }
            looked_at += file.size.min(SAMPLE_BYTES as u64);
            let look = self.look(store, file, looked_at > TABLE_BYTES).await?;
            if look.is_empty {
                empty = Some(look);
                continue;
            }
            let Some(first) = first else {
                first = Some(file);
                columns = look.names.iter().cloned().zip(look.kinds.iter().copied()).collect();
                continue;
            };
            let places: HashMap<Cow<'_, str>, usize> =
                look.names.iter().enumerate().map(|(index, name)| (folded(name), index)).collect();
            for (name, kinds) in &mut columns {
                match places.get(&folded(name)) {
                    Some(&index) => *kinds = kinds.and(look.kinds[index]),
                    None if self.given.is_union => {}
                    None => return Err(missing(name, &shown(&file.location), Some(&shown(&first.location))).into()),
                }
            }
            if self.given.is_union {
                let known: HashSet<Cow<'_, str>> = columns.iter().map(|(name, _)| folded(name)).collect();
                let others = look.names.iter().zip(&look.kinds).filter(|(name, _)| !known.contains(&folded(name)));
                let others: Vec<(String, Kinds)> = others.map(|(name, kinds)| (name.clone(), *kinds)).collect();
                columns.extend(others);
            }
        }
        if let (None, Some(look)) = (first, empty) {
            columns = look.names.iter().cloned().zip(look.kinds.iter().copied()).collect();
        }
        let found: Found = columns.into_iter().map(|(name, kinds)| (name, kinds.kind())).collect();
        let fields: Vec<Field> = found.iter().map(|(name, kind)| Field::new(name, kind.data_type(), true)).collect();
        *self.found.write() = Some(found);
        Ok(Arc::new(Schema::new(fields)))
    }
}

/// A column that a file does not have.
pub(super) fn missing(column: &str, file: &str, other: Option<&str>) -> Error {
    let has = other.map_or_else(|| "that the table has".to_owned(), |other| format!("that '{other}' has"));
    Error::Source(format!(
        "'{file}' has no column \"{column}\", {has}; files of one table need the same columns, in any order: \
         read them apart and use UNION ALL BY NAME"
    ))
}
