//! Numbers of fixed width, as they are or widened.

use arrow_array::{ArrayRef, make_array};
use arrow_buffer::{ArrowNativeType, Buffer, NullBufferBuilder};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use bytes::Bytes;
use ogee_vector::Column;
use parquet::errors::ParquetError;

use super::{
    cursor::{DictionaryPage, Values},
    hybrid::Picks,
    values::{Decode, reused},
};

/// A number as files have it: little endian.
pub(super) trait Stored: Copy + Default + Send {
    const WIDTH: usize;

    /// Its bytes.
    type Bytes: Copy + 'static;

    /// The numbers of `bytes`, one after the other.
    fn split(bytes: &[u8]) -> &[Self::Bytes];

    /// The number that has these bytes.
    fn from_bytes(bytes: Self::Bytes) -> Self;

    /// Whether it is at most `most`, and at least `-most`.
    fn is_within(self, most: Self) -> bool;

    /// `most`, unless every number is within that.
    fn bound(most: i128) -> Option<Self>;

    /// The number in the first bytes, which are there.
    #[inline(always)]
    fn load(bytes: &[u8]) -> Self {
        Self::from_bytes(Self::split(&bytes[..Self::WIDTH])[0])
    }
}

macro_rules! stored {
    ($t:ty) => {
        impl Stored for $t {
            const WIDTH: usize = size_of::<$t>();

            type Bytes = [u8; size_of::<$t>()];

            #[inline(always)]
            fn split(bytes: &[u8]) -> &[Self::Bytes] {
                bytes.as_chunks().0
            }

            #[inline(always)]
            fn from_bytes(bytes: Self::Bytes) -> Self {
                Self::from_le_bytes(bytes)
            }

            #[inline(always)]
            fn is_within(self, most: Self) -> bool {
                self.wrapping_add(most).cast_unsigned() <= most.cast_unsigned() * 2
            }

            fn bound(most: i128) -> Option<Self> {
                Self::try_from(most).ok()
            }
        }
    };
}

stored!(i32);
stored!(i64);

/// The greatest number of the digits that `data_type` has, if it is of decimals and numbers of the file may be greater.
pub(super) fn most<S: Stored>(data_type: &DataType) -> Option<S> {
    match data_type {
        DataType::Decimal128(precision, _) => S::bound(10i128.pow(u32::from(*precision)) - 1),
        _ => None,
    }
}

/// Checks that all of `numbers` have no more digits than their type.
pub(super) fn check_digits<S: Stored>(
    numbers: impl IntoIterator<Item = S>,
    most: Option<S>,
) -> Result<(), ParquetError> {
    let Some(most) = most else { return Ok(()) };
    match numbers.into_iter().fold(true, |all, number| all & number.is_within(most)) {
        true => Ok(()),
        false => Err(ParquetError::General("a decimal has more digits than its type".into())),
    }
}

/// The numbers of a plain page.
pub(super) fn plain<S: Stored>(bytes: &[u8], count: usize) -> Result<impl Iterator<Item = S>, ParquetError> {
    let bytes = bytes.get(..count * S::WIDTH);
    let bytes = bytes.ok_or_else(|| ParquetError::EOF("a page has fewer values than its header says".into()))?;
    Ok(S::split(bytes).iter().map(|&bytes| S::from_bytes(bytes)))
}

/// An array of `values` in `data_type`, whose native type they are of.
pub(super) fn array(
    data_type: &DataType,
    values: Buffer,
    len: usize,
    nulls: &mut NullBufferBuilder,
) -> Result<ArrayRef, ParquetError> {
    let nulls = nulls.finish().map(|nulls| nulls.into_inner().into_inner());
    Ok(make_array(ArrayData::try_new(data_type.clone(), len, nulls, 0, vec![values], vec![])?))
}

/// Checks that `codes` are those of a dictionary of `values` values.
pub(super) fn check_codes(codes: &[u32], values: usize) -> Result<(), ParquetError> {
    match codes.iter().copied().fold(0, u32::max) as usize {
        greatest if codes.is_empty() || greatest < values => Ok(()),
        greatest => Err(ParquetError::General(format!("code {greatest} of a dictionary of {values} values"))),
    }
}

/// Numbers that are `S` in the file and `O` in memory.
pub(super) struct Fixed<S, O> {
    data_type: DataType,
    /// What codes stand for, as the file has it: it is not copied, and a large dictionary of decimals is a fourth of what it would be in memory.
    dictionary: Bytes,
    /// A small one as it is in memory, and zeros up to [`SMALL`] values; else nothing.
    small: Vec<O>,
    /// How many values there are in the file.
    known: usize,
    codes: Vec<u32>,
    /// Of decimals: the greatest one of their type.
    most: Option<S>,
    /// The values of the last batch, whose memory is used again when nobody refers to them any more.
    last: Option<Buffer>,
}

/// Values of a dictionary in which a code of one byte needs no check.
const SMALL: usize = 1 << 8;

impl<S: Stored, O> Fixed<S, O> {
    pub(super) fn new(data_type: DataType) -> Self {
        Self {
            most: most(&data_type),
            data_type,
            dictionary: Bytes::new(),
            small: Vec::new(),
            known: 0,
            codes: Vec::new(),
            last: None,
        }
    }
}

impl<S: Stored, O: ArrowNativeType + From<S>> Decode for Fixed<S, O> {
    type Out = O;

    fn set_dictionary(&mut self, page: DictionaryPage<'_>) -> Result<(), ParquetError> {
        self.small.clear();
        self.known = page.values;
        check_digits(plain(page.bytes(), page.values)?, self.most)?;
        let values = plain::<S>(page.bytes(), page.values)?;
        if self.known <= SMALL {
            self.small.extend(values.map(O::from));
            self.small.resize(SMALL, O::default());
        } else {
            drop(values);
            self.dictionary = page.keep();
        }
        Ok(())
    }

    fn decode(
        &mut self,
        page: &[u8],
        values: &mut Values,
        count: usize,
        picks: Picks<'_>,
        out: &mut Vec<O>,
    ) -> Result<(), ParquetError> {
        match values {
            Values::Plain(at) => {
                let bytes = page.get(*at..).unwrap_or_default();
                let all = plain::<S>(bytes, count)?;
                match picks {
                    Picks::All => {
                        check_digits(plain(bytes, count)?, self.most)?;
                        out.extend(all.map(O::from));
                    }
                    Picks::At { rows, base } => {
                        let at = |&row: &u32| S::load(&bytes[(row - base) as usize * S::WIDTH..]);
                        check_digits(rows.iter().map(at), self.most)?;
                        out.extend(rows.iter().map(|row| O::from(at(row))));
                    }
                }
                *at += count * S::WIDTH;
            }
            Values::Codes(codes) => {
                self.codes.clear();
                codes.read(page, count, picks, &mut self.codes)?;
                check_codes(&self.codes, self.known)?;
                match <&[O; SMALL]>::try_from(self.small.as_slice()) {
                    Ok(values) => out.extend(self.codes.iter().map(|&code| values[usize::from(code as u8)])),
                    Err(_) => {
                        let values = S::split(&self.dictionary);
                        out.extend(self.codes.iter().map(|&code| O::from(S::from_bytes(values[code as usize]))));
                    }
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, rows: usize) -> Vec<O> {
        reused(self.last.take(), rows)
    }

    fn finish(&mut self, values: Vec<O>, nulls: &mut NullBufferBuilder) -> Result<Column, ParquetError> {
        let len = values.len();
        let values = Buffer::from_vec(values);
        self.last = Some(values.clone());
        Ok(Column::flat(array(&self.data_type, values, len, nulls)?))
    }
}
