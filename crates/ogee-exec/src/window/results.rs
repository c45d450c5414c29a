//! Values of a window function that wait for their rows.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use arrow_array::{Array, ArrayRef, UInt32Array, cast::AsArray};
use arrow_buffer::Buffer;
use arrow_schema::DataType;
use arrow_select::{concat::concat, take::take};

use crate::ExecError;

enum Part {
    /// A value for each row.
    Rows(ArrayRef),
    /// Values, each for so many rows; the first for what is left of its rows.
    Runs { values: ArrayRef, counts: Vec<usize>, at: usize },
}

/// Values in the order of the rows.
pub(crate) struct Results {
    data_type: DataType,
    parts: VecDeque<Part>,
    rows: usize,
}

impl Results {
    pub(crate) fn new(data_type: DataType) -> Self {
        Self { data_type, parts: VecDeque::new(), rows: 0 }
    }

    /// Rows whose values are known.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes that the values take; what several parts share is counted once.
    pub(crate) fn bytes(&self) -> usize {
        let mut counted = HashSet::new();
        let mut bytes = |values: &ArrayRef| {
            let shared: &[Buffer] = match values.data_type() {
                DataType::Utf8View => values.as_string_view().data_buffers(),
                DataType::BinaryView => values.as_binary_view().data_buffers(),
                _ => return values.get_array_memory_size(),
            };
            let new = shared.iter().filter(|buffer| counted.insert(buffer.as_ptr())).map(Buffer::capacity);
            size_of::<u128>() * values.len() + new.sum::<usize>()
        };
        let parts = self.parts.iter().map(|part| match part {
            Part::Rows(values) => bytes(values),
            Part::Runs { values, counts, .. } => bytes(values) + counts.capacity() * 8,
        });
        parts.sum()
    }

    pub(crate) fn push(&mut self, values: ArrayRef) {
        if !values.is_empty() {
            self.rows += values.len();
            self.parts.push_back(Part::Rows(values));
        }
    }

    /// Each value for as many rows as `counts` says, none of them 0.
    pub(crate) fn push_runs(&mut self, values: ArrayRef, counts: Vec<usize>) {
        assert_eq!(values.len(), counts.len());
        if !counts.is_empty() {
            self.rows += counts.iter().sum::<usize>();
            self.parts.push_back(Part::Runs { values, counts, at: 0 });
        }
    }

    /// The values of the next `rows` rows, of which there are so many.
    pub(crate) fn take(&mut self, rows: usize) -> Result<ArrayRef, ExecError> {
        assert!(rows <= self.rows, "asked for what is known only");
        self.rows -= rows;
        let mut left = rows;
        let mut taken: Vec<ArrayRef> = Vec::with_capacity(1);
        while left > 0 {
            match self.parts.front_mut().expect("as many values as were counted") {
                Part::Rows(values) if values.len() > left => {
                    taken.push(values.slice(0, left));
                    *values = values.slice(left, values.len() - left);
                    left = 0;
                }
                Part::Rows(values) => {
                    left -= values.len();
                    taken.push(Arc::clone(values));
                    self.parts.pop_front();
                }
                Part::Runs { values, counts, at } => {
                    let mut indices: Vec<u32> = Vec::with_capacity(left);
                    while left > 0 && *at < counts.len() {
                        let count = counts[*at].min(left);
                        indices.extend(std::iter::repeat_n(*at as u32, count));
                        left -= count;
                        counts[*at] -= count;
                        if counts[*at] == 0 {
                            *at += 1;
                        }
                    }
                    taken.push(take(values, &UInt32Array::from(indices), None)?);
                    if *at == counts.len() {
                        self.parts.pop_front();
                    }
                }
            }
        }
        match taken.as_slice() {
            [] => Ok(arrow_array::new_empty_array(&self.data_type)),
            [only] => Ok(Arc::clone(only)),
            parts => Ok(concat(&parts.iter().map(|part| &**part).collect::<Vec<_>>())?),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::StringViewArray;

    use super::*;

    #[test]
    fn bytes_that_values_share_are_counted_once() {
        let long: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..64).map(|i| format!("{i:0>200}"))));
        let mut results = Results::new(DataType::Utf8View);
        (0..64).for_each(|row| results.push(long.slice(row, 1)));
        results.push_runs(long.slice(3, 1), vec![5]);
        let text = 64 * 200;
        assert!((text..text + text / 2).contains(&results.bytes()), "{} of {text}", results.bytes());
    }
}
