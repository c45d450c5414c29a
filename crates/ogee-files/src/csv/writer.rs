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
        util::display::{ArrayFormatter, FormatOptions},
    },
    common::config::CsvOptions,
    error::Result,
};
use ogee_functions::{nested_text::texts, times::Zone};

use crate::{spelling::known_spelling, text_sink::RowText};

/// How CSV is written.
#[derive(Debug)]
pub(crate) struct CsvRows {
    delimiter: u8,
    quote: u8,
    escape: u8,
    has_header: bool,
    null: String,
    date_format: Option<String>,
    timestamp_format: Option<String>,
    /// Columns whose values are in quotes whatever they are; `*` for all.
    quoted: Vec<String>,
    zone: Zone,
}

impl CsvRows {
    /// As `options` say, with the columns `quoted` in quotes, and instants as clocks in `zone` show them.
    pub(crate) fn new(options: &CsvOptions, has_header: bool, quoted: Vec<String>, zone: Zone) -> Self {
        Self {
            delimiter: options.delimiter,
            quote: options.quote,
            escape: options.escape.unwrap_or(options.quote),
            has_header: options.has_header.unwrap_or(has_header),
            null: options.null_value.clone().unwrap_or_default(),
            date_format: options.date_format.clone(),
            timestamp_format: options.timestamp_format.clone(),
            quoted,
            zone,
        }
    }

    fn write_field(&self, value: &str, is_quoted: bool, text: &mut Vec<u8>) {
        let is_special = |byte: &u8| *byte == self.delimiter || *byte == self.quote || b"\n\r#".contains(byte);
        if !is_quoted && value != self.null && !value.bytes().any(|byte| is_special(&byte)) {
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
            DataType::Date32 | DataType::Date64 => &self.date_format,
            DataType::Timestamp(..) => &self.timestamp_format,
            _ => &None,
        };
        let Some(format) = format else { return texts(column, &self.zone) };
        let options = FormatOptions::new()
            .with_display_error(false)
            .with_date_format(Some(format))
            .with_timestamp_format(Some(format))
            .with_timestamp_tz_format(Some(format))
            .with_datetime_format(Some(format));
        let formatter = ArrayFormatter::try_new(column, &options)?;
        let text = |row: usize| column.is_valid(row).then(|| formatter.value(row).try_to_string()).transpose();
        Ok((0..column.len()).map(text).collect::<std::result::Result<_, _>>()?)
    }
}

impl RowText for CsvRows {
    fn name(&self) -> &'static str {
        "CSV"
    }

    fn write(&self, batch: &RecordBatch, first: bool, text: &mut Vec<u8>) -> Result<()> {
        let schema = batch.schema();
        let is_quoted =
            |name: &str| self.quoted.iter().any(|quoted| quoted == "*" || quoted.eq_ignore_ascii_case(name));
        let quoted: Vec<bool> = schema.fields().iter().map(|field| is_quoted(field.name())).collect();
        if first && self.has_header {
            for (at, field) in schema.fields().iter().enumerate() {
                text.extend((at > 0).then_some(self.delimiter));
                let name = known_spelling(field).unwrap_or(field.name());
                self.write_field(
                    name,
                    quoted.iter().any(|quoted| *quoted) && self.quoted.iter().any(|of| of == "*"),
                    text,
                );
            }
            text.push(b'\n');
        }
        let columns = batch.columns().iter().map(|column| self.texts(column)).collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            for (at, column) in columns.iter().enumerate() {
                text.extend((at > 0).then_some(self.delimiter));
                match column.is_valid(row) {
                    true => self.write_field(column.value(row), quoted[at], text),
                    false => text.extend_from_slice(self.null.as_bytes()),
                }
            }
            text.push(b'\n');
        }
        Ok(())
    }
}
