//! From the columns of a file to those of the table.
//!
//! Columns are matched by name. Most that are not nested are decoded here (`decode`), all others by the Parquet library, strings and binary as
//! views at once (for dictionary-encoded pages that is several times faster than reading them otherwise). What has another type in the file
//! is cast, what is missing is NULL, and partition values are repeated.
//!
//! Not here: reading.

use std::{path::Path, sync::Arc};

use arrow_array::{
    Array, ArrayRef, ListArray, StructArray, UInt32Array,
    cast::AsArray,
    new_null_array,
    types::{Decimal128Type, Decimal256Type},
};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, SchemaRef, TimeUnit};
use ogee_exec::ExecError;
use ogee_vector::normalize_array;
use parquet::{
    arrow::{FieldLevels, ProjectionMask, arrow_reader::ArrowReaderMetadata, parquet_to_arrow_field_levels},
    basic::{LogicalType, Type as PhysicalType},
    schema::types::ColumnDescriptor,
};

use crate::{
    decode::FlatColumn,
    dictionary,
    error::ScanError,
    filter::ScanFilter,
    spec::{ParquetFile, ParquetScanSpec},
};

/// Rows decoded at once, at most. Batches of a chunk's 2,048 rows cost 12 % more.
pub(crate) const BATCH_ROWS_MAX: usize = 8192;

/// Where a produced column comes from.
pub(crate) enum Output {
    /// A column that is decoded here.
    Flat(usize),
    /// A column of the batch that the library decodes.
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
    /// What the library reads; `None` where that is no column of the file.
    pub(crate) levels: Option<FieldLevels>,
    /// What is decoded here.
    pub(crate) flat: Box<[FlatColumn]>,
    /// All that is read.
    pub(crate) leaves: Box<[Leaf]>,
    pub(crate) outputs: Box<[Output]>,
    schema: SchemaRef,
}

impl FileColumns {
    /// For `file`. Columns that `filter` looks up by their values come as codes where they can.
    pub(crate) fn new(
        spec: &ParquetScanSpec,
        file: &ParquetFile,
        metadata: &ArrowReaderMetadata,
        filter: &ScanFilter,
    ) -> Result<Self, ExecError> {
        let is_probed = |name: &str| {
            let output = spec.schema.fields().iter().position(|field| field.name() == name);
            output.is_some_and(|output| filter.probes(output))
        };
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
        // A decoder here gives each row once.
        let is_repeated = |root: usize, roots: &[usize]| roots.iter().filter(|&&other| other == root).count() > 1;
        let repeated: Vec<usize> = roots.iter().copied().filter(|&root| is_repeated(root, &roots)).collect();
        roots.dedup();

        // Types to read: the file's, but where the library can decode the table's at once.
        let mut hints: Vec<FieldRef> = fields.iter().cloned().collect();
        let mut flat = Vec::new();
        // Of each root that is decoded here, its number among those.
        let mut flat_of = vec![None; fields.len()];
        for &root in &roots {
            let field = &fields[root];
            let Some((_, wanted)) = spec.file_schema.fields().find(field.name()) else { continue };
            let wanted = wanted.data_type();
            let leaf = (0..descriptor.num_columns()).find(|&leaf| descriptor.get_column_root_idx(leaf) == root);
            let leaf = leaf.map(|leaf| (leaf, descriptor.column(leaf)));
            let read = match &leaf {
                Some((_, leaf)) if leaf.physical_type() == PhysicalType::INT96 => int96_type(field.data_type(), wanted),
                _ => read_type(field.data_type(), wanted),
            };
            hints[root] = Arc::new(field.as_ref().clone().with_data_type(read));
            let here = leaf.filter(|_| !repeated.contains(&root)).and_then(|(leaf, descriptor)| {
                FlatColumn::new(leaf, &descriptor, &hints[root], wanted, metadata.metadata(), is_probed(field.name()))
            });
            flat_of[root] = here.is_some().then_some(flat.len());
            flat.extend(here);
        }
        let leaves = (0..descriptor.num_columns())
            .filter_map(|index| {
                let root = descriptor.get_column_root_idx(index);
                roots.binary_search(&root).ok()?;
                let wanted = spec.file_schema.fields().find(fields[root].name()).map(|(_, field)| field.data_type());
                let here = flat_of[root].map(|flat_column: usize| &flat[flat_column]);
                Some(Leaf::new(index, &descriptor.column(index), &hints[root], wanted, here))
            })
            .collect();
        let foreign: Vec<usize> = roots.iter().copied().filter(|&root| flat_of[root].is_none()).collect();
        let levels = if foreign.is_empty() {
            None
        } else {
            let mask = ProjectionMask::roots(descriptor, foreign.iter().copied());
            let levels = parquet_to_arrow_field_levels(descriptor, mask, Some(&Fields::from(hints)));
            Some(levels.map_err(|error| ScanError::parquet(&file.path, &error))?)
        };

        let output = |(&column, field): (&usize, &FieldRef)| -> Result<Output, ExecError> {
            if let Some(partition) = column.checked_sub(table.len()) {
                let value = normalize_array(&file.partition_values[partition])?;
                return Ok(Output::Constant(repeat(&value)?));
            }
            let Some(root) = root_of(column) else {
                return Ok(Output::Constant(new_null_array(field.data_type(), BATCH_ROWS_MAX)));
            };
            Ok(match (flat_of[root], foreign.binary_search(&root)) {
                (Some(flat_column), _) => Output::Flat(flat_column),
                (None, position) => Output::Batch(position.expect("every root is read in one way")),
            })
        };
        let outputs = spec.projection.iter().zip(spec.schema.fields()).map(output).collect::<Result<_, _>>()?;
        Ok(Self { levels, flat: flat.into(), leaves, outputs, schema: Arc::clone(&spec.schema) })
    }

    /// Whether no column of the file is read.
    pub(crate) fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    /// The first `rows` rows of `column`, which the library decoded, as produced column `output`.
    pub(crate) fn convert(
        &self,
        path: &Path,
        output: usize,
        column: &ArrayRef,
        rows: usize,
    ) -> Result<ArrayRef, ScanError> {
        let (wanted, column) = (self.schema.field(output), column.slice(0, rows));
        let digits = match column.data_type() {
            DataType::Decimal128(precision, _) => {
                column.as_primitive::<Decimal128Type>().validate_decimal_precision(*precision)
            }
            DataType::Decimal256(precision, _) => {
                column.as_primitive::<Decimal256Type>().validate_decimal_precision(*precision)
            }
            _ => Ok(()),
        };
        digits.map_err(|error| ScanError::parquet(path, &format!("column '{}': {error}", wanted.name())))?;
        cast(path, wanted, column)
    }
}

impl Leaf {
    fn new(
        index: usize,
        leaf: &ColumnDescriptor,
        read: &Field,
        wanted: Option<&DataType>,
        here: Option<&FlatColumn>,
    ) -> Self {
        let is_decimal = matches!(leaf.logical_type_ref(), Some(LogicalType::Decimal { .. }))
            || leaf.converted_type() == parquet::basic::ConvertedType::DECIMAL;
        let is_bytes = leaf.physical_type() == PhysicalType::BYTE_ARRAY && !is_decimal;
        let is_code = here.is_some_and(FlatColumn::is_codes);
        let is_view = is_bytes && !is_code && has_view(read.data_type());
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
        // Codes of the values and positions among them, while they are decoded.
        let scratch = if here.is_some() { size_of::<u32>() * (1 + usize::from(leaf.max_def_level() > 0)) } else { 0 };
        Self {
            index,
            name: read.name().clone(),
            width: value + levels + cast + scratch,
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
    cast_by_names(&column, wanted.data_type()).map_err(|error| ScanError::Cast {
        path: path.to_owned(),
        column: wanted.name().clone(),
        from: column.data_type().clone(),
        to: wanted.data_type().clone(),
        message: error.to_string(),
    })
}

/// `column` in another type. Fields of structs are found by their names; those that the file does not have are NULL.
fn cast_by_names(column: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, ArrowError> {
    match (column.data_type(), wanted) {
        (of, wanted) if of == wanted => Ok(Arc::clone(column)),
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let structs = column.as_struct();
            let field = |field: &FieldRef| match structs.column_by_name(field.name()) {
                Some(values) => cast_by_names(values, field.data_type()),
                None => Ok(new_null_array(field.data_type(), structs.len())),
            };
            let values = fields.iter().map(field).collect::<Result<_, _>>()?;
            let nulls = structs.nulls().cloned();
            Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), values, nulls, structs.len())?))
        }
        (DataType::List(of), DataType::List(wanted)) if of.data_type().is_nested() => {
            let lists = column.as_list::<i32>();
            let values = cast_by_names(lists.values(), wanted.data_type())?;
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            Ok(Arc::new(ListArray::try_new(Arc::clone(wanted), offsets, values, nulls)?))
        }
        // Not safe in Arrow's sense: a value that does not fit is an error, and not NULL.
        _ => cast_with_options(column, wanted, &CastOptions { safe: false, ..CastOptions::default() }),
    }
}
