//! JSON objects, one a line or in one array. NULL, NaN and infinities are `null`; decimals are numbers with all digits; infinite dates and timestamps
//! are texts.
//!
//! An object has each key once: the second of two columns `a` is `a_1`.

use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_json::WriterBuilder;
use arrow_json::writer::{JsonArray, LineDelimited};
use arrow_schema::{Schema, SchemaRef};

use super::{ResultWriter, map_keys::with_text_keys, to_io, words::with_words};

fn builder() -> WriterBuilder {
    WriterBuilder::new().with_explicit_nulls(true)
}

/// `schema` with one name for no two of its columns, if it is not so already.
fn with_own_keys(schema: &SchemaRef) -> Option<SchemaRef> {
    let mut taken: HashSet<&str> = HashSet::new();
    if schema.fields().iter().all(|field| taken.insert(field.name())) {
        return None;
    }
    let all: HashSet<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let mut keys: HashSet<String> = HashSet::new();
    let fields: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| {
            let name = field.name();
            if keys.insert(name.clone()) {
                return Arc::new(field.as_ref().clone().with_nullable(true));
            }
            let mut numbered = (1..).map(|n: usize| format!("{name}_{n}"));
            let key = numbered.find(|key| !all.contains(key.as_str()) && keys.insert(key.clone()));
            Arc::new(field.as_ref().clone().with_nullable(true).with_name(key.unwrap_or_else(|| name.clone())))
        })
        .collect();
    Some(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

/// `batch` with the keys of `schema`, if there is one.
fn keyed(batch: &RecordBatch, schema: Option<&SchemaRef>) -> io::Result<RecordBatch> {
    match schema {
        Some(schema) => RecordBatch::try_new(Arc::clone(schema), batch.columns().to_vec()).map_err(to_io),
        None => Ok(batch.clone()),
    }
}

/// `batch` with nothing that the library does not write.
fn in_words(batch: &RecordBatch) -> io::Result<RecordBatch> {
    with_words(batch).and_then(|batch| with_text_keys(&batch)).map_err(to_io)
}

/// One object a line.
#[derive(Default)]
pub struct JsonLines {
    keys: Option<SchemaRef>,
}

impl ResultWriter for JsonLines {
    fn begin(&mut self, schema: &SchemaRef, _: &mut dyn Write) -> io::Result<()> {
        self.keys = with_own_keys(schema);
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        let batch = in_words(&keyed(batch, self.keys.as_ref())?)?;
        builder().build::<_, LineDelimited>(out).write(&batch).map_err(to_io)
    }

    fn end(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// One array.
#[derive(Default)]
pub struct Json {
    keys: Option<SchemaRef>,
    started: bool,
}

impl ResultWriter for Json {
    fn begin(&mut self, schema: &SchemaRef, out: &mut dyn Write) -> io::Result<()> {
        self.keys = with_own_keys(schema);
        out.write_all(b"[")
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if std::mem::replace(&mut self.started, true) {
            out.write_all(b",\n")?;
        }
        // The library writes whole arrays; the brackets of each batch are taken off again.
        let mut bytes = Vec::new();
        let mut writer = builder().build::<_, JsonArray>(&mut bytes);
        let batch = in_words(&keyed(batch, self.keys.as_ref())?)?;
        writer.write(&batch).map_err(to_io)?;
        writer.finish().map_err(to_io)?;
        drop(writer);
        let inner = bytes.strip_prefix(b"[").and_then(|bytes| bytes.strip_suffix(b"]")).unwrap_or(&bytes);
        out.write_all(inner)
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(b"]\n")
    }
}
