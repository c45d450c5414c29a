//! Columns that are not nested, decoded here: only the rows that are wanted, into their final type, in buffers that are used again.
//!
//! ```text
//! pages ── cursor: levels, codes or plain values ──> Values<D> ── the rows wanted ──> column
//!             └ pages without a row that is wanted are skipped
//! ```
//!
//! Numbers of fixed width (`fixed`) become flat arrays, and so do strings (`strings`). Columns whose pages all refer to a small dictionary may
//! stay codes of it (`codes`).
//!
//! Whatever else there is, such as nested columns and other encodings, the Parquet library decodes.
//!
//! Not here: which rows are wanted (`filter`).

mod codes;
mod cursor;
mod fixed;
mod hybrid;
mod strings;
mod validity;
mod values;

use arrow_schema::{DataType, Field, TimeUnit};
use ogee_vector::Column;
use parquet::{
    basic::{Encoding, Type as PhysicalType},
    errors::ParquetError,
    file::metadata::ParquetMetaData,
    schema::types::ColumnDescriptor,
};

use self::{codes::Codes, cursor::PageCursor, fixed::Fixed, strings::Strings, values::ColumnValues};
use crate::{dictionary, pages::RowGroupPages};

/// Rows that are passed over and rows that are wanted, in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) skip: usize,
    pub(crate) take: usize,
}

/// One lane's position in a column of a row group.
pub(crate) trait ColumnDecoder: Send {
    /// The values of those rows that are taken of `stretches`, or of `picked` among them, ascending.
    ///
    /// # Errors
    /// When pages cannot be read, or contradict what was said of them.
    fn read(&mut self, stretches: &[Stretch], picked: Option<&[u32]>) -> Result<Column, ParquetError>;

    /// Passes over rows.
    fn pass(&mut self, rows: usize);
}

/// In which way a column is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Numbers one by one.
    Fixed,
    /// Codes of one dictionary for all.
    Codes,
    /// Byte arrays one by one.
    Strings,
}

/// A column of a file that is decoded here.
#[derive(Debug)]
pub(crate) struct FlatColumn {
    /// Its number among the leaves of the file.
    pub(crate) leaf: usize,
    physical: PhysicalType,
    is_optional: bool,
    data_type: DataType,
    kind: Kind,
}

impl FlatColumn {
    /// Column `leaf` of a file, which the table has as `wanted` and the library would read as `read`; `None` if it is not decoded here. `as_codes`: a
    /// number may come as the code of a value too.
    pub(crate) fn new(
        leaf: usize,
        descriptor: &ColumnDescriptor,
        read: &Field,
        wanted: &DataType,
        metadata: &ParquetMetaData,
        as_codes: bool,
    ) -> Option<Self> {
        let is_flat =
            descriptor.max_rep_level() == 0 && descriptor.path().parts().len() == 1 && descriptor.max_def_level() <= 1;
        if !is_flat {
            return None;
        }
        let is_optional = descriptor.max_def_level() == 1;
        let known = |encoding| match encoding {
            Encoding::PLAIN | Encoding::RLE | Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY => true,
            // What old writers say of levels that there are none of.
            #[expect(deprecated, reason = "old files have it")]
            Encoding::BIT_PACKED => !is_optional,
            _ => false,
        };
        if !metadata.row_groups().iter().all(|row_group| row_group.column(leaf).encodings().all(known)) {
            return None;
        }
        let physical = descriptor.physical_type();
        let is_number = read.data_type() == wanted && is_fixed(physical, wanted);
        let is_text = physical == PhysicalType::BYTE_ARRAY && dictionary::is_text_of(descriptor, wanted);
        let is_coded = || dictionary::is_of_codes(leaf, metadata);
        let kind = match () {
            () if (is_text || is_number && as_codes) && is_coded() => Kind::Codes,
            () if is_number => Kind::Fixed,
            () if is_text => Kind::Strings,
            () => return None,
        };
        Some(Self { leaf, physical, is_optional, data_type: wanted.clone(), kind })
    }

    /// Whether values come as codes of a dictionary.
    pub(crate) fn is_codes(&self) -> bool {
        self.kind == Kind::Codes
    }

    /// A decoder of the column in one row group, of which `few` rows are wanted or most.
    fn open(&self, pages: &RowGroupPages, few: bool) -> Result<Box<dyn ColumnDecoder>, ParquetError> {
        let width = match self.physical {
            PhysicalType::INT32 | PhysicalType::FLOAT => 4,
            PhysicalType::BYTE_ARRAY => 0,
            _ => 8,
        };
        let cursor = PageCursor::new(pages.raw_pages(self.leaf, width)?, self.is_optional, few);
        let data_type = self.data_type.clone();
        Ok(match (self.kind, self.physical, &data_type) {
            (Kind::Codes, physical, _) => Box::new(ColumnValues::new(cursor, Codes::new(physical, data_type))),
            (Kind::Strings, ..) => Box::new(ColumnValues::new(cursor, Strings::new(data_type, few))),
            (_, PhysicalType::INT32, DataType::Decimal128(..)) => {
                Box::new(ColumnValues::new(cursor, Fixed::<i32, i128>::new(data_type)))
            }
            (_, _, DataType::Decimal128(..)) => Box::new(ColumnValues::new(cursor, Fixed::<i64, i128>::new(data_type))),
            // Floats are moved as integers.
            (_, PhysicalType::INT32 | PhysicalType::FLOAT, _) => {
                Box::new(ColumnValues::new(cursor, Fixed::<i32, i32>::new(data_type)))
            }
            _ => Box::new(ColumnValues::new(cursor, Fixed::<i64, i64>::new(data_type))),
        })
    }
}

/// Whether numbers of `physical` are those of `data_type`, bit for bit or widened.
fn is_fixed(physical: PhysicalType, data_type: &DataType) -> bool {
    use DataType as D;
    match physical {
        PhysicalType::INT32 => matches!(data_type, D::Int32 | D::Date32 | D::Decimal128(..)),
        PhysicalType::INT64 => matches!(
            data_type,
            D::Int64
                | D::Decimal128(..)
                | D::Timestamp(TimeUnit::Millisecond | TimeUnit::Microsecond | TimeUnit::Nanosecond, _)
        ),
        PhysicalType::FLOAT => *data_type == D::Float32,
        PhysicalType::DOUBLE => *data_type == D::Float64,
        _ => false,
    }
}

/// Decoders of all columns of a file that are decoded here.
pub(crate) type Decoders = Box<[Box<dyn ColumnDecoder>]>;

/// Of so many rows of a row group one is wanted, at most, where only few are.
const FEW: usize = 8;

/// Decoders of `columns`, of which `rows` rows are wanted.
pub(crate) fn open_all(columns: &[FlatColumn], pages: &RowGroupPages, rows: usize) -> Result<Decoders, ParquetError> {
    let few = rows <= pages.rows() / FEW;
    columns.iter().map(|column| column.open(pages, few)).collect()
}
