//! From the columns of a file to those of the table.
//!
//! Columns are matched by name. Strings and binary are read as codes where all of a file's are (`dictionary`), else as views at once
//! (for dictionary-encoded pages that is several times faster than reading them otherwise). What has another type in the file is
//! cast, what is missing is NULL, and partition values are repeated.
//!
//! Not here: reading.

use std::{path::Path, sync::Arc};

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array, new_null_array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, FieldRef, Fields, SchemaRef, TimeUnit};
use ogee_exec::ExecError;
use ogee_vector::{Column, normalize_array};
use parquet::{
    arrow::{FieldLevels, ProjectionMask, arrow_reader::ArrowReaderMetadata, parquet_to_arrow_field_levels},
    basic::{LogicalType, Type as PhysicalType},
    schema::types::ColumnDescriptor,
};

use crate::{
    dictionary::{self, DictionaryValues, dictionary_type},
    error::ScanError,
    spec::{ParquetFile, ParquetScanSpec},
};

/// Rows decoded at once, at most. Batches of a chunk's 2,048 rows cost 12 % more.
pub(crate) const BATCH_ROWS_MAX: usize = 8192;

/// Where a produced column comes from.
enum Output {
    /// Column of the decoded batch.
    Batch(usize),
    /// [`BATCH_ROWS_MAX`] equal values.
    Constant(ArrayRef),
}

/// A leaf column of the file that is read.
pub(crate) struct Leaf {
    /// Its number among the leaves of the file.
    pub(crate) index: usize,
    /// Name of the column it belongs to.
    pub(crate) name: String,
    /// Bytes of one decoded value, without what lies elsewhere.
    pub(crate) width: usize,
    /// Decoded values point into pages.
    pub(crate) is_view: bool,
    /// Decoded values are copied bytes of varying length, beyond `width`.
    pub(crate) is_copied_bytes: bool,
    /// Bytes held for each byte of a dictionary page.
    pub(crate) held_per_dictionary_byte: usize,
}

/// How the columns of one file become those of the scan.
pub(crate) struct FileColumns {
    /// What is read; `None` where no column of the file is.
    pub(crate) levels: Option<FieldLevels>,
    pub(crate) leaves: Box<[Leaf]>,
    outputs: Box<[Output]>,
    schema: SchemaRef,
}

impl FileColumns {
    pub(crate) fn new(
        spec: &ParquetScanSpec,
        file: &ParquetFile,
        metadata: &ArrowReaderMetadata,
    ) -> Result<Self, ExecError> {
        let fields = metadata.schema().fields();
        let descriptor = metadata.parquet_schema();
        let table = spec.file_schema.fields();
        let root_of = |column: usize| {
            let name = table[column].name();
            fields.iter().position(|field| field.name() == name)
        };
        let mut roots: Vec<usize> = spec
            .projection
            .iter()
            .filter(|&&column| column < table.len())
            .filter_map(|&column| root_of(column))
            .collect();
        roots.sort_unstable();
        roots.dedup();

        // Types to read: the file's, but where the library can decode the table's at once.
        let mut hints: Vec<FieldRef> = fields.iter().cloned().collect();
        for &root in &roots {
            let field = &fields[root];
            if let Some((_, wanted)) = spec.file_schema.fields().find(field.name()) {
                let wanted = wanted.data_type();
                let first = (0..descriptor.num_columns()).find(|&leaf| descriptor.get_column_root_idx(leaf) == root);
                let first = first.map(|leaf| (leaf, descriptor.column(leaf)));
                let codes = first
                    .as_ref()
                    .and_then(|(leaf, column)| dictionary_type(*leaf, column, wanted, metadata.metadata()));
                let read = match (codes, first) {
                    (Some(codes), _) => codes,
                    (None, Some((_, leaf))) if leaf.physical_type() == PhysicalType::INT96 => {
                        int96_type(field.data_type(), wanted)
                    }
                    _ => read_type(field.data_type(), wanted),
                };
                hints[root] = Arc::new(field.as_ref().clone().with_data_type(read));
            }
        }
        let leaves = (0..descriptor.num_columns())
            .filter_map(|index| {
                let root = descriptor.get_column_root_idx(index);
                roots.binary_search(&root).ok()?;
                let wanted = spec.file_schema.fields().find(fields[root].name()).map(|(_, field)| field.data_type());
                Some(Leaf::new(index, &descriptor.column(index), &hints[root], wanted))
            })
            .collect();
        let levels = if roots.is_empty() {
            None
        } else {
            let mask = ProjectionMask::roots(descriptor, roots.iter().copied());
            let levels = parquet_to_arrow_field_levels(descriptor, mask, Some(&Fields::from(hints)));
            Some(levels.map_err(|error| ScanError::parquet(&file.path, &error))?)
        };

        let output = |(&column, field): (&usize, &FieldRef)| -> Result<Output, ExecError> {
            if let Some(partition) = column.checked_sub(table.len()) {
                let value = normalize_array(&file.partition_values[partition])?;
                return Ok(Output::Constant(repeat(&value)?));
            }
            let position = root_of(column).and_then(|root| roots.binary_search(&root).ok());
            Ok(position
                .map_or_else(|| Output::Constant(new_null_array(field.data_type(), BATCH_ROWS_MAX)), Output::Batch))
        };
        let outputs = spec.projection.iter().zip(spec.schema.fields()).map(output).collect::<Result<_, _>>()?;
        Ok(Self { levels, leaves, outputs, schema: Arc::clone(&spec.schema) })
    }

    /// The produced columns of the first `rows` rows of `batch`, which is there if anything is read. `dictionaries` are those of the
    /// batch before.
    pub(crate) fn produce(
        &self,
        path: &Path,
        batch: Option<&RecordBatch>,
        rows: usize,
        dictionaries: &mut Vec<DictionaryValues>,
        columns: &mut Vec<Column>,
    ) -> Result<(), ExecError> {
        columns.clear();
        dictionaries.resize_with(self.outputs.len(), DictionaryValues::default);
        for ((output, field), dictionary) in self.outputs.iter().zip(self.schema.fields()).zip(dictionaries) {
            let column = match (output, batch) {
                (Output::Batch(position), Some(batch)) => {
                    let column = batch.column(*position);
                    match column.data_type() {
                        DataType::Dictionary(codes, _) if **codes == DataType::UInt32 => {
                            dictionary.column(column, rows)?
                        }
                        _ => Column::flat(cast(path, field, column.slice(0, rows))?),
                    }
                }
                (Output::Constant(values), _) => Column::flat(values.slice(0, rows)),
                (Output::Batch(_), None) => unreachable!("a file with a column to read has batches"),
            };
            columns.push(column);
        }
        Ok(())
    }
}

impl Leaf {
    fn new(index: usize, leaf: &ColumnDescriptor, read: &Field, wanted: Option<&DataType>) -> Self {
        let is_decimal = matches!(leaf.logical_type_ref(), Some(LogicalType::Decimal { .. }))
            || leaf.converted_type() == parquet::basic::ConvertedType::DECIMAL;
        let is_bytes = leaf.physical_type() == PhysicalType::BYTE_ARRAY && !is_decimal;
        let is_view = is_bytes && has_view(read.data_type());
        let is_code = matches!(read.data_type(), DataType::Dictionary(..));
        let value = match leaf.physical_type() {
            _ if is_code => size_of::<u32>(),
            PhysicalType::FIXED_LEN_BYTE_ARRAY => usize::try_from(leaf.type_length()).unwrap_or(0).max(16),
            _ if is_decimal => 32,
            PhysicalType::BYTE_ARRAY => 16,
            PhysicalType::BOOLEAN => 1,
            PhysicalType::INT32 | PhysicalType::FLOAT => 4,
            PhysicalType::INT64 | PhysicalType::DOUBLE | PhysicalType::INT96 => 8,
        };
        // Two bytes of definition levels, two of repetition levels, offsets of lists.
        let levels = 2 * usize::from(leaf.max_def_level() > 1) + 8 * usize::from(leaf.max_rep_level() > 0);
        let cast = if is_code || wanted.is_none_or(|wanted| wanted == read.data_type()) { 0 } else { value.max(16) };
        Self {
            index,
            name: read.name().clone(),
            width: value + levels + cast,
            is_view,
            is_copied_bytes: is_bytes && !is_view && !is_code,
            held_per_dictionary_byte: if is_code { dictionary::HELD_PER_BYTE } else { 2 },
        }
    }
}

/// The type in which to decode what the file declares as `file`, so that as little as possible is left to cast to `wanted`.
/// Only such types are chosen as the library decodes a column of `file` into without changing a value.
fn read_type(file: &DataType, wanted: &DataType) -> DataType {
    use DataType as D;
    match (file, wanted) {
        (D::Dictionary(_, values), _) => read_type(values, wanted),
        (D::Utf8 | D::LargeUtf8 | D::Utf8View, D::Utf8View | D::BinaryView) => D::Utf8View,
        (D::Binary | D::LargeBinary | D::BinaryView, D::Utf8View | D::BinaryView) => wanted.clone(),
        (D::List(f), D::List(w)) => D::List(read_field(f, w)),
        (D::LargeList(f), D::LargeList(w)) => D::LargeList(read_field(f, w)),
        (D::FixedSizeList(f, n), D::FixedSizeList(w, _)) => D::FixedSizeList(read_field(f, w), *n),
        (D::Map(f, sorted), D::Map(w, _)) => D::Map(read_field(f, w), *sorted),
        (D::Struct(fields), D::Struct(wanted)) => D::Struct(
            fields
                .iter()
                .map(|f| wanted.find(f.name()).map_or_else(|| Arc::clone(f), |(_, w)| read_field(f, w)))
                .collect(),
        ),
        _ => file.clone(),
    }
}

fn read_field(file: &FieldRef, wanted: &FieldRef) -> FieldRef {
    Arc::new(file.as_ref().clone().with_data_type(read_type(file.data_type(), wanted.data_type())))
}

/// 96-bit timestamps are decoded in the table's unit at once: in nanoseconds they would leave the range of 64 bits.
fn int96_type(file: &DataType, wanted: &DataType) -> DataType {
    match (file, wanted) {
        (DataType::Timestamp(TimeUnit::Nanosecond, None), DataType::Timestamp(unit, _)) => {
            DataType::Timestamp(*unit, None)
        }
        _ => file.clone(),
    }
}

fn has_view(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8View | DataType::BinaryView => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_view(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_view(field.data_type())),
        _ => false,
    }
}

fn repeat(value: &ArrayRef) -> Result<ArrayRef, ExecError> {
    assert_eq!(value.len(), 1, "a partition value is an array of one row");
    Ok(arrow_select::take::take(value, &UInt32Array::from(vec![0; BATCH_ROWS_MAX]), None)?)
}

fn cast(path: &Path, wanted: &Field, column: ArrayRef) -> Result<ArrayRef, ScanError> {
    if column.data_type() == wanted.data_type() {
        return Ok(column);
    }
    // Not safe in Arrow's sense: a value that does not fit is an error, and not NULL.
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(&column, wanted.data_type(), &options).map_err(|error| ScanError::Cast {
        path: path.to_owned(),
        column: wanted.name().clone(),
        from: column.data_type().clone(),
        to: wanted.data_type().clone(),
        message: error.to_string(),
    })
}
