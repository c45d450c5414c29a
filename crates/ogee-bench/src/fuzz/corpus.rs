//! Valid files: one column of each type, in each encoding, codec and page version that it can have.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, ListArray, RecordBatch, StringViewArray,
    StructArray, Time64MicrosecondArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, UInt32Array, UInt64Array, types::Int32Type,
};
use arrow_buffer::i256;
use arrow_schema::{DataType, Field};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, Encoding},
    file::properties::{EnabledStatistics, WriterProperties, WriterVersion},
};

use super::Failure;
use crate::random::Random;

/// All that is counted.
pub(super) const FEATURES: [&str; 43] = [
    "bool",
    "i8",
    "i16",
    "i32",
    "i64",
    "u32",
    "u64",
    "f32",
    "f64",
    "date",
    "time",
    "timestamp ms",
    "timestamp us",
    "timestamp ns",
    "decimal(9)",
    "decimal(18)",
    "decimal(38)",
    "decimal(76)",
    "text",
    "bytes",
    "fixed bytes",
    "list",
    "struct",
    "required",
    "optional",
    "PLAIN",
    "DICTIONARY",
    "DELTA_BINARY_PACKED",
    "DELTA_LENGTH_BYTE_ARRAY",
    "DELTA_BYTE_ARRAY",
    "BYTE_STREAM_SPLIT",
    "RLE",
    "UNCOMPRESSED",
    "SNAPPY",
    "GZIP",
    "BROTLI",
    "ZSTD",
    "LZ4_RAW",
    "LZ4",
    "version 1",
    "version 2",
    "page index",
    "kept",
];

const TYPES: usize = 23;

/// What a file is made of.
#[derive(Debug)]
pub(super) struct Form {
    /// Number of the type among the features.
    kind: usize,
    is_optional: bool,
    encoding: &'static str,
    codec: &'static str,
    version: usize,
    has_index: bool,
}

impl Form {
    /// One of all forms, each type, encoding, codec and version as often as the others of its kind.
    pub(super) fn draw(random: &mut Random) -> Self {
        let mut one = |of: usize| random.below(of as u64) as usize;
        let kind = one(TYPES);
        let mut encodings = vec!["PLAIN", "DICTIONARY"];
        match FEATURES[kind] {
            "bool" => encodings = vec!["PLAIN", "RLE"],
            "i8" | "i16" | "i32" | "i64" | "u32" | "u64" | "date" | "time" | "timestamp ms" | "timestamp us"
            | "timestamp ns" | "decimal(9)" | "decimal(18)" => {
                encodings.extend(["DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"]);
            }
            "f32" | "f64" => encodings.push("BYTE_STREAM_SPLIT"),
            "text" | "bytes" => encodings.extend(["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"]),
            "fixed bytes" | "decimal(38)" => encodings.extend(["DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT"]),
            _ => {}
        }
        Self {
            kind,
            is_optional: one(2) == 0,
            encoding: encodings[one(encodings.len())],
            codec: ["UNCOMPRESSED", "SNAPPY", "GZIP", "BROTLI", "ZSTD", "LZ4_RAW", "LZ4"][one(7)],
            version: 1 + one(2),
            has_index: one(2) == 0,
        }
    }

    /// What is counted of it.
    pub(super) fn features(&self) -> impl Iterator<Item = &'static str> {
        let version = if self.version == 1 { "version 1" } else { "version 2" };
        let optional = if self.is_optional { "optional" } else { "required" };
        let index = self.has_index.then_some("page index");
        [FEATURES[self.kind], optional, self.encoding, self.codec, version].into_iter().chain(index)
    }

    fn compression(&self) -> Compression {
        match self.codec {
            "SNAPPY" => Compression::SNAPPY,
            "GZIP" => Compression::GZIP(Default::default()),
            "BROTLI" => Compression::BROTLI(Default::default()),
            "ZSTD" => Compression::ZSTD(Default::default()),
            "LZ4_RAW" => Compression::LZ4_RAW,
            "LZ4" => Compression::LZ4,
            _ => Compression::UNCOMPRESSED,
        }
    }

    /// The column: some hundred values, often equal, NULL at times if it may be.
    fn column(&self, random: &mut Random) -> Result<ArrayRef, Failure> {
        let rows = 50 + random.below(400) as usize;
        let span = [3, 40, 1 << 40][random.below(3) as usize];
        let values: Vec<Option<i64>> = (0..rows)
            .map(|_| {
                let value = random.below(span) as i64 - 1;
                (!self.is_optional || random.below(5) > 0).then_some(value)
            })
            .collect();
        let text = |value: i64| {
            "αβc def ghij klmnop".chars().cycle().take((value.unsigned_abs() % 40) as usize).collect::<String>()
                + &value.to_string()
        };
        let within = |most: i64| values.iter().map(move |value| value.map(|value| value % most)).collect::<Vec<_>>();
        macro_rules! numbers {
            ($array:ty, $native:ty) => {
                Arc::new(values.iter().map(|value| value.map(|value| value as $native)).collect::<$array>())
            };
        }
        Ok(match FEATURES[self.kind] {
            "bool" => Arc::new(values.iter().map(|value| value.map(|value| value % 2 == 0)).collect::<BooleanArray>()),
            "i8" => numbers!(Int8Array, i8),
            "i16" => numbers!(Int16Array, i16),
            "i32" => numbers!(Int32Array, i32),
            "i64" => numbers!(Int64Array, i64),
            "u32" => numbers!(UInt32Array, u32),
            "u64" => numbers!(UInt64Array, u64),
            "f32" => numbers!(Float32Array, f32),
            "f64" => numbers!(Float64Array, f64),
            "date" => Arc::new(
                within(40_000).into_iter().map(|value| value.map(|value| value as i32)).collect::<Date32Array>(),
            ),
            "time" => Arc::new(
                within(86_400_000_000).into_iter().map(|value| value.map(i64::abs)).collect::<Time64MicrosecondArray>(),
            ),
            "timestamp ms" => numbers!(TimestampMillisecondArray, i64),
            "timestamp us" => numbers!(TimestampMicrosecondArray, i64),
            "timestamp ns" => numbers!(TimestampNanosecondArray, i64),
            "decimal(9)" => Arc::new(
                within(999_999_999)
                    .into_iter()
                    .map(|v| v.map(i128::from))
                    .collect::<Decimal128Array>()
                    .with_precision_and_scale(9, 2)?,
            ),
            "decimal(18)" => Arc::new(
                values
                    .iter()
                    .map(|v| v.map(i128::from))
                    .collect::<Decimal128Array>()
                    .with_precision_and_scale(18, 4)?,
            ),
            "decimal(38)" => Arc::new(
                values
                    .iter()
                    .map(|v| v.map(i128::from))
                    .collect::<Decimal128Array>()
                    .with_precision_and_scale(38, 10)?,
            ),
            "decimal(76)" => {
                let values = values.iter().map(|v| v.map(|v| i256::from_i128(i128::from(v))));
                Arc::new(values.collect::<Decimal256Array>().with_precision_and_scale(76, 10)?)
            }
            "text" => Arc::new(values.iter().map(|value| value.map(text)).collect::<StringViewArray>()),
            "bytes" => {
                Arc::new(values.iter().map(|value| value.map(|v| text(v).into_bytes())).collect::<BinaryViewArray>())
            }
            "fixed bytes" => Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                values.iter().map(|value| value.map(|value| value.to_be_bytes())),
                8,
            )?),
            "list" => {
                let lists = values.iter().map(|value| {
                    value.map(|value| {
                        (0..value % 5).map(move |n| (n != 2).then_some((value % 1000 + n) as i32)).collect::<Vec<_>>()
                    })
                });
                Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))
            }
            _ => {
                let number: ArrayRef = numbers!(Int64Array, i64);
                let text: ArrayRef = Arc::new(values.iter().map(|value| value.map(text)).collect::<StringViewArray>());
                let field = |name: &str, of: &ArrayRef| Arc::new(Field::new(name, of.data_type().clone(), true));
                Arc::new(StructArray::from(vec![
                    (field("number", &number), number.clone()),
                    (field("text", &text), text.clone()),
                ]))
            }
        })
    }

    /// The bytes of a file of this form.
    pub(super) fn write(&self, random: &mut Random) -> Result<Vec<u8>, Failure> {
        let column = self.column(random)?;
        let version = if self.version == 1 { WriterVersion::PARQUET_1_0 } else { WriterVersion::PARQUET_2_0 };
        let mut properties = WriterProperties::builder()
            .set_compression(self.compression())
            .set_writer_version(version)
            .set_statistics_enabled(if self.has_index { EnabledStatistics::Page } else { EnabledStatistics::None })
            .set_offset_index_disabled(!self.has_index)
            .set_dictionary_enabled(self.encoding == "DICTIONARY")
            .set_data_page_row_count_limit(100)
            .set_write_batch_size(50)
            .set_max_row_group_row_count(Some(250));
        properties = match self.encoding {
            "PLAIN" => properties.set_encoding(Encoding::PLAIN),
            "RLE" => properties.set_encoding(Encoding::RLE),
            "DELTA_BINARY_PACKED" => properties.set_encoding(Encoding::DELTA_BINARY_PACKED),
            "DELTA_LENGTH_BYTE_ARRAY" => properties.set_encoding(Encoding::DELTA_LENGTH_BYTE_ARRAY),
            "DELTA_BYTE_ARRAY" => properties.set_encoding(Encoding::DELTA_BYTE_ARRAY),
            "BYTE_STREAM_SPLIT" => properties.set_encoding(Encoding::BYTE_STREAM_SPLIT),
            _ => properties,
        };
        let is_nullable = self.is_optional || matches!(column.data_type(), DataType::List(_) | DataType::Struct(_));
        let batch = RecordBatch::try_from_iter_with_nullable([("column", column, is_nullable)])?;
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties.build()))?;
        writer.write(&batch)?;
        writer.close()?;
        Ok(bytes)
    }
}
