//! Quantile, mode, histogram and number of values that have an order, whatever their type: those of a group are sorted by comparison.

use std::{cmp::Ordering, sync::Arc};

use arrow_array::{
    Array, ArrayRef, BooleanArray, Int64Array, MapArray, StructArray, UInt32Array, UInt64Array, new_empty_array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_ord::ord::make_comparator;
use arrow_schema::{DataType, FieldRef, SortOptions};
use arrow_select::{filter::filter, take::take};

use super::{DiscreteFraction, HolisticStates, list::Listed};
use crate::ExecError;

/// What is made of the values of a group in order.
#[derive(Clone, Debug)]
pub enum OfSorted {
    /// The value at a fraction.
    Quantile(DiscreteFraction),
    /// The most frequent value; of several, the least.
    Mode,
    /// How many different values there are.
    CountDistinct,
    /// How often each value occurs, as a map whose entries are of this type.
    Histogram(FieldRef),
}

impl OfSorted {
    /// States for no groups yet, for values of normalized type `data_type`; `None` if they have no order.
    pub fn states(&self, data_type: &DataType) -> Option<Box<dyn HolisticStates>> {
        let none = new_empty_array(data_type);
        let _ = make_comparator(&none, &none, SortOptions::default()).ok()?;
        Some(Box::new(States { result: self.clone(), listed: Listed::default(), none }))
    }
}

struct States {
    result: OfSorted,
    listed: Listed,
    /// No values, of their type.
    none: ArrayRef,
}

impl HolisticStates for States {
    fn add(
        &mut self,
        values: &ArrayRef,
        passing: Option<&BooleanArray>,
        groups: &[usize],
        total_groups: usize,
    ) -> Result<(), ExecError> {
        let Some(nulls) = values.logical_nulls().filter(|nulls| nulls.null_count() > 0) else {
            return self.listed.add(values, passing, groups, total_groups);
        };
        let valid = BooleanArray::from(nulls.inner().clone());
        let kept: Vec<usize> = nulls.valid_indices().map(|row| groups[row]).collect();
        let passing = passing.map(|passing| filter(passing, &valid)).transpose()?;
        let passing = passing.as_ref().map(arrow_array::cast::AsArray::as_boolean);
        self.listed.add(&filter(values, &valid)?, passing, &kept, total_groups)
    }

    fn size(&self) -> usize {
        self.listed.size()
    }

    fn evaluate(&mut self) -> Result<ArrayRef, ExecError> {
        let (values, counts) = self.listed.by_group()?;
        let values = values.unwrap_or_else(|| Arc::clone(&self.none));
        // A NULL in a list or struct is greatest.
        let order = SortOptions { descending: false, nulls_first: false };
        let compare = make_comparator(&values, &values, order)?;
        let order = |a: &u32, b: &u32| compare(*a as usize, *b as usize);
        let mut chosen: Vec<Option<u32>> = Vec::with_capacity(counts.len());
        let mut occurrences: Vec<u64> = Vec::new();
        let mut lengths = Vec::with_capacity(counts.len());
        let mut start = 0_u32;
        for count in counts {
            let mut rows: Vec<u32> = (start..start + count as u32).collect();
            start += count as u32;
            match self.result {
                OfSorted::Quantile(fraction) => {
                    let rank = fraction.rank(count as u64) as usize;
                    chosen.push((count > 0).then(|| *rows.select_nth_unstable_by(rank, order).1));
                }
                OfSorted::Mode => {
                    rows.sort_unstable_by(order);
                    let runs = rows.chunk_by(|a, b| order(a, b) == Ordering::Equal);
                    // The first of the longest.
                    let longest = runs.reduce(|best, run| if run.len() > best.len() { run } else { best });
                    chosen.push(longest.map(|run| run[0]));
                }
                OfSorted::CountDistinct => {
                    rows.sort_unstable_by(order);
                    occurrences.push(rows.chunk_by(|a, b| order(a, b) == Ordering::Equal).count() as u64);
                }
                OfSorted::Histogram(_) => {
                    rows.sort_unstable_by(order);
                    let before = chosen.len();
                    for run in rows.chunk_by(|a, b| order(a, b) == Ordering::Equal) {
                        chosen.push(Some(run[0]));
                        occurrences.push(run.len() as u64);
                    }
                    lengths.push(chosen.len() - before);
                }
            }
        }
        if let OfSorted::CountDistinct = self.result {
            return Ok(Arc::new(Int64Array::from_iter_values(occurrences.into_iter().map(|count| count as i64))));
        }
        let chosen = take(&values, &UInt32Array::from(chosen), None)?;
        let OfSorted::Histogram(field) = &self.result else { return Ok(chosen) };
        let DataType::Struct(fields) = field.data_type() else { unreachable!("entries of a map are structs") };
        // As DuckDB: no values, no map.
        let nulls: NullBuffer = lengths.iter().map(|&length| length > 0).collect();
        let entries =
            StructArray::try_new(fields.clone(), vec![chosen, Arc::new(UInt64Array::from(occurrences))], None)?;
        let offsets = OffsetBuffer::from_lengths(lengths);
        Ok(Arc::new(MapArray::try_new(Arc::clone(field), offsets, entries, Some(nulls), false)?))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use arrow_array::StringViewArray;
    use arrow_schema::Field;

    use super::*;

    #[test]
    fn strings_are_ranked_and_counted() {
        let words = [Some("b"), Some("a"), None, Some("b"), Some("a"), Some("c"), Some("long enough to be elsewhere")];
        let values: ArrayRef = Arc::new(StringViewArray::from(words.to_vec()));
        let groups = [0, 0, 0, 0, 0, 2, 2];
        let passing = BooleanArray::from(vec![true, true, true, true, false, true, true]);
        let entry = vec![Field::new("key", DataType::Utf8View, false), Field::new("value", DataType::UInt64, true)];
        let entries = Arc::new(Field::new("entries", DataType::Struct(entry.into()), false));
        for (result, expected) in [
            (OfSorted::Quantile(DiscreteFraction { share: 0.5, descending: false }), ["a", "", "c"]),
            (
                OfSorted::Quantile(DiscreteFraction { share: 0.5, descending: true }),
                ["b", "", "long enough to be elsewhere"],
            ),
            (OfSorted::Mode, ["a", "", "c"]),
            (OfSorted::CountDistinct, ["2", "0", "2"]),
            (OfSorted::Histogram(entries.clone()), ["{a: 2, b: 2}", "", "{c: 1, long enough to be elsewhere: 1}"]),
        ] {
            let mut states = result.states(&DataType::Utf8View).unwrap();
            states.add(&values, None, &groups, 3).unwrap();
            let found = states.evaluate().unwrap();
            let text = |row| arrow_cast::display::array_value_to_string(&found, row).unwrap();
            assert_eq!([text(0), text(1), text(2)], expected, "{result:?}");
        }
        let mut states = OfSorted::Histogram(entries).states(&DataType::Utf8View).unwrap();
        states.add(&values, Some(&passing), &groups, 3).unwrap();
        let found = states.evaluate().unwrap();
        assert_eq!(arrow_cast::display::array_value_to_string(&found, 0).unwrap(), "{a: 1, b: 2}");
    }
}
