//! JSON objects, one a line or in one array. NULL, NaN and infinities are `null`; decimals are numbers with all digits.

use std::io::{self, Write};

use arrow_array::RecordBatch;
use arrow_json::WriterBuilder;
use arrow_json::writer::{JsonArray, LineDelimited};
use arrow_schema::SchemaRef;

use super::{ResultWriter, map_keys::with_text_keys, to_io};

fn builder() -> WriterBuilder {
    WriterBuilder::new().with_explicit_nulls(true)
}

/// One object a line.
pub struct Ndjson;

impl ResultWriter for Ndjson {
    fn begin(&mut self, _: &SchemaRef, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        let batch = with_text_keys(batch).map_err(to_io)?;
        builder().build::<_, LineDelimited>(out).write(&batch).map_err(to_io)
    }

    fn end(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// One array.
#[derive(Default)]
pub struct Json {
    started: bool,
}

impl ResultWriter for Json {
    fn begin(&mut self, _: &SchemaRef, out: &mut dyn Write) -> io::Result<()> {
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
        writer.write(&with_text_keys(batch).map_err(to_io)?).map_err(to_io)?;
        writer.finish().map_err(to_io)?;
        drop(writer);
        let inner = bytes.strip_prefix(b"[").and_then(|bytes| bytes.strip_suffix(b"]")).unwrap_or(&bytes);
        out.write_all(inner)
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(b"]\n")
    }
}
