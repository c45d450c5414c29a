//! Lists and joined strings: all values of a group, one after the other.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, LargeStringArray, ListArray, UInt32Array, cast::AsArray, new_empty_array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, FieldRef};
use arrow_select::{concat::concat, take::take};

use super::{HolisticStates, place_by_group};
use crate::ExecError;

/// What is made of the values.
#[derive(Clone, Debug)]
pub enum Gather {
    /// A list with all values, NULLs included, of elements like this field: `array_agg`.
    List(FieldRef),
    /// A string of all values but NULLs with this one between them: `string_agg`.
    Join(String),
}

impl Gather {
    /// States for no groups yet. Values of a group stay in the order in which they come.
    pub fn states(&self) -> Box<dyn HolisticStates> {
        Box::new(States { result: self.clone(), listed: Listed::default() })
    }
}

struct States {
    result: Gather,
    listed: Listed,
}

/// Values as they come, with the numbers of their groups.
#[derive(Default)]
pub(super) struct Listed {
    total: usize,
    values: Vec<ArrayRef>,
    groups: Vec<u32>,
    bytes: usize,
}

impl Listed {
    /// Adds the value of each row that is `passing` to the row's group.
    pub(super) fn add(
        &mut self,
        values: &ArrayRef,
        passing: Option<&BooleanArray>,
        groups: &[usize],
        total_groups: usize,
    ) -> Result<(), ExecError> {
        self.total = total_groups;
        let rows = match passing {
            None => {
                self.groups.extend(groups.iter().map(|&group| group as u32));
                Arc::clone(values)
            }
            Some(passing) => {
                let passes = |row: &usize| passing.is_valid(*row) && passing.value(*row);
                self.groups.extend((0..groups.len()).filter(passes).map(|row| groups[row] as u32));
                arrow_select::filter::filter(values, passing)?
            }
        };
        self.bytes += rows.to_data().get_slice_memory_size()?;
        self.values.push(rows);
        Ok(())
    }

    /// Bytes that they take, now and when they are sorted.
    pub(super) fn size(&self) -> usize {
        // Three times: the arrays become one, which is then ordered.
        3 * self.bytes + 2 * self.groups.capacity() * 4
    }

    /// All values, those of each group next to each other in the order in which they came, and how many each group has.
    pub(super) fn by_group(&mut self) -> Result<(Option<ArrayRef>, Vec<usize>), ExecError> {
        let (values, groups) = (std::mem::take(&mut self.values), std::mem::take(&mut self.groups));
        let mut counts = vec![0_usize; self.total];
        for &group in &groups {
            counts[group as usize] += 1;
        }
        let arrays: Vec<&dyn Array> = values.iter().map(|array| array.as_ref()).collect();
        if arrays.is_empty() {
            return Ok((None, counts));
        }
        let all = concat(&arrays)?;
        drop(values);
        if groups.is_sorted() {
            return Ok((Some(all), counts));
        }
        let mut order = vec![0_u32; groups.len()];
        place_by_group(&groups, self.total, |row, place| order[place] = row as u32);
        Ok((Some(take(&all, &UInt32Array::from(order), None)?), counts))
    }
}

impl HolisticStates for States {
    fn add(
        &mut self,
        values: &ArrayRef,
        passing: Option<&BooleanArray>,
        groups: &[usize],
        total_groups: usize,
    ) -> Result<(), ExecError> {
        self.listed.add(values, passing, groups, total_groups)
    }

    fn size(&self) -> usize {
        self.listed.size()
    }

    fn evaluate(&mut self) -> Result<ArrayRef, ExecError> {
        let (values, counts) = self.listed.by_group()?;
        match &self.result {
            Gather::List(field) => {
                let values = values.unwrap_or_else(|| new_empty_array(field.data_type()));
                let nulls: NullBuffer = counts.iter().map(|&count| count > 0).collect();
                let offsets = OffsetBuffer::from_lengths(counts);
                Ok(Arc::new(ListArray::try_new(Arc::clone(field), offsets, values, Some(nulls))?))
            }
            Gather::Join(between) => {
                let values = values.unwrap_or_else(|| new_empty_array(&DataType::Utf8View));
                let values = values.as_string_view();
                let mut bytes = String::new();
                let mut lengths = Vec::with_capacity(counts.len());
                let mut nulls = Vec::with_capacity(counts.len());
                let mut row = 0;
                for count in counts {
                    let start = bytes.len();
                    let mut any = false;
                    for row in (row..row + count).filter(|&row| values.is_valid(row)) {
                        if std::mem::replace(&mut any, true) {
                            bytes.push_str(between);
                        }
                        bytes.push_str(values.value(row));
                    }
                    row += count;
                    lengths.push(bytes.len() - start);
                    nulls.push(any);
                }
                let offsets = OffsetBuffer::from_lengths(lengths);
                let nulls = NullBuffer::from(nulls);
                Ok(Arc::new(LargeStringArray::try_new(offsets, bytes.into_bytes().into(), Some(nulls))?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use arrow_array::StringViewArray;
    use arrow_schema::Field;

    use super::*;

    #[test]
    fn values_stay_in_order_within_their_groups() {
        let values: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a"), None, Some("b"), Some("c"), Some("d")]));
        let passing = BooleanArray::from(vec![Some(true), Some(true), Some(true), None, Some(true)]);
        let field = Arc::new(Field::new_list_field(DataType::Utf8View, true));
        for (filter, lists, strings) in [
            (None, ["[b, c]", "", "[a, , d]"], ["b, c", "", "a, d"]),
            (Some(&passing), ["[b]", "", "[a, , d]"], ["b", "", "a, d"]),
        ] {
            for (gather, expected) in [(Gather::List(Arc::clone(&field)), lists), (Gather::Join(", ".into()), strings)]
            {
                let mut states = gather.states();
                states.add(&values, filter, &[2, 2, 0, 0, 2], 3).unwrap();
                let found = states.evaluate().unwrap();
                let text = |row| arrow_cast::display::array_value_to_string(&found, row).unwrap();
                assert_eq!([text(0), text(1), text(2)], expected);
                assert!(found.is_null(1), "a group without values");
            }
        }
    }
}
