//! CSV that `COPY` writes.
//!
//! Values are written as they are cast to text. A field is in quotes where it would be read as something else: with a delimiter, a quote, a line break or `#` in it, and where it is the text that
//! stands for NULL, so that an empty text is `""` where NULL is nothing.
//!
//! Not here: files (`text_sink`).

use datafusion::{
    arrow::{
        array::{Array, RecordBatch, StringViewArray},
        datatypes::DataType,
    },
    common::config::CsvOptions,
    error::Result,
};
use ogee_functions::{
    nested_text::texts,
    times::{Zone, formats::MomentFormat},
};

use crate::{spelling::known_spelling, text_sink::RowText};

/// How CSV is written.
#[derive(Debug)]
pub(crate) struct CsvRows {
    delimiter: u8,
    quote: u8,
    escape: u8,
    has_header: bool,
    null: String,
    manner: CsvManner,
    zone: Zone,
}

/// How it is written, beyond what DataFusion's CSV knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct CsvManner {
    /// Columns whose values are in quotes whatever they are; `*` for all.
    pub(crate) quoted: Vec<String>,
    pub(crate) date: Option<MomentFormat>,
    pub(crate) timestamp: Option<MomentFormat>,
    /// What begins a file in which no line break follows the last row, since a text of the copy's does.
    pub(crate) prefix: Option<String>,
    /// No value is in quotes, whatever is in it.
    pub(crate) has_no_quotes: bool,
}

impl CsvRows {
    /// As `options` and `manner` say, and instants as clocks in `zone` show them.
    pub(crate) fn new(options: &CsvOptions, has_header: bool, manner: CsvManner, zone: Zone) -> Self {
        Self {
            delimiter: options.delimiter,
            quote: options.quote,
            escape: options.escape.unwrap_or(options.quote),
            has_header: options.has_header.unwrap_or(has_header),
            null: options.null_value.clone().unwrap_or_default(),
            manner,
            zone,
        }
    }

    fn write_field(&self, value: &str, is_quoted: bool, text: &mut Vec<u8>) {
        // All bytes are looked at, many at once: most values have none that matter.
        let is_special = |byte: u8| {
            (byte == self.delimiter) | (byte == self.quote) | (byte == b'\n') | (byte == b'\r') | (byte == b'#')
        };
        let has_special = || value.bytes().fold(false, |found, byte| found | is_special(byte));
        let is_plain = || !is_quoted && value != self.null && !has_special();
        if self.manner.has_no_quotes || is_plain() {
            text.extend_from_slice(value.as_bytes());
            return;
        }
        text.push(self.quote);
        for byte in value.bytes() {
            if byte == self.quote || byte == self.escape {
                text.push(self.escape);
            }
            text.push(byte);
        }
        text.push(self.quote);
    }

    /// The values of a column as texts.
    fn texts(&self, column: &datafusion::arrow::array::ArrayRef) -> Result<StringViewArray> {
        let format = match column.data_type() {
            DataType::Date32 | DataType::Date64 => &self.manner.date,
            DataType::Timestamp(..) => &self.manner.timestamp,
            _ => &None,
        };
        match format {
            Some(format) => texts(&format.written(column, &self.zone)?, &self.zone),
            None => texts(column, &self.zone),
        }
    }
}

impl RowText for CsvRows {
    fn name(&self) -> &'static str {
        "CSV"
    }

    fn begins_with_rows(&self) -> bool {
        self.manner.prefix.is_some()
    }

    fn write(&self, batch: &RecordBatch, first: bool, text: &mut Vec<u8>) -> Result<()> {
        let schema = batch.schema();
        let Self { manner: CsvManner { quoted: names, prefix, .. }, .. } = self;
        let is_quoted = |name: &str| names.iter().any(|quoted| quoted == "*" || quoted.eq_ignore_ascii_case(name));
        let quoted: Vec<bool> = schema.fields().iter().map(|field| is_quoted(field.name())).collect();
        // A line break is before a row where none follows the last.
        let mut is_begun = !first;
        let begin = |text: &mut Vec<u8>, is_begun: bool| text.extend((prefix.is_some() && is_begun).then_some(b'\n'));
        let end = |text: &mut Vec<u8>| text.extend(prefix.is_none().then_some(b'\n'));
        if first {
            text.extend_from_slice(prefix.as_deref().unwrap_or_default().as_bytes());
        }
        if first && self.has_header {
            for (at, field) in schema.fields().iter().enumerate() {
                text.extend((at > 0).then_some(self.delimiter));
                let name = known_spelling(field).unwrap_or(field.name());
                self.write_field(name, quoted[at], text);
            }
            end(text);
            is_begun = true;
        }
        let columns = batch.columns().iter().map(|column| self.texts(column)).collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            begin(text, is_begun);
            is_begun = true;
            for (at, column) in columns.iter().enumerate() {
                text.extend((at > 0).then_some(self.delimiter));
                match column.is_valid(row) {
                    true => self.write_field(column.value(row), quoted[at], text),
                    false => text.extend_from_slice(self.null.as_bytes()),
                }
            }
            end(text);
        }
        Ok(())
    }
}
