//! `sniff_csv('x.csv')`: what a CSV file looks like, and the call that reads it so.
//!
//! Not here: finding it out (`csv`).

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, BooleanArray, ListArray, RecordBatch, StringViewArray, StructArray, UInt32Array},
        buffer::OffsetBuffer,
        datatypes::{DataType, Field, Fields, Schema},
    },
    catalog::TableProvider,
    datasource::MemTable,
    error::Result,
};
use ogee_functions::type_names::sql_name;

use crate::csv::Sniffed;

/// A table of the one row that says what `file` looks like, of which `options` were said.
///
/// # Errors
/// Those of Arrow.
pub(super) fn table(found: &Sniffed, file: &str, options: &[(String, String)]) -> Result<Arc<dyn TableProvider>> {
    let text = |value: &str| -> ArrayRef { Arc::new(StringViewArray::from(vec![value])) };
    let perhaps = |value: Option<&str>| -> ArrayRef { Arc::new(StringViewArray::from(vec![value])) };
    let shown = |mark: &str| text(if mark.is_empty() { "(empty)" } else { mark });
    let names: StringViewArray = found.columns.iter().map(|(name, _)| Some(name.as_str())).collect();
    let types: StringViewArray = found.columns.iter().map(|(_, data_type)| Some(sql_name(data_type))).collect();
    let field = |name: &str| Field::new(name, DataType::Utf8View, true);
    let fields = Fields::from(vec![field("name"), field("type")]);
    let structs = StructArray::try_new(fields.clone(), vec![Arc::new(names), Arc::new(types)], None)?;
    let item = Arc::new(Field::new("item", DataType::Struct(fields), true));
    let columns = ListArray::try_new(item, OffsetBuffer::from_lengths([structs.len()]), Arc::new(structs), None)?;
    let said = said(options);
    let prompt = prompt(found, file, &said);
    let arguments = said.iter().map(|(_, written)| written.as_str()).collect::<Vec<_>>().join(", ");
    let skipped = u32::try_from(found.skipped_lines).unwrap_or(u32::MAX);
    let values: [(&str, ArrayRef); 12] = [
        ("Delimiter", shown(&found.delimiter)),
        ("Quote", shown(&found.quote)),
        ("Escape", shown(&found.escape)),
        ("NewLineDelimiter", text(found.new_line)),
        ("Comment", shown(&found.comment)),
        ("SkipRows", Arc::new(UInt32Array::from(vec![skipped]))),
        ("HasHeader", Arc::new(BooleanArray::from(vec![found.has_header]))),
        ("Columns", Arc::new(columns)),
        ("DateFormat", perhaps(found.date_format.as_deref())),
        ("TimestampFormat", perhaps(found.timestamp_format.as_deref())),
        ("UserArguments", perhaps((!arguments.is_empty()).then_some(arguments.as_str()))),
        ("Prompt", text(&prompt)),
    ];
    let fields = values.iter().map(|(name, column)| {
        let field = Field::new(*name, column.data_type().clone(), true);
        Arc::new(crate::spelling::spelled(&field, name))
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batch = RecordBatch::try_new(Arc::clone(&schema), values.into_iter().map(|(_, column)| column).collect())?;
    Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
}

/// What was said, by the names of options, each as it is written in a call.
fn said(options: &[(String, String)]) -> Vec<(String, String)> {
    let mut said: Vec<(String, Vec<(&str, &str)>)> = Vec::new();
    for (option, value) in options {
        let (name, part) = option.split_once('.').unwrap_or((option, ""));
        match said.iter_mut().find(|(known, _)| known == name) {
            Some((_, parts)) => parts.push((part, value)),
            None => said.push((name.to_owned(), vec![(part, value)])),
        }
    }
    said.sort();
    let written = |(name, parts): (String, Vec<(&str, &str)>)| {
        let value = match parts.as_slice() {
            [("", value)] => plain(value),
            parts if parts.iter().enumerate().all(|(nth, (part, _))| *part == nth.to_string()) => {
                format!("[{}]", parts.iter().map(|(_, value)| plain(value)).collect::<Vec<_>>().join(", "))
            }
            parts => {
                let pairs = parts.iter().map(|(part, value)| format!("{}: {}", quoted(part), quoted(value)));
                format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
            }
        };
        let written = format!("{name}={value}");
        (name, written)
    };
    said.into_iter().map(written).collect()
}

/// The call that reads the file as it looks, and as was said.
fn prompt(found: &Sniffed, file: &str, said: &[(String, String)]) -> String {
    let columns =
        found.columns.iter().map(|(name, data_type)| format!("{}: {}", quoted(name), quoted(&sql_name(data_type))));
    let columns = format!("{{{}}}", columns.collect::<Vec<_>>().join(", "));
    let mut parts = vec![quoted(file), "auto_detect=false".to_owned()];
    let mut add = |names: &[&str], value: String| {
        if !said.iter().any(|(said, _)| names.contains(&said.as_str())) {
            parts.push(format!("{}={value}", names[0]));
        }
    };
    add(&["delim", "sep", "delimiter"], quoted(&found.delimiter));
    add(&["quote"], quoted(&found.quote));
    add(&["escape"], quoted(&found.escape));
    add(&["new_line"], quoted(found.new_line));
    add(&["skip"], found.skipped_lines.to_string());
    add(&["comment"], quoted(&found.comment));
    add(&["header"], found.has_header.to_string());
    add(&["columns"], columns);
    let formats = [("dateformat", &found.date_format), ("timestampformat", &found.timestamp_format)];
    for (name, format) in formats {
        if let Some(format) = format {
            add(&[name], quoted(format));
        }
    }
    let left = said.iter().filter(|(name, _)| !matches!(name.as_str(), "types" | "dtypes" | "column_types" | "names"));
    parts.extend(left.map(|(_, written)| written.clone()));
    format!("FROM read_csv({});", parts.join(", "))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A number or a truth value as it is, a text in quotes.
fn plain(value: &str) -> String {
    let is_plain = value.parse::<i64>().is_ok() || matches!(value, "true" | "false");
    if is_plain { value.to_owned() } else { quoted(value) }
}
