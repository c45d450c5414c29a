//! The values of the rows that are wanted, page after page.
//!
//! Not here: how a value is made (`fixed`, `codes`).

use arrow_buffer::{ArrowNativeType, Buffer, NullBufferBuilder};
use ogee_vector::Column;
use parquet::errors::ParquetError;

use super::{
    ColumnDecoder, Stretch,
    cursor::{DictionaryPage, PageCursor, Valid, Values},
    hybrid::Picks,
    validity::Validity,
};

/// Makes values out of what pages hold.
pub(super) trait Decode: Send {
    /// A value.
    type Out: Copy + Default + Send;

    /// Takes the dictionary.
    fn set_dictionary(&mut self, page: DictionaryPage<'_>) -> Result<(), ParquetError>;

    /// Passes `count` values of `page` and appends those of `picks`.
    fn decode(
        &mut self,
        page: &[u8],
        values: &mut Values,
        count: usize,
        picks: Picks<'_>,
        out: &mut Vec<Self::Out>,
    ) -> Result<(), ParquetError>;

    /// An empty vector, for about `rows` values.
    fn begin(&mut self, rows: usize) -> Vec<Self::Out>;

    /// The column of `values`; those that `nulls` says are NULL are defaults.
    fn finish(&mut self, values: Vec<Self::Out>, nulls: &mut NullBufferBuilder) -> Result<Column, ParquetError>;
}

/// An empty vector for `rows` values, in the memory of the batch before where nobody refers to that any more.
pub(super) fn reused<T: ArrowNativeType>(last: Option<Buffer>, rows: usize) -> Vec<T> {
    let mut values = last.and_then(|last| last.into_vec().ok()).unwrap_or_default();
    values.clear();
    values.reserve(rows);
    values
}

/// A column whose values `D` makes.
pub(super) struct ColumnValues<D: Decode> {
    cursor: PageCursor,
    decode: D,
    /// Which of the wanted rows have a value.
    picked: Validity,
    /// Positions of their values among those of all rows.
    picks: Vec<u32>,
}

impl<D: Decode> ColumnValues<D> {
    pub(super) fn new(cursor: PageCursor, decode: D) -> Self {
        Self { cursor, decode, picked: Validity::default(), picks: Vec::new() }
    }

    /// Reads `rows` rows of the page at hand.
    fn page(
        &mut self,
        rows: usize,
        picks: Picks<'_>,
        out: &mut Vec<D::Out>,
        nulls: &mut NullBufferBuilder,
    ) -> Result<(), ParquetError> {
        let Self { cursor, decode, picked, picks: value_picks } = self;
        let start = out.len();
        let Valid::Some(count) = cursor.valid(rows)? else {
            let (page, values) = cursor.values(rows);
            decode.decode(page, values, rows, picks, out)?;
            if out.len() - start != picks.len(rows) {
                return Err(ParquetError::EOF("a page has fewer values than its header says".into()));
            }
            nulls.append_n_non_nulls(out.len() - start);
            return Ok(());
        };
        let validity = std::mem::take(&mut cursor.validity);
        let (page, values) = cursor.values(rows);
        let (validity_of_picks, value_picks) = match picks {
            Picks::All => (&validity, Picks::All),
            Picks::At { rows, base } => {
                validity.pick(rows, base, picked, value_picks);
                (&*picked, Picks::At { rows: value_picks, base: 0 })
            }
        };
        decode.decode(page, values, count, value_picks, out)?;
        if out.len() - start != value_picks.len(count) {
            return Err(ParquetError::EOF("a page has fewer values than its header says".into()));
        }
        validity_of_picks.spread(out, start);
        nulls.append_buffer(&validity_of_picks.to_nulls());
        cursor.validity = validity;
        Ok(())
    }
}

impl<D: Decode> ColumnDecoder for ColumnValues<D> {
    fn read(&mut self, stretches: &[Stretch], picked: Option<&[u32]>) -> Result<Column, ParquetError> {
        let wanted = picked.map_or_else(|| stretches.iter().map(|stretch| stretch.take).sum(), <[u32]>::len);
        let mut out = self.decode.begin(wanted);
        let mut nulls = NullBufferBuilder::new(wanted);
        let mut picked = picked;
        let mut base = 0;
        for stretch in stretches {
            self.cursor.pass(stretch.skip);
            let mut left = stretch.take;
            while left > 0 {
                if let Some(rows) = picked {
                    let next = rows.first().map_or(left, |&row| (row as usize - base).min(left));
                    self.cursor.pass(next);
                    (base, left) = (base + next, left - next);
                    if left == 0 {
                        break;
                    }
                }
                let decode = &mut self.decode;
                let here = self.cursor.settle(left, |page| decode.set_dictionary(page))?;
                let picks = match &mut picked {
                    None => Picks::All,
                    Some(rows) => {
                        let (now, later) = rows.split_at(rows.partition_point(|&row| (row as usize) < base + here));
                        *rows = later;
                        Picks::At { rows: now, base: base as u32 }
                    }
                };
                self.page(here, picks, &mut out, &mut nulls)?;
                (base, left) = (base + here, left - here);
            }
        }
        self.decode.finish(out, &mut nulls)
    }

    fn pass(&mut self, rows: usize) {
        self.cursor.pass(rows);
    }
}
