//! Chunks: at most [`CHUNK_CAPACITY`](crate::CHUNK_CAPACITY) rows in column groups with a selection vector each.

use arrow_array::{Array, ArrayRef};

use crate::{Selection, VectorError, gather_array};

/// A column by itself: values and which of them count, e.g. what an expression evaluates to.
#[derive(Clone, Debug)]
pub struct Column {
    /// The values.
    pub array: ArrayRef,
    /// The positions that make up the rows, or all in order.
    pub selection: Option<Selection>,
}

impl Column {
    /// A column whose rows are the array's, in order.
    pub fn flat(array: ArrayRef) -> Self {
        Self { array, selection: None }
    }

    /// Rows `offset .. offset + len`. Copies nothing.
    #[must_use]
    pub fn slice(&self, offset: usize, len: usize) -> Self {
        match &self.selection {
            None => Self::flat(self.array.slice(offset, len)),
            Some(selection) => {
                Self { array: ArrayRef::clone(&self.array), selection: Some(selection.slice(offset, len)) }
            }
        }
    }

    /// Rows of the column.
    pub fn len(&self) -> usize {
        self.selection.as_ref().map_or(self.array.len(), |s| s.positions().len())
    }

    /// Whether the column has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The column borrowed.
    pub fn as_ref(&self) -> ColumnRef<'_> {
        ColumnRef { array: &self.array, selection: self.selection.as_ref().map(Selection::positions) }
    }

    /// The rows as one array without a selection; copies only if there is a selection.
    ///
    /// # Errors
    /// See [`gather_array`].
    pub fn flatten(&self) -> Result<ArrayRef, VectorError> {
        self.as_ref().flatten()
    }
}

/// A borrowed column: its array and the positions that make up the rows.
#[derive(Clone, Copy, Debug)]
pub struct ColumnRef<'a> {
    /// The values.
    pub array: &'a ArrayRef,
    /// The positions that make up the rows, or all in order.
    pub selection: Option<&'a [u32]>,
}

impl ColumnRef<'_> {
    /// The rows as one array without a selection; copies only if there is a selection.
    ///
    /// # Errors
    /// See [`gather_array`].
    pub fn flatten(&self) -> Result<ArrayRef, VectorError> {
        match self.selection {
            None => Ok(ArrayRef::clone(self.array)),
            Some(positions) => gather_array(self.array, positions),
        }
    }

    /// Position in the array of row `row` of the chunk.
    #[inline]
    pub fn position(&self, row: usize) -> usize {
        self.selection.map_or(row, |s| s[row] as usize)
    }
}

/// Rows in flight between operators.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    len: usize,
    columns: Vec<(ArrayRef, u32)>,
    /// Extended selection vector of each column group.
    groups: Vec<Option<Selection>>,
}

impl Chunk {
    /// A chunk of one column group without a selection. `len` matters when there are no columns.
    ///
    /// # Panics
    /// If an array's length is not `len`.
    pub fn new(columns: Vec<ArrayRef>, len: usize) -> Self {
        assert!(columns.iter().all(|c| c.len() == len), "every column of a flat chunk has its length");
        Self { len, columns: columns.into_iter().map(|c| (c, 0)).collect(), groups: vec![None] }
    }

    /// A chunk of columns as expressions leave them; columns that share a selection share a group.
    ///
    /// # Panics
    /// If a column's length is not `len`.
    pub fn from_columns(columns: Vec<Column>, len: usize) -> Self {
        let mut groups: Vec<Option<Selection>> = Vec::new();
        let columns = columns
            .into_iter()
            .map(|column| {
                assert_eq!(column.len(), len, "every column has the chunk's length");
                let same = |group: &Option<Selection>| match (group, &column.selection) {
                    (None, None) => true,
                    (Some(a), Some(b)) => std::ptr::eq(a.positions(), b.positions()),
                    _ => false,
                };
                let group = groups.iter().position(same).unwrap_or_else(|| {
                    groups.push(column.selection.clone());
                    groups.len() - 1
                });
                (column.array, u32::try_from(group).expect("fewer groups than columns"))
            })
            .collect();
        Self { len, columns, groups }
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of columns.
    pub fn num_columns(&self) -> usize {
        self.columns.len()
    }

    /// Number of column groups.
    pub fn num_groups(&self) -> usize {
        self.groups.len()
    }

    /// Column `index`, borrowed.
    pub fn column(&self, index: usize) -> ColumnRef<'_> {
        let (array, group) = &self.columns[index];
        ColumnRef { array, selection: self.groups[*group as usize].as_ref().map(Selection::positions) }
    }

    /// Column `index` with its selection, sharing both.
    pub fn to_column(&self, index: usize) -> Column {
        let (array, group) = &self.columns[index];
        Column { array: ArrayRef::clone(array), selection: self.groups[*group as usize].clone() }
    }

    /// The chunk with only `columns`, in this order; nothing is copied.
    #[must_use]
    pub fn project(&self, columns: &[usize]) -> Self {
        Self {
            len: self.len,
            columns: columns.iter().map(|&i| self.columns[i].clone()).collect(),
            groups: self.groups.clone(),
        }
    }

    /// The chunk with only the given rows (each `< len`), in this order and as often as they are named. Composes into the
    /// selection of every group; no column is copied.
    #[must_use]
    pub fn select(&self, rows: &[u32]) -> Self {
        debug_assert!(rows.iter().all(|&r| (r as usize) < self.len));
        // All groups without a selection get one and the same.
        let mut flat: Option<Selection> = None;
        let groups = self
            .groups
            .iter()
            .map(|group| {
                Some(match group {
                    Some(selection) => selection.compose(rows),
                    None => flat.get_or_insert_with(|| Selection::new(rows)).clone(),
                })
            })
            .collect();
        Self { len: rows.len(), columns: self.columns.clone(), groups }
    }

    /// Rows `offset .. offset + len`. Copies nothing.
    #[must_use]
    pub fn slice(&self, offset: usize, len: usize) -> Self {
        assert!(offset + len <= self.len, "slice within the chunk");
        let slice = |(array, group): &(ArrayRef, u32)| match self.groups[*group as usize] {
            None => (array.slice(offset, len), *group),
            Some(_) => (ArrayRef::clone(array), *group),
        };
        let groups = self.groups.iter().map(|group| Some(group.as_ref()?.slice(offset, len))).collect();
        Self { len, columns: self.columns.iter().map(slice).collect(), groups }
    }

    /// The same rows without selections: full compaction. Copies the columns that had one.
    ///
    /// # Errors
    /// See [`gather_array`].
    pub fn flatten(&self) -> Result<Self, VectorError> {
        if self.groups.iter().all(Option::is_none) {
            return Ok(self.clone());
        }
        let columns = (0..self.num_columns()).map(|i| self.column(i).flatten()).collect::<Result<_, _>>()?;
        Ok(Self::new(columns, self.len))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::sync::Arc;

    use arrow_array::{Int32Array, StringViewArray, cast::AsArray, types::Int32Type};

    use super::*;

    fn chunk() -> Chunk {
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(10), None, Some(30), Some(40)]));
        let words: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "b", "c", "d"]));
        Chunk::new(vec![numbers, words], 4)
    }

    #[test]
    fn selections_compose_and_may_repeat() {
        let chunk = chunk().select(&[3, 1, 1, 2]).select(&[0, 3, 2]);
        let flat = chunk.flatten().unwrap();
        let numbers: Vec<_> = flat.column(0).array.as_primitive::<Int32Type>().iter().collect();
        assert_eq!(numbers, [Some(40), Some(30), None]);
        let words: Vec<_> = flat.column(1).array.as_string_view().iter().flatten().collect();
        assert_eq!(words, ["d", "c", "b"]);
    }

    #[test]
    fn columns_of_one_group_share_one_selection() {
        let chunk = chunk().select(&[2, 0]);
        assert_eq!(chunk.num_groups(), 1);
        let again = Chunk::from_columns(vec![chunk.to_column(1), chunk.to_column(0)], 2);
        assert_eq!(again.num_groups(), 1);
        let mixed = Chunk::from_columns(vec![chunk.to_column(1), Column::flat(chunk.column(0).flatten().unwrap())], 2);
        assert_eq!(mixed.num_groups(), 2);
        let sliced = mixed.slice(1, 1).flatten().unwrap();
        assert_eq!(sliced.column(0).array.as_string_view().value(0), "a");
        assert_eq!(sliced.column(1).array.as_primitive::<Int32Type>().value(0), 10);
    }
}
