//! JSON as a format of files, in DataFusion's terms.
//!
//! Not here: reading (`source`).

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    arrow::datatypes::{Schema, SchemaRef},
    catalog::Session,
    common::{
        GetExt,
        config::{ConfigFileType, JsonOptions},
        parsers::CompressionTypeVariant,
    },
    datasource::file_format::{
        FileFormat, FileFormatFactory,
        json::{JsonFormat as JsonWriter, JsonFormatFactory},
    },
    error::Result,
    object_store::{ObjectMeta, ObjectStore, path::Path},
};
use ogee_functions::{Error, times::formats::MomentFormat};
use ogee_memory::BufferManager;
use parking_lot::{Mutex, RwLock};

use super::{
    parse::Value,
    reader::{Values, WHOLE},
    shape::{Shape, field, merge},
    writer::{JsonManner, JsonRows},
};
use crate::{
    csv::own_name,
    read_through::{Format, Writing, known_zone, shown, text},
    text_memory::TextMemory,
    text_sink::RowText,
};

/// Objects looked at, at least, if there are as many (DuckDB's number).
const SAMPLE_ROWS: usize = 20_480;

/// Bytes looked at, at least, if there are as many: a file of this size has all its keys.
const SAMPLE_BYTES: u64 = 8 << 20;

/// Bytes looked at in all files of a table before less of each is looked at.
const TABLE_BYTES: u64 = 4 * SAMPLE_BYTES;

/// Bytes looked at in files behind those.
const SHORT_BYTES: u64 = 256 << 10;

/// What files hold that is remembered; the next forgets all.
const SHAPES_KEPT: usize = 256;

/// What values of a file stand in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Layout {
    /// In an array, if the file begins with one.
    #[default]
    Auto,
    /// One after the other: an array is a value.
    Values,
    /// In an array.
    Array,
}

/// How files are read, as options say it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Manner {
    pub(super) layout: Layout,
    /// Objects are values of one column, and not rows.
    pub(super) is_whole: bool,
    /// How deep values are looked into; what is below is JSON.
    pub(super) depth: Option<usize>,
}

impl Manner {
    /// The manner that the options, which `own` looks up, say.
    fn of<'o>(own: impl Fn(&str) -> Option<&'o str>) -> Self {
        let layout = match own("layout") {
            Some("values") => Layout::Values,
            Some("array") => Layout::Array,
            _ => Layout::Auto,
        };
        let depth = own("depth").and_then(|depth| depth.parse().ok());
        Self { layout, is_whole: own("whole").is_some() || depth == Some(0), depth }
    }

    /// `columns` as deep as they are looked into.
    fn limited(self, columns: &mut Columns) {
        let Some(depth) = self.depth else { return };
        let depth = if columns.is_whole { depth } else { depth.saturating_sub(1) };
        for (_, shape) in &mut columns.columns {
            *shape = std::mem::replace(shape, Shape::Nothing).limited(depth);
        }
    }
}

/// The columns of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns {
    pub(super) columns: Vec<(String, Shape)>,
    /// The values are no objects: they are the only column.
    pub(super) is_whole: bool,
}

/// Makes formats of JSON files; one for each session.
#[derive(Debug)]
pub struct JsonFormats {
    shapes: Arc<Shapes>,
    memory: Arc<BufferManager>,
}

impl JsonFormats {
    /// Formats whose readers reserve in `memory`.
    pub fn new(memory: &Arc<BufferManager>) -> Self {
        Self { shapes: Arc::default(), memory: Arc::clone(memory) }
    }

    fn format(&self, options: JsonOptions, read: Manner, manner: JsonManner) -> Format<Reading, JsonFiles> {
        let reading = Reading {
            compression: options.compression,
            rows: options.schema_infer_max_rec,
            manner: read,
            found: Arc::default(),
            shapes: Arc::clone(&self.shapes),
            memory: Arc::clone(&self.memory),
        };
        Format { reading, writer: JsonFiles(JsonWriter::default().with_options(options), manner) }
    }
}

impl FileFormatFactory for JsonFormats {
    fn create(&self, state: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        let mut table_options = state.default_table_options();
        table_options.set_config_format(ConfigFileType::JSON);
        let (own, others) = options.iter().partition::<Vec<_>, _>(|(key, _)| own_name(key).is_some());
        table_options.alter_with_string_hash_map(
            &others.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
        )?;
        let own = |name: &str| own.iter().find(|(key, _)| own_name(key) == Some(name)).map(|(_, value)| value.as_str());
        let manner = JsonManner {
            is_array: own("array").is_some(),
            date: own("date_format").map(MomentFormat::of).transpose()?,
            timestamp: own("timestamp_format").map(MomentFormat::of).transpose()?,
        };
        Ok(Arc::new(self.format(table_options.json, Manner::of(own), manner)))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(self.format(JsonOptions::default(), Manner::default(), JsonManner::default()))
    }
}

/// JSON files that are written.
#[derive(Debug)]
struct JsonFiles(JsonWriter, JsonManner);

impl Writing for JsonFiles {
    fn format(&self) -> &dyn FileFormat {
        &self.0
    }

    fn rows(&self, state: &dyn Session) -> Result<Option<(Arc<dyn RowText>, CompressionTypeVariant)>> {
        let zone = known_zone(state.config_options())?;
        Ok(Some((Arc::new(JsonRows { zone, manner: self.1.clone() }), self.0.options().compression)))
    }
}

impl GetExt for JsonFormats {
    fn get_ext(&self) -> String {
        JsonFormatFactory::new().get_ext()
    }
}

/// What files hold, as far as they were looked at.
#[derive(Debug, Default)]
struct Shapes(Mutex<HashMap<Key, Arc<Columns>>>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    path: Path,
    size: u64,
    modified: i64,
    rows: Option<usize>,
    bytes: u64,
    compression: String,
    manner: Manner,
}

/// How the files of a table are read.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(super) compression: CompressionTypeVariant,
    /// Objects to look at, if said.
    rows: Option<usize>,
    pub(super) manner: Manner,
    /// The columns, if they were found out: otherwise the table was declared.
    pub(super) found: Arc<RwLock<Option<Columns>>>,
    shapes: Arc<Shapes>,
    memory: Arc<BufferManager>,
}

impl Reading {
    /// Memory of a reader.
    pub(super) fn memory(&self) -> TextMemory {
        TextMemory::new(&self.memory, "JSON reader")
    }

    /// The columns of `file`, by its first `most_bytes`.
    async fn columns(&self, store: &Arc<dyn ObjectStore>, file: &ObjectMeta, most_bytes: u64) -> Result<Arc<Columns>> {
        let key = Key {
            path: file.location.clone(),
            size: file.size,
            modified: file.last_modified.timestamp_micros(),
            rows: self.rows,
            bytes: most_bytes,
            compression: format!("{:?}", self.compression),
            manner: self.manner,
        };
        if let Some(known) = self.shapes.0.lock().get(&key) {
            return Ok(Arc::clone(known));
        }
        let input = text(store, &file.location, self.compression).await?;
        let mut values = Values::new(input, shown(&file.location), self.manner.layout, self.memory());
        let (mut columns, mut whole, mut rows, mut bytes) = (Vec::new(), Shape::Nothing, 0, 0_u64);
        let mut are_objects = true;
        while match self.rows {
            Some(most) => rows < most,
            None => rows < SAMPLE_ROWS && most_bytes == SAMPLE_BYTES || bytes < most_bytes,
        } {
            let shape = values.next_value(|item, _, _, _| {
                bytes += item.text.len() as u64;
                let is_object = matches!(item.value, Value::Object(_));
                Ok((is_object, Shape::of(item)))
            })?;
            let Some((is_object, shape)) = shape else { break };
            rows += 1;
            are_objects &= is_object && !self.manner.is_whole;
            match shape {
                Shape::Object(keys) if are_objects => merge(&mut columns, keys.fields),
                shape if !are_objects => {
                    let before = std::mem::take(&mut columns);
                    whole = if before.is_empty() { whole.and(shape) } else { Shape::Json };
                }
                // An object without keys.
                _ => {}
            }
        }
        let is_whole = columns.is_empty();
        if is_whole {
            let shape = if are_objects { Shape::Json } else { whole };
            columns = vec![(WHOLE.to_owned(), shape)];
        }
        let mut columns = Columns { columns, is_whole };
        self.manner.limited(&mut columns);
        let columns = Arc::new(columns);
        let mut shapes = self.shapes.0.lock();
        if shapes.len() >= SHAPES_KEPT {
            shapes.clear();
        }
        shapes.insert(key, Arc::clone(&columns));
        Ok(columns)
    }

    /// Finds out which columns a table of `objects` has.
    pub(super) async fn find(&self, store: &Arc<dyn ObjectStore>, objects: &[ObjectMeta]) -> Result<SchemaRef> {
        let mut columns = Vec::new();
        let mut is_whole = None;
        let files: Vec<&ObjectMeta> = objects.iter().filter(|file| file.size > 0).collect();
        let mut looked_at = 0;
        for file in files {
            let most_bytes = if looked_at < TABLE_BYTES { SAMPLE_BYTES } else { SHORT_BYTES };
            looked_at += file.size.min(most_bytes);
            let found = self.columns(store, file, most_bytes).await?;
            if *is_whole.get_or_insert(found.is_whole) != found.is_whole {
                let file = shown(&file.location);
                return Err(
                    Error::Source(format!("'{file}' has objects and other files have none, or the reverse")).into()
                );
            }
            merge(&mut columns, found.columns.clone());
        }
        if columns.is_empty() {
            columns = vec![(WHOLE.to_owned(), Shape::Json)];
        }
        let is_whole = is_whole.unwrap_or(true);
        let fields: Vec<_> = columns.iter().map(|(name, shape)| field(name, shape)).collect();
        *self.found.write() = Some(Columns { columns, is_whole });
        Ok(Arc::new(Schema::new(fields)))
    }
}
