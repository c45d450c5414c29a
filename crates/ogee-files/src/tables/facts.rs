//! What Parquet files say of themselves: `parquet_metadata`, `parquet_schema`, `parquet_file_metadata` and `parquet_kv_metadata`.
//!
//! Columns are those that DuckDB has, but for what the Parquet library does not tell: geometries, counts of NaN, encodings of pages.
//!
//! Not here: reading their rows.

use std::{path::PathBuf, sync::Arc};

use datafusion::{
    arrow::{
        array::{ArrayRef, BinaryViewArray, BooleanArray, Int64Array, RecordBatch, StringViewArray, UInt64Array},
        datatypes::{Field, Schema},
    },
    catalog::TableProvider,
    datasource::MemTable,
    error::Result,
    parquet::{
        basic::{ConvertedType, LogicalType, Repetition},
        file::{
            metadata::{ColumnChunkMetaData, ParquetMetaData},
            statistics::Statistics,
        },
        schema::types::Type,
    },
};
use ogee_functions::Error;
use ogee_memory::BufferManager;
use ogee_scan::read_footer;

use super::listing::Found;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Facts {
    /// A row for each column of each row group.
    Chunks,
    /// A row for each node of the schema.
    Schema,
    /// A row for each file.
    Files,
    /// A row for each key and value.
    Pairs,
}

impl Facts {
    /// Those that table function `name` gives.
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "parquet_metadata" => Self::Chunks,
            "parquet_schema" => Self::Schema,
            "parquet_file_metadata" => Self::Files,
            "parquet_kv_metadata" => Self::Pairs,
            _ => return None,
        })
    }

    /// What the footers of `files` say.
    ///
    /// # Errors
    /// A file that is no Parquet file.
    pub(super) fn table(self, files: &[Found], memory: &Arc<BufferManager>) -> Result<Arc<dyn TableProvider>> {
        let mut rows = Rows::default();
        for file in files {
            let path = PathBuf::from(format!("/{}", file.meta.location));
            let footer = read_footer(memory, &path, file.meta.size).map_err(Error::from)?;
            match self {
                Self::Chunks => rows.chunks(&file.given, &footer),
                Self::Schema => rows.schema(&file.given, &footer),
                Self::Files => rows.file(file, &footer),
                Self::Pairs => rows.pairs(&file.given, &footer),
            }
        }
        let columns = rows.columns(self);
        let field = |(name, column): &(&str, ArrayRef)| Field::new(*name, column.data_type().clone(), true);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns.into_iter().map(|(_, column)| column).collect())?;
        Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
    }
}

/// Values of the columns, which have one of each row: texts, numbers and others in the order that [`Rows::columns`] names them.
#[derive(Default)]
struct Rows {
    texts: Vec<Vec<Option<String>>>,
    numbers: Vec<Vec<Option<i64>>>,
    flags: Vec<Vec<Option<bool>>>,
    bytes: Vec<Vec<Option<Vec<u8>>>>,
    /// Of files.
    sizes: Vec<u64>,
}

fn push<T>(columns: &mut Vec<Vec<T>>, row: impl IntoIterator<Item = T>) {
    for (column, value) in row.into_iter().enumerate() {
        if columns.len() <= column {
            columns.push(Vec::new());
        }
        columns[column].push(value);
    }
}

fn number(value: usize) -> Option<i64> {
    i64::try_from(value).ok()
}

impl Rows {
    fn chunks(&mut self, file: &str, footer: &ParquetMetaData) {
        for (group_id, group) in footer.row_groups().iter().enumerate() {
            for (column_id, chunk) in group.columns().iter().enumerate() {
                let statistics = chunk.statistics();
                let [least, greatest] = [true, false].map(|least| bound(chunk, statistics, least));
                let encodings: Vec<String> = chunk.encodings().map(|encoding| encoding.to_string()).collect();
                push(
                    &mut self.texts,
                    [
                        Some(file.to_owned()),
                        Some(chunk.column_path().string()),
                        Some(chunk.column_type().to_string()),
                        least.clone(),
                        greatest.clone(),
                        least,
                        greatest,
                        // Without its level.
                        Some(chunk.compression().to_string().split('(').next().unwrap_or_default().to_owned()),
                        Some(encodings.join(", ")),
                    ],
                );
                let known = |value: Option<u64>| value.and_then(|value| i64::try_from(value).ok());
                push(
                    &mut self.numbers,
                    [
                        number(group_id),
                        Some(group.num_rows()),
                        number(group.num_columns()),
                        Some(group.total_byte_size()),
                        number(column_id),
                        Some(chunk.file_offset()),
                        Some(chunk.num_values()),
                        known(statistics.and_then(Statistics::null_count_opt)),
                        known(statistics.and_then(Statistics::distinct_count_opt)),
                        chunk.index_page_offset(),
                        chunk.dictionary_page_offset(),
                        Some(chunk.data_page_offset()),
                        Some(chunk.compressed_size()),
                        Some(chunk.uncompressed_size()),
                        chunk.bloom_filter_offset(),
                        chunk.bloom_filter_length().map(i64::from),
                        Some(group.compressed_size()),
                    ],
                );
                let exact = |is: fn(&Statistics) -> bool| statistics.map(is);
                push(&mut self.flags, [exact(Statistics::min_is_exact), exact(Statistics::max_is_exact)]);
            }
        }
    }

    fn schema(&mut self, file: &str, footer: &ParquetMetaData) {
        // Children come behind their parents, in their order.
        let mut open: Vec<(&Type, bool)> = vec![(footer.file_metadata().schema_descr().root_schema(), true)];
        let mut column_id = 0;
        while let Some((node, is_root)) = open.pop() {
            let info = node.get_basic_info();
            let (mut kind, mut length, mut scale, mut precision) = (None, None, None, None);
            if let Type::PrimitiveType { physical_type, type_length, scale: of, precision: digits, .. } = node {
                kind = Some(physical_type.to_string());
                length = (*type_length > 0).then(|| type_length.to_string());
                if info.converted_type() == ConvertedType::DECIMAL {
                    (scale, precision) = (Some(i64::from(*of)), Some(i64::from(*digits)));
                }
            }
            let repetition = (!is_root && info.has_repetition()).then(|| match info.repetition() {
                Repetition::REQUIRED => "REQUIRED",
                Repetition::OPTIONAL => "OPTIONAL",
                Repetition::REPEATED => "REPEATED",
            });
            let converted = info.converted_type();
            let converted = (converted != ConvertedType::NONE).then(|| converted.to_string());
            push(
                &mut self.texts,
                [
                    Some(file.to_owned()),
                    Some(node.name().to_owned()),
                    kind,
                    length,
                    repetition.map(str::to_owned),
                    converted,
                    info.logical_type_ref().map(logical_name),
                ],
            );
            let children = if node.is_group() { node.get_fields() } else { &[] };
            let field_id = info.has_id().then(|| i64::from(info.id()));
            let child_count = if node.is_group() { number(children.len()) } else { None };
            push(&mut self.numbers, [child_count, scale, precision, field_id, Some(column_id)]);
            column_id += 1;
            open.extend(children.iter().rev().map(|child| (child.as_ref(), false)));
        }
    }

    fn file(&mut self, file: &Found, footer: &ParquetMetaData) {
        let facts = footer.file_metadata();
        push(&mut self.texts, [Some(file.given.clone()), facts.created_by().map(str::to_owned)]);
        push(
            &mut self.numbers,
            [Some(facts.num_rows()), number(footer.num_row_groups()), Some(i64::from(facts.version()))],
        );
        self.sizes.push(file.meta.size);
    }

    fn pairs(&mut self, file: &str, footer: &ParquetMetaData) {
        for pair in footer.file_metadata().key_value_metadata().into_iter().flatten() {
            push(&mut self.texts, [Some(file.to_owned())]);
            let value = pair.value.as_ref().map(|value| value.as_bytes().to_vec());
            push(&mut self.bytes, [Some(pair.key.as_bytes().to_vec()), value]);
        }
    }

    /// The columns that `facts` have, in DuckDB's order.
    fn columns(self, facts: Facts) -> Vec<(&'static str, ArrayRef)> {
        let mut texts = self.texts.into_iter();
        let mut numbers = self.numbers.into_iter();
        let mut flags = self.flags.into_iter();
        let mut bytes = self.bytes.into_iter();
        let mut text = |name| {
            let values = texts.next().unwrap_or_default();
            (name, Arc::new(values.into_iter().collect::<StringViewArray>()) as ArrayRef)
        };
        let mut number = |name| {
            let values = numbers.next().unwrap_or_default();
            (name, Arc::new(Int64Array::from(values)) as ArrayRef)
        };
        let mut flag = |name| {
            let values = flags.next().unwrap_or_default();
            (name, Arc::new(BooleanArray::from(values)) as ArrayRef)
        };
        let mut blob = |name| {
            let values = bytes.next().unwrap_or_default();
            (name, Arc::new(values.into_iter().collect::<BinaryViewArray>()) as ArrayRef)
        };
        match facts {
            Facts::Chunks => vec![
                text("file_name"),
                number("row_group_id"),
                number("row_group_num_rows"),
                number("row_group_num_columns"),
                number("row_group_bytes"),
                number("column_id"),
                number("file_offset"),
                number("num_values"),
                text("path_in_schema"),
                text("type"),
                text("stats_min"),
                text("stats_max"),
                number("stats_null_count"),
                number("stats_distinct_count"),
                text("stats_min_value"),
                text("stats_max_value"),
                text("compression"),
                text("encodings"),
                number("index_page_offset"),
                number("dictionary_page_offset"),
                number("data_page_offset"),
                number("total_compressed_size"),
                number("total_uncompressed_size"),
                number("bloom_filter_offset"),
                number("bloom_filter_length"),
                flag("min_is_exact"),
                flag("max_is_exact"),
                number("row_group_compressed_bytes"),
            ],
            Facts::Schema => vec![
                text("file_name"),
                text("name"),
                text("type"),
                text("type_length"),
                text("repetition_type"),
                number("num_children"),
                text("converted_type"),
                number("scale"),
                number("precision"),
                number("field_id"),
                text("logical_type"),
                number("column_id"),
            ],
            Facts::Files => vec![
                text("file_name"),
                text("created_by"),
                number("num_rows"),
                number("num_row_groups"),
                number("format_version"),
                ("file_size_bytes", Arc::new(UInt64Array::from(self.sizes))),
            ],
            Facts::Pairs => vec![text("file_name"), blob("key"), blob("value")],
        }
    }
}

/// The least or greatest value of a column chunk as text, where it is a number or a text.
fn bound(chunk: &ColumnChunkMetaData, statistics: Option<&Statistics>, least: bool) -> Option<String> {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    macro_rules! shown {
        ($values:expr) => {{
            let value = if least { $values.min_opt() } else { $values.max_opt() };
            value.map(ToString::to_string)
        }};
    }
    match statistics? {
        Statistics::Boolean(values) => shown!(values),
        Statistics::Int32(values) => shown!(values),
        Statistics::Int64(values) => shown!(values),
        Statistics::Float(values) => shown!(values),
        Statistics::Double(values) => shown!(values),
        Statistics::Int96(_) => None,
        Statistics::ByteArray(values) => {
            let value = if least { values.min_opt() } else { values.max_opt() };
            let is_text = chunk.column_descr().converted_type() == ConvertedType::UTF8;
            value.filter(|_| is_text).and_then(|value| text(value.data()))
        }
        Statistics::FixedLenByteArray(_) => None,
    }
}

/// A logical type as the format's description names it.
fn logical_name(logical: &LogicalType) -> String {
    let text = format!("{logical:?}");
    let name = text.split(['(', ' ', '{']).next().unwrap_or_default();
    format!("{name}Type()")
}
