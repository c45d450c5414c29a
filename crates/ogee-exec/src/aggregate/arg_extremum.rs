//! `arg_min`, `arg_max`: the value of one column where another is least or greatest. Both are payload columns of the group's row and change
//! together; rows with a NULL in either do not count, or only those with a NULL in the other, for the first value by the places of rows. The mode is the value with the greatest count.

use arrow_schema::DataType;
use ogee_row::{RowLayout, RowView};
use ogee_vector::PhysicalType;

use super::extremum::{Extremum, Keep, Place, below, with_order};

/// An aggregate that keeps the value of column `value` that came with the extremum.
#[derive(Clone, Debug)]
pub(crate) struct ArgExtremum {
    pub(crate) by: Extremum,
    pub(crate) value: Extremum,
    /// Where `by` is equal, the value is kept that `value` would keep; else the first.
    pub(crate) breaks_ties: bool,
    /// The value may be NULL.
    pub(crate) keeps_nulls: bool,
}

/// Both columns as the loops need them.
struct Places {
    by: Place,
    value: Place,
    /// Bytes of each.
    widths: (usize, usize),
    keeps_nulls: bool,
}

impl Places {
    /// Whether `row` has a pair.
    ///
    /// # Safety
    /// `row` is a row of the layout.
    #[inline(always)]
    unsafe fn has_pair(&self, row: *const u8) -> bool {
        // SAFETY: the caller vouches for the row.
        unsafe { self.by.has_value(row) && (self.keeps_nulls || self.value.has_value(row)) }
    }

    /// Copies the pair of `source` to `target`, which then shares its strings.
    ///
    /// # Safety
    /// Both are different rows of the layout; the caller owns `target`.
    unsafe fn copy(&self, source: *const u8, target: *mut u8) {
        // SAFETY: the columns lie within the rows.
        unsafe {
            for (place, width) in [(&self.by, self.widths.0), (&self.value, self.widths.1)] {
                std::ptr::copy_nonoverlapping(source.add(place.offset), target.add(place.offset), width);
                place.mark(target);
            }
            if self.keeps_nulls && !self.value.has_value(source) {
                self.value.unmark(target);
            }
        }
    }
}

impl ArgExtremum {
    fn places(&self, layout: &RowLayout) -> Places {
        let width = |column: usize| layout.column(column).physical.row_width();
        Places {
            by: Place::of(layout, self.by.column),
            value: Place::of(layout, self.value.column),
            widths: (width(self.by.column), width(self.value.column)),
            keeps_nulls: self.keeps_nulls,
        }
    }

    /// Columns of the pair that are strings.
    fn strings<'a>(&'a self, layout: &'a RowLayout) -> impl Iterator<Item = Place> + 'a {
        let columns = [self.by.column, self.value.column].into_iter();
        columns.filter(|&column| layout.column(column).physical.has_heap()).map(|column| Place::of(layout, column))
    }

    /// Makes rows, just staged, that lack one half of the pair lack both.
    ///
    /// # Safety
    /// `rows` are rows of the layout, owned by the caller.
    pub(crate) unsafe fn settle(&self, layout: &RowLayout, rows: impl Iterator<Item = *mut u8>) {
        let places = self.places(layout);
        if places.by.validity.is_none() && (self.keeps_nulls || places.value.validity.is_none()) {
            return;
        }
        for row in rows {
            // SAFETY: the caller vouches for the row.
            unsafe {
                if !places.has_pair(row) {
                    places.by.unmark(row);
                    places.value.unmark(row);
                }
            }
        }
    }

    /// Calls `take` for the pairs (number, source, target) of which the source's pair is to be kept.
    ///
    /// # Safety
    /// Sources and targets are rows of `layout`, with strings that are pinned or in arrays that are alive.
    #[inline(always)]
    unsafe fn for_each_better(
        &self,
        layout: &RowLayout,
        pairs: impl Iterator<Item = (u32, *const u8, *mut u8)>,
        mut take: impl FnMut(u32, *const u8, *mut u8),
    ) {
        let places = self.places(layout);
        let max = self.by.keep == Keep::Max;
        macro_rules! compare {
            ($v:ty, $less:expr) => {{
                let less = $less;
                for (number, source, target) in pairs {
                    // SAFETY: the caller vouches for both rows; the type is the column's.
                    unsafe {
                        if !places.has_pair(source) {
                            continue;
                        }
                        let value = |row: *const u8| row.add(places.by.offset).cast::<$v>().read_unaligned();
                        let (new, old) = (value(source), value(target.cast_const()));
                        let (below, above) = if max { (&old, &new) } else { (&new, &old) };
                        // What is there where there is no pair may not be a value.
                        let is_better = !places.has_pair(target)
                            || less(below, above)
                            || self.breaks_ties && !less(above, below) && self.value.prefers(layout, source, target);
                        if is_better {
                            take(number, source, target);
                        }
                    }
                }
            }};
        }
        with_order!(layout.column(self.by.column).physical, self.by.dictionary, compare);
    }

    /// Offers the pair of each source to its target. Strings are shared, as with [`Extremum::combine`].
    ///
    /// # Safety
    /// As [`Extremum::combine`].
    pub(crate) unsafe fn combine(&self, layout: &RowLayout, sources: &[*const u8], targets: &[*mut u8]) {
        let places = self.places(layout);
        let pairs = sources.iter().zip(targets).map(|(&source, &target)| (0, source, target));
        // SAFETY: the caller vouches for the rows; a row is never combined into itself.
        unsafe { self.for_each_better(layout, pairs, |_, source, target| places.copy(source, target)) };
    }

    /// Offers the pairs of staged rows, `staged(row)` for each of `rows`, to the groups at `targets[row]`. Where a long string has no room in
    /// its group's row, the row goes to `again`, as with [`Extremum::update`].
    ///
    /// # Safety
    /// Targets are rows of `layout` on pinned pages, owned by the caller; staged rows' strings are in arrays that are alive.
    pub(crate) unsafe fn update(
        &self,
        layout: &RowLayout,
        rows: &[u32],
        staged: impl Fn(u32) -> *const u8,
        targets: &[u64],
        again: &mut Vec<u32>,
    ) {
        let places = self.places(layout);
        let strings: Vec<Place> = self.strings(layout).collect();
        let pairs = rows.iter().map(|&row| (row, staged(row), targets[row as usize] as usize as *mut u8));
        // SAFETY: the caller vouches for the rows and their strings.
        unsafe {
            self.for_each_better(layout, pairs, |row, source, target| {
                let has_old = places.has_pair(target);
                let view = |place: &Place, row: *const u8| row.add(place.offset).cast::<RowView>().read_unaligned();
                let old: [Option<RowView>; 2] =
                    std::array::from_fn(|i| strings.get(i).map(|place| view(place, target.cast_const())));
                let is_long = |place: &Place, row: *const u8, view: RowView| place.has_value(row) && view.is_long();
                let has_room = strings.iter().zip(old.iter().flatten()).all(|(place, old)| {
                    let new = view(place, source);
                    !is_long(place, source, new)
                        || has_old && is_long(place, target.cast_const(), *old) && new.len() <= old.len()
                });
                if !has_room {
                    again.push(row);
                    return;
                }
                places.copy(source, target);
                for (place, old) in strings.iter().zip(old.iter().flatten()) {
                    let new = view(place, source);
                    if is_long(place, source, new) {
                        // In place of the old bytes, on the same heap page.
                        std::ptr::copy_nonoverlapping(new.pointer(), old.pointer().cast_mut(), new.len());
                        target.add(place.offset).cast::<RowView>().write_unaligned(new.with_pointer(old.pointer()));
                    }
                }
            });
        }
    }

    /// Whether combining `source` into `target` would make the target point to a long string of the source's.
    ///
    /// # Safety
    /// As [`combine`](Self::combine).
    pub(crate) unsafe fn takes_string(&self, layout: &RowLayout, source: *const u8, target: *const u8) -> bool {
        let mut takes = false;
        // SAFETY: the caller vouches for both rows and their strings; the target is only compared with.
        unsafe {
            let pair = std::iter::once((0, source, target.cast_mut()));
            self.for_each_better(layout, pair, |_, source, _| {
                takes = self.strings(layout).any(|place| {
                    place.has_value(source) && source.add(place.offset).cast::<RowView>().read_unaligned().is_long()
                });
            });
        }
        takes
    }
}

/// Whether pairs of these types can be kept.
pub(crate) fn supports_pair(value: &DataType, by: &DataType) -> bool {
    super::extremum::is_ordered(by) && super::plan::is_storable(value)
}
