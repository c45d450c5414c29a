//! `min`, `max`, `first_value`: their value is a payload column of the group's row, set when the row is made.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, cast::AsArray, types};
use arrow_buffer::{ArrowNativeType, ScalarBuffer};
use arrow_schema::DataType;
use ogee_row::{Dictionary, RowLayout, RowView};
use ogee_vector::PhysicalType;

/// Which value of a group is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    Min,
    Max,
    First,
}

/// An aggregate that keeps one of its values in column `column` of the layout.
#[derive(Clone, Debug)]
pub(crate) struct Extremum {
    pub(crate) column: usize,
    pub(crate) keep: Keep,
    /// The values are strings, stored as codes of this dictionary.
    pub(crate) dictionary: Option<Arc<Dictionary>>,
}

/// Whether values of this type can be kept by their order.
pub(crate) fn is_ordered(data_type: &DataType) -> bool {
    match PhysicalType::of(data_type) {
        Ok(PhysicalType::MonthDayNano | PhysicalType::Null | PhysicalType::F16 | PhysicalType::I256) | Err(_) => false,
        Ok(PhysicalType::Nested) => ogee_row::NestedCodec::supports(data_type),
        Ok(_) => !matches!(data_type, DataType::Interval(_)),
    }
}

/// Order of floats in which every NaN is alike and above all numbers, as in PostgreSQL.
#[inline(always)]
pub(super) fn below(a: f64, b: f64) -> bool {
    a < b || (b.is_nan() && !a.is_nan())
}

/// Calls `$visit!(type, less)` with the type that values of `$physical`, codes of `$dictionary` if there is one, have in rows, and their order.
macro_rules! with_order {
    ($physical:expr, $dictionary:expr, $visit:ident) => {
        match $physical {
            PhysicalType::U8 if $dictionary.is_some() => {
                let ranks = $dictionary.as_deref().expect("asked above").ranks();
                $visit!(u8, |a: &u8, b: &u8| ranks[usize::from(*a)] < ranks[usize::from(*b)])
            }
            PhysicalType::Bool | PhysicalType::U8 => $visit!(u8, |a: &u8, b: &u8| a < b),
            PhysicalType::I8 => $visit!(i8, |a: &i8, b: &i8| a < b),
            PhysicalType::I16 => $visit!(i16, |a: &i16, b: &i16| a < b),
            PhysicalType::I32 => $visit!(i32, |a: &i32, b: &i32| a < b),
            PhysicalType::I64 | PhysicalType::ShortDecimal => $visit!(i64, |a: &i64, b: &i64| a < b),
            PhysicalType::I128 | PhysicalType::MonthDayNano => $visit!(i128, |a: &i128, b: &i128| a < b),
            PhysicalType::I256 => {
                $visit!(arrow_buffer::i256, |a: &arrow_buffer::i256, b: &arrow_buffer::i256| a < b)
            }
            PhysicalType::U16 | PhysicalType::F16 => $visit!(u16, |a: &u16, b: &u16| a < b),
            PhysicalType::U32 => $visit!(u32, |a: &u32, b: &u32| a < b),
            PhysicalType::U64 => $visit!(u64, |a: &u64, b: &u64| a < b),
            PhysicalType::F32 => $visit!(f32, |a: &f32, b: &f32| below(f64::from(*a), f64::from(*b))),
            PhysicalType::F64 => $visit!(f64, |a: &f64, b: &f64| below(*a, *b)),
            PhysicalType::View | PhysicalType::Nested => {
                // SAFETY: the strings of both rows are pinned or in arrays that are alive.
                $visit!(RowView, |a: &RowView, b: &RowView| unsafe { a.compare(b) }.is_lt())
            }
            // No value but NULL.
            PhysicalType::Null => {}
        }
    };
}
pub(super) use with_order;

/// A column of the layout as the loops need it.
pub(super) struct Place {
    pub(super) offset: usize,
    /// `None`: every row has a value.
    pub(super) validity: Option<(usize, u8)>,
}

impl Place {
    /// Column `column` of `layout`.
    pub(super) fn of(layout: &RowLayout, column: usize) -> Self {
        let column = layout.column(column);
        Self { offset: column.offset, validity: column.validity }
    }

    /// Notes that `row` has no value.
    ///
    /// # Safety
    /// `row` is a row of the layout, owned by the caller.
    #[inline(always)]
    pub(super) unsafe fn unmark(&self, row: *mut u8) {
        if let Some((byte, mask)) = self.validity {
            // SAFETY: the validity byte lies within the row.
            unsafe { *row.add(byte) &= !mask };
        }
    }

    /// Whether `row` has a value.
    ///
    /// # Safety
    /// `row` is a row of the layout.
    #[inline(always)]
    pub(super) unsafe fn has_value(&self, row: *const u8) -> bool {
        // SAFETY: the validity byte lies within the row.
        self.validity.is_none_or(|(byte, mask)| unsafe { *row.add(byte) & mask != 0 })
    }

    /// Notes that `row` has a value.
    ///
    /// # Safety
    /// `row` is a row of the layout, owned by the caller.
    #[inline(always)]
    pub(super) unsafe fn mark(&self, row: *mut u8) {
        if let Some((byte, mask)) = self.validity {
            // SAFETY: the validity byte lies within the row.
            unsafe { *row.add(byte) |= mask };
        }
    }

    /// Keeps `value` in `row` if the row has none or `better(value, the row's)`.
    ///
    /// # Safety
    /// `row` is a row of the layout, owned by the caller, and `V` the column's type in rows.
    #[inline(always)]
    unsafe fn offer<V: Copy>(&self, row: *mut u8, value: V, better: impl Fn(V, V) -> bool) {
        // SAFETY: validity and value lie within the row.
        unsafe {
            let place = row.add(self.offset).cast::<V>();
            let old = place.read_unaligned();
            // Without a branch that depends on the values: which is better is anyone's guess.
            let take = better(value, old) | !self.has_value(row);
            place.write_unaligned(if take { value } else { old });
            self.mark(row);
        }
    }

    /// Makes all `offers` of a value to a row.
    ///
    /// # Safety
    /// As [`offer`](Self::offer), for each of them.
    #[inline(always)]
    unsafe fn offer_all<V: Copy>(
        &self,
        offers: impl Iterator<Item = (*mut u8, V)>,
        keep: Keep,
        less: impl Fn(&V, &V) -> bool,
    ) {
        // SAFETY: the caller vouches for the rows.
        unsafe {
            match keep {
                Keep::Min => offers.for_each(|(row, value)| self.offer(row, value, |new, old| less(&new, &old))),
                Keep::Max => offers.for_each(|(row, value)| self.offer(row, value, |new, old| less(&old, &new))),
                Keep::First => offers.for_each(|(row, value)| self.offer(row, value, |_, _| false)),
            }
        }
    }
}

fn native<T: ArrowNativeType>(array: &ArrayRef) -> ScalarBuffer<T> {
    let data = array.to_data();
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}

impl Extremum {
    fn place(&self, layout: &RowLayout) -> Place {
        Place::of(layout, self.column)
    }

    /// Offers values `rows` of `array` to the groups at `targets[row]`. A long string that has no room in its group's row goes to
    /// `again`: that group must be materialized once more, with this row's values. Without `again`, groups are staged: long strings then only
    /// point into the array.
    ///
    /// # Safety
    /// Targets are rows of `layout` on pinned pages, or staged without `again`, owned by the caller.
    pub(crate) unsafe fn update(
        &self,
        layout: &RowLayout,
        array: &ArrayRef,
        rows: &[u32],
        targets: &[u64],
        mut again: Option<&mut Vec<u32>>,
    ) {
        let place = self.place(layout);
        let nulls = array.nulls().filter(|n| n.null_count() > 0);
        macro_rules! offer {
            ($v:ty, $value:expr, $less:expr) => {{
                let value = $value;
                let offer = |row: usize| (targets[row] as usize as *mut u8, value(row));
                let rows = rows.iter().map(|&row| row as usize);
                // SAFETY: the caller vouches for the targets; the type is the column's.
                unsafe {
                    match nulls {
                        None => place.offer_all::<$v>(rows.map(offer), self.keep, $less),
                        Some(nulls) => {
                            let rows = rows.filter(|&row| nulls.is_valid(row));
                            place.offer_all::<$v>(rows.map(offer), self.keep, $less);
                        }
                    }
                }
            }};
        }
        macro_rules! integers {
            ($v:ty) => {{
                let values = native::<$v>(array);
                let values: &[$v] = &values;
                offer!($v, |row: usize| values[row], |a: &$v, b: &$v| a < b)
            }};
        }
        match layout.column(self.column).physical {
            PhysicalType::Bool => {
                let values = array.as_boolean();
                offer!(u8, |row| u8::from(values.value(row)), |a: &u8, b: &u8| a < b);
            }
            PhysicalType::I8 => integers!(i8),
            PhysicalType::I16 => integers!(i16),
            PhysicalType::I32 => integers!(i32),
            PhysicalType::I64 => integers!(i64),
            PhysicalType::U8 if self.dictionary.is_some() => {
                let ranks = self.dictionary.as_deref().expect("asked above").ranks();
                let codes = native::<u8>(array);
                let codes: &[u8] = &codes;
                offer!(u8, |row: usize| codes[row], |a: &u8, b: &u8| ranks[usize::from(*a)] < ranks[usize::from(*b)]);
            }
            PhysicalType::U8 => integers!(u8),
            PhysicalType::U16 => integers!(u16),
            PhysicalType::U32 => integers!(u32),
            PhysicalType::U64 => integers!(u64),
            PhysicalType::I128 | PhysicalType::MonthDayNano => integers!(i128),
            PhysicalType::ShortDecimal => {
                let values = array.as_primitive::<types::Decimal128Type>().values();
                offer!(i64, |row: usize| values[row] as i64, |a: &i64, b: &i64| a < b);
            }
            PhysicalType::F16 => integers!(u16),
            PhysicalType::F32 => {
                let values = array.as_primitive::<types::Float32Type>().values();
                offer!(f32, |row: usize| values[row], |a: &f32, b: &f32| below(f64::from(*a), f64::from(*b)));
            }
            PhysicalType::F64 => {
                let values = array.as_primitive::<types::Float64Type>().values();
                offer!(f64, |row: usize| values[row], |a: &f64, b: &f64| below(*a, *b));
            }
            PhysicalType::I256 => {
                let values = array.as_primitive::<types::Decimal256Type>().values();
                type V = arrow_buffer::i256;
                offer!(V, |row: usize| values[row], |a: &V, b: &V| a < b);
            }
            PhysicalType::Null => {}
            PhysicalType::View | PhysicalType::Nested => {
                let (views, buffers) = match array.data_type() {
                    DataType::Utf8View => {
                        let array = array.as_string_view();
                        (array.views(), array.data_buffers())
                    }
                    _ => {
                        let array = array.as_binary_view();
                        (array.views(), array.data_buffers())
                    }
                };
                for &row in rows.iter().filter(|&&row| nulls.is_none_or(|nulls| nulls.is_valid(row as usize))) {
                    // Bytes of longer strings are not looked at: most often their first tell which is kept.
                    let value = RowView::of_array(views[row as usize], buffers);
                    let target = targets[row as usize] as usize as *mut u8;
                    // SAFETY: the caller vouches for the targets; the strings are those of the array.
                    unsafe {
                        match &mut again {
                            None => place
                                .offer(target, value, |new: RowView, old: RowView| self.is_better(new.compare(&old))),
                            Some(again) => {
                                if !self.offer_string(&place, target, value) {
                                    again.push(row);
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// Whether a new value is kept instead of an old one.
    fn is_better(&self, order: std::cmp::Ordering) -> bool {
        match self.keep {
            Keep::Min => order.is_lt(),
            Keep::Max => order.is_gt(),
            Keep::First => false,
        }
    }

    /// Offers a string; false if it should be kept and there is no room for it.
    ///
    /// # Safety
    /// `row` is a row of the layout on pinned pages, owned by the caller; `value` is in an array that is alive.
    unsafe fn offer_string(&self, place: &Place, row: *mut u8, value: RowView) -> bool {
        // SAFETY: the caller vouches for the row and its pointers, and for the value.
        unsafe {
            let old_place = row.add(place.offset).cast::<RowView>();
            let old = old_place.read_unaligned();
            let has_old = place.has_value(row);
            if has_old && !self.is_better(value.compare(&old)) {
                return true;
            }
            if !value.is_long() {
                old_place.write_unaligned(value);
            } else if has_old && old.is_long() && value.len() <= old.len() {
                // In place of the old bytes, on the same heap page.
                std::ptr::copy_nonoverlapping(value.pointer(), old.pointer().cast_mut(), value.len());
                old_place.write_unaligned(value.with_pointer(old.pointer()));
            } else {
                return false;
            }
            place.mark(row);
            true
        }
    }

    /// Whether combining `source` into `target` would make the target point to a long string of the source's.
    ///
    /// # Safety
    /// As [`combine`](Self::combine).
    pub(crate) unsafe fn takes_string(&self, layout: &RowLayout, source: *const u8, target: *const u8) -> bool {
        if !layout.column(self.column).physical.has_heap() {
            return false;
        }
        let place = self.place(layout);
        // SAFETY: the caller vouches for both rows and their strings.
        unsafe {
            let has = |row: *const u8| place.has_value(row);
            let view = |row: *const u8| row.add(place.offset).cast::<RowView>().read_unaligned();
            has(source)
                && view(source).is_long()
                && (!has(target) || self.is_better(view(source).compare(&view(target))))
        }
    }

    /// Whether the value of row `new` is to be kept rather than that of row `old`.
    ///
    /// # Safety
    /// Both are rows of `layout` that have a value, with strings that are pinned or in arrays that are alive.
    pub(super) unsafe fn prefers(&self, layout: &RowLayout, new: *const u8, old: *const u8) -> bool {
        let column = layout.column(self.column);
        let mut prefers = false;
        macro_rules! compare {
            ($v:ty, $less:expr) => {{
                let less = $less;
                // SAFETY: the caller vouches for both rows; the type is the column's.
                let value = |row: *const u8| unsafe { row.add(column.offset).cast::<$v>().read_unaligned() };
                let (new, old) = (value(new), value(old));
                prefers = match self.keep {
                    Keep::Min => less(&new, &old),
                    Keep::Max => less(&old, &new),
                    Keep::First => false,
                };
            }};
        }
        with_order!(column.physical, self.dictionary, compare);
        prefers
    }

    /// Offers the value of each source row to its target row. Strings are shared: the targets then point to the sources' heap pages.
    ///
    /// # Safety
    /// Sources and targets are rows of `layout` on pinned pages, owned by the caller, and stay pinned together until the targets
    /// are read for the last time.
    pub(crate) unsafe fn combine(&self, layout: &RowLayout, sources: &[*const u8], targets: &[*mut u8]) {
        let place = self.place(layout);
        macro_rules! offer {
            ($v:ty, $less:expr) => {{
                let less = $less;
                // SAFETY: the caller vouches for both; the type is the column's.
                unsafe {
                    let pairs = sources.iter().zip(targets).filter(|(source, _)| place.has_value(**source));
                    let value = |source: *const u8| source.add(place.offset).cast::<$v>().read_unaligned();
                    let offers = pairs.map(|(&source, &target)| (target, value(source)));
                    place.offer_all::<$v>(offers, self.keep, less);
                }
            }};
        }
        with_order!(layout.column(self.column).physical, self.dictionary, offer);
    }
}
