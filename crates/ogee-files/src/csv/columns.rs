//! Columns out of fields: one after the other, each in a loop of its own.
//!
//! Not here: where the fields are (`fields`), and what a text stands for (`values`).

use std::{borrow::Cow, sync::Arc};

use datafusion::arrow::{
    array::{
        Array, ArrayRef, ArrowPrimitiveType, BooleanBuilder, NullBufferBuilder, PrimitiveArray, StringViewArray,
        StringViewBuilder, new_null_array,
    },
    compute::concat,
    datatypes::{
        DataType, Date32Type, Decimal128Type, FieldRef, Float64Type, Int64Type, Time64MicrosecondType,
        TimestampMicrosecondType, TimestampNanosecondType,
    },
};
use ogee_functions::{
    marks::{has_mark, of_texts},
    times::Zone,
};
use ogee_memory::BufferManager;

use super::{
    fields::texts,
    records::{Marks, unescaped},
    sniff::Given,
    values::{self, Kind},
};
use crate::cells::Cells;

/// The number of a column that a file does not have.
pub(super) const MISSING: usize = usize::MAX;

/// How a column of the table comes from a file.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// Its number in the file, or [`MISSING`].
    pub(super) index: usize,
    pub(super) name: String,
    /// What its texts stand for; `None`: what a cast makes of them.
    pub(super) kind: Option<Kind>,
    /// The type was found in the files, and not declared.
    pub(super) is_found: bool,
    /// That of the table.
    pub(super) field: FieldRef,
    /// No text stands for NULL.
    pub(super) is_never_null: bool,
}

impl Column {
    pub(super) fn data_type(&self) -> &DataType {
        self.field.data_type()
    }
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
    /// That of times without a zone, where instants are wanted.
    pub(super) zone: &'r Zone,
    pub(super) memory: &'r Arc<BufferManager>,
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
        self.cells.column(column.index).map(|place| {
            let (range, is_escaped) = place?;
            let begin = range.start;
            let text = match is_escaped {
                true => Cow::Owned(unescaped(&self.text[range], self.marks)),
                false => Cow::Borrowed(&self.text[range]),
            };
            (!self.is_null(column, begin, &text)).then_some(text)
        })
    }

    /// Whether `text`, which begins at `begin`, stands for NULL.
    fn is_null(&self, column: &Column, begin: usize, text: &[u8]) -> bool {
        let is_quoted = || begin > 0 && self.text[begin - 1] == self.marks.quote;
        self.given.is_null(text) && !column.is_never_null && !(self.given.has_quoted_texts && is_quoted())
    }

    /// What is written in `row` of `column`.
    pub(super) fn text(&self, column: &Column, row: usize) -> Vec<u8> {
        texts(self.cells, self.text, column.index, self.marks).nth(row).flatten().unwrap_or_default().into_owned()
    }

    /// The array of `column`; where `misfits` have an error, it says nothing.
    pub(super) fn array(&self, column: &Column, misfits: &mut Misfits<'_>) -> ArrayRef {
        if column.index == MISSING {
            return new_null_array(column.data_type(), self.cells.rows());
        }
        let Some(kind) = column.kind else { return self.cast(column, misfits) };
        let manner = &self.given.manner;
        match kind {
            Kind::Integer if manner.has_numbers() => {
                self.values::<Int64Type>(column, misfits, |text| values::integer(&manner.number(text)?))
            }
            Kind::Double if manner.has_numbers() => {
                self.values::<Float64Type>(column, misfits, |text| values::double(&manner.number(text)?))
            }
            Kind::LargeInteger if manner.has_numbers() => {
                self.values::<Decimal128Type>(column, misfits, |text| values::large_integer(&manner.number(text)?))
            }
            Kind::Integer => self.values::<Int64Type>(column, misfits, values::integer),
            Kind::Double => self.values::<Float64Type>(column, misfits, values::double),
            Kind::LargeInteger => self.values::<Decimal128Type>(column, misfits, values::large_integer),
            Kind::FormattedDate => self.values::<Date32Type>(column, misfits, |text| manner.formatted_date(text)),
            Kind::FormattedTimestamp => {
                self.values::<TimestampMicrosecondType>(column, misfits, |text| manner.formatted_timestamp(text))
            }
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
        Arc::new(PrimitiveArray::<T>::new(values.into(), valid.finish()).with_data_type(column.data_type().clone()))
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
            if self.is_null(column, range.start, text) {
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
        let data_type = column.data_type();
        if *data_type == DataType::Null && texts.null_count() == texts.len() {
            return new_null_array(data_type, texts.len());
        }
        let texts = match self.given.manner.has_numbers() && data_type.is_numeric() {
            true => self.numbers(&texts, misfits),
            false => texts,
        };
        let cast = |texts: &StringViewArray, tries| of_texts(texts, &column.field, tries, self.zone, self.memory);
        // What a list has that is none of its items would be NULL there, if it was tried.
        if data_type.is_nested() || has_mark(&column.field) {
            if let Ok(array) = cast(&texts, false) {
                return array;
            }
            let mut parts = Vec::with_capacity(texts.len());
            for row in 0..texts.len() {
                match cast(&texts.slice(row, 1), false) {
                    Ok(part) => parts.push(part),
                    Err(_) if misfits.add(row) => parts.push(new_null_array(data_type, 1)),
                    Err(_) => return new_null_array(data_type, texts.len()),
                }
            }
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            return concat(&parts).unwrap_or_else(|_| new_null_array(data_type, texts.len()));
        }
        let Ok(array) = cast(&texts, true) else {
            // There is no such cast: the first text says so.
            misfits.add((0..texts.len()).find(|&row| texts.is_valid(row)).unwrap_or(0));
            return new_null_array(data_type, texts.len());
        };
        if array.null_count() > texts.null_count() {
            let mut rows = (0..texts.len()).filter(|&row| texts.is_valid(row) && array.is_null(row));
            let _ = rows.all(|row| misfits.add(row));
        }
        array
    }

    /// Numbers as they are written everywhere, of `texts` that are written otherwise.
    fn numbers(&self, texts: &StringViewArray, misfits: &mut Misfits<'_>) -> StringViewArray {
        let mut numbers = StringViewBuilder::with_capacity(texts.len());
        for (row, text) in texts.iter().enumerate() {
            let number = text.map(|text| self.given.manner.number(text.as_bytes()));
            match &number {
                Some(None) if !misfits.add(row) => return texts.clone(),
                Some(Some(number)) => numbers.append_option(std::str::from_utf8(number).ok()),
                _ => numbers.append_null(),
            }
        }
        numbers.finish()
    }
}
