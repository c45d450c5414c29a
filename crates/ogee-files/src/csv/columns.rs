//! Columns out of fields: one after the other, each in a loop of its own.
//!
//! Not here: where the fields are (`fields`), and what a text stands for (`values`).

use std::{borrow::Cow, sync::Arc};

use datafusion::arrow::{
    array::{
        Array, ArrayRef, ArrowPrimitiveType, BooleanBuilder, NullBufferBuilder, PrimitiveArray, StringViewArray,
        StringViewBuilder, new_null_array,
    },
    compute::{CastOptions, cast_with_options},
    datatypes::{
        DataType, Date32Type, Decimal128Type, Float64Type, Int64Type, Time64MicrosecondType, TimestampMicrosecondType,
        TimestampNanosecondType,
    },
};

use super::{
    fields::texts,
    records::{Marks, unescaped},
    sniff::Given,
    values::{self, Kind},
};
use crate::cells::Cells;

/// How a column of the table comes from a file.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// Its number in the file.
    pub(super) index: usize,
    pub(super) name: String,
    /// What its texts stand for; `None`: what a cast makes of them.
    pub(super) kind: Option<Kind>,
    pub(super) data_type: DataType,
}

/// Records of a text, of which columns are made.
pub(super) struct Records<'r> {
    pub(super) text: &'r [u8],
    /// Where the records begin in it.
    pub(super) begin: usize,
    /// What they are, if all of it is UTF-8.
    pub(super) valid: Option<&'r str>,
    pub(super) cells: &'r Cells,
    pub(super) marks: &'r Marks,
    pub(super) given: &'r Given,
    /// Bytes of a piece of long texts.
    pub(super) block: u32,
}

/// Those rows that have a text which is none of the column's, of which the first counts; or all of them, where they are passed over.
pub(super) struct Misfits<'m> {
    /// Rows that are kept; `None`: the first that is none of the column's is an error.
    kept: Option<&'m mut [bool]>,
    first: Option<usize>,
}

impl<'m> Misfits<'m> {
    pub(super) fn new(kept: Option<&'m mut [bool]>) -> Self {
        Self { kept, first: None }
    }

    /// The first, if it is an error.
    pub(super) fn first(&self) -> Option<usize> {
        self.first
    }

    /// The text in `row` is one; whether the others count.
    fn add(&mut self, row: usize) -> bool {
        match &mut self.kept {
            Some(kept) => {
                kept[row] = false;
                true
            }
            None => {
                self.first = Some(row);
                false
            }
        }
    }
}

impl Records<'_> {
    /// The texts of `column`, without those that stand for NULL.
    fn texts(&self, column: &Column) -> impl Iterator<Item = Option<Cow<'_, [u8]>>> {
        let fields = texts(self.cells, self.text, column.index, self.marks);
        fields.map(|field| field.filter(|field| !self.given.is_null(field)))
    }

    /// What is written in `row` of `column`.
    pub(super) fn text(&self, column: &Column, row: usize) -> Vec<u8> {
        texts(self.cells, self.text, column.index, self.marks).nth(row).flatten().unwrap_or_default().into_owned()
    }

    /// The array of `column`; where `misfits` have an error, it says nothing.
    pub(super) fn array(&self, column: &Column, misfits: &mut Misfits<'_>) -> ArrayRef {
        let Some(kind) = column.kind else { return self.cast(column, misfits) };
        match kind {
            Kind::Integer => self.values::<Int64Type>(column, misfits, values::integer),
            Kind::Double => self.values::<Float64Type>(column, misfits, values::double),
            Kind::LargeInteger => self.values::<Decimal128Type>(column, misfits, values::large_integer),
            Kind::Date(order) => self.values::<Date32Type>(column, misfits, |text| values::date(text, order)),
            Kind::Time => self.values::<Time64MicrosecondType>(column, misfits, values::time),
            Kind::Timestamp(order, false) => self.values::<TimestampMicrosecondType>(column, misfits, |text| {
                values::timestamp(text, order).map(values::microseconds)
            }),
            Kind::Timestamp(order, true) => self.values::<TimestampNanosecondType>(column, misfits, |text| {
                values::timestamp(text, order).and_then(values::nanoseconds)
            }),
            Kind::Instant => self.values::<TimestampMicrosecondType>(column, misfits, values::instant),
            Kind::Boolean => self.booleans(column, misfits),
            Kind::Text => Arc::new(self.strings(column, misfits)),
        }
    }

    fn values<T: ArrowPrimitiveType>(
        &self,
        column: &Column,
        misfits: &mut Misfits<'_>,
        parse: impl Fn(&[u8]) -> Option<T::Native>,
    ) -> ArrayRef {
        let rows = self.cells.rows();
        let (mut values, mut valid) = (Vec::with_capacity(rows), NullBufferBuilder::new(rows));
        for (row, text) in self.texts(column).enumerate() {
            let value = match &text {
                None => None,
                Some(text) => {
                    let value = parse(text);
                    if value.is_none() && !misfits.add(row) {
                        break;
                    }
                    value
                }
            };
            valid.append(value.is_some());
            values.push(value.unwrap_or_default());
        }
        Arc::new(PrimitiveArray::<T>::new(values.into(), valid.finish()).with_data_type(column.data_type.clone()))
    }

    fn booleans(&self, column: &Column, misfits: &mut Misfits<'_>) -> ArrayRef {
        let mut builder = BooleanBuilder::with_capacity(self.cells.rows());
        for (row, text) in self.texts(column).enumerate() {
            let value = text.as_deref().and_then(values::boolean);
            if text.is_some() && value.is_none() && !misfits.add(row) {
                break;
            }
            builder.append_option(value);
        }
        Arc::new(builder.finish())
    }

    fn strings(&self, column: &Column, misfits: &mut Misfits<'_>) -> StringViewArray {
        let rows = self.cells.rows();
        let mut builder = StringViewBuilder::with_capacity(rows).with_fixed_block_size(self.block);
        for (row, place) in self.cells.column(column.index).enumerate() {
            let Some((range, is_escaped)) = place else {
                builder.append_null();
                continue;
            };
            let owned = is_escaped.then(|| unescaped(&self.text[range.clone()], self.marks));
            let text = owned.as_deref().unwrap_or(&self.text[range.clone()]);
            if self.given.is_null(text) {
                builder.append_null();
                continue;
            }
            // Where all of the text is UTF-8, so is what stands between two marks.
            let known = match self.valid {
                Some(valid) if !is_escaped => valid.get(range.start - self.begin..range.end - self.begin),
                _ => None,
            };
            match known.or_else(|| std::str::from_utf8(text).ok()) {
                Some(text) => builder.append_value(text),
                None if misfits.add(row) => builder.append_null(),
                None => break,
            }
        }
        builder.finish()
    }

    /// The texts of `column` in the type that it was declared with.
    fn cast(&self, column: &Column, misfits: &mut Misfits<'_>) -> ArrayRef {
        let texts = self.strings(column, misfits);
        if misfits.first().is_some() {
            return Arc::new(texts);
        }
        if column.data_type == DataType::Null && texts.null_count() == texts.len() {
            return new_null_array(&column.data_type, texts.len());
        }
        let options = CastOptions { safe: true, ..CastOptions::default() };
        let Ok(array) = cast_with_options(&texts, &column.data_type, &options) else {
            // There is no such cast: the first text says so.
            misfits.add((0..texts.len()).find(|&row| texts.is_valid(row)).unwrap_or(0));
            return new_null_array(&column.data_type, texts.len());
        };
        if array.null_count() > texts.null_count() {
            let mut rows = (0..texts.len()).filter(|&row| texts.is_valid(row) && array.is_null(row));
            let _ = rows.all(|row| misfits.add(row));
        }
        array
    }
}
