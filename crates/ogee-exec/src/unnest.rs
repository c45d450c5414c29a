//! Unnest: a row for each element of a list, a column for each field of a struct.
//!
//! Elements are handed on chunk by chunk, so that a row with millions of them takes no more memory than one with few. The columns that
//! are repeated share their arrays; elements that follow each other in the list's values, as they mostly do, are a slice of these.

use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, LargeListArray, ListArray, UInt64Array, cast::AsArray, make_array,
};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use ogee_vector::{Chunk, Column, Domain, normalize_array};

use crate::{
    ExecContext, ExecError, Operator, OperatorLocal, OperatorStep,
    pipeline::{Map, Mapped},
};

/// What becomes of a row whose lists have no element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmptyLists {
    /// It is left out.
    Drop,
    /// It is left out, unless one of its lists is NULL: then it is given once, with NULL for the element.
    KeepNull,
    /// It is given once, with NULL for the element.
    Keep,
}

/// Replaces columns of lists by their elements. Of several, the first elements make a row, then the second ones, up to the longest list's; NULL
/// stands where there is none.
#[derive(Debug)]
pub struct Unnest {
    lists: Vec<usize>,
    empty: EmptyLists,
}

impl Unnest {
    /// Unnests the columns `lists`, at least one, by one level.
    ///
    /// # Panics
    /// If there is no list.
    pub fn new(lists: Vec<usize>, empty: EmptyLists) -> Self {
        assert!(!lists.is_empty(), "something is to be unnested");
        Self { lists, empty }
    }
}

impl Operator for Unnest {
    fn name(&self) -> &str {
        "unnest"
    }

    fn domains(&self, mut input: Vec<Domain>) -> Vec<Domain> {
        for &list in &self.lists {
            if let Some(domain) = input.get_mut(list) {
                *domain = Domain::UNKNOWN;
            }
        }
        input
    }

    fn origin(&self, column: usize) -> Option<usize> {
        (!self.lists.contains(&column)).then_some(column)
    }

    fn keeps_order(&self) -> bool {
        true
    }

    fn multiplies(&self) -> bool {
        true
    }

    fn local(&self, ctx: &ExecContext, _lane: usize) -> Box<dyn OperatorLocal> {
        Box::new(UnnestLocal {
            lists: self.lists.clone(),
            empty: self.empty,
            capacity: ctx.settings.chunk_capacity,
            chunk: Chunk::default(),
            row: 0,
            found: vec![None; self.lists.len()],
            element: 0,
            longest: 0,
            rows: Vec::new(),
            elements: vec![Vec::new(); self.lists.len()],
        })
    }
}

/// One column of lists.
enum Lists<'a> {
    Short(&'a ListArray),
    Long(&'a LargeListArray),
    Fixed(&'a FixedSizeListArray),
}

impl<'a> Lists<'a> {
    fn of(array: &'a ArrayRef) -> Self {
        match array.data_type() {
            DataType::List(_) => Self::Short(array.as_list()),
            DataType::LargeList(_) => Self::Long(array.as_list()),
            DataType::FixedSizeList(..) => Self::Fixed(array.as_fixed_size_list()),
            other => unreachable!("{other} is no list; the front end asks before it unnests"),
        }
    }

    fn values(&self) -> &'a ArrayRef {
        match self {
            Self::Short(lists) => lists.values(),
            Self::Long(lists) => lists.values(),
            Self::Fixed(lists) => lists.values(),
        }
    }

    /// Where the elements of the list at `position` are, in order: the first, and how many; `None` for NULL.
    fn elements(&self, position: usize) -> Option<(usize, usize)> {
        let (nulls, first, end) = match self {
            Self::Short(lists) => {
                let offsets = lists.value_offsets();
                (lists.nulls(), offsets[position] as usize, offsets[position + 1] as usize)
            }
            Self::Long(lists) => {
                let offsets = lists.value_offsets();
                (lists.nulls(), offsets[position] as usize, offsets[position + 1] as usize)
            }
            Self::Fixed(lists) => {
                let (first, len) = (lists.value_offset(position) as usize, lists.value_length() as usize);
                (lists.nulls(), first, first + len)
            }
        };
        (!nulls.is_some_and(|nulls| nulls.is_null(position))).then_some((first, end - first))
    }
}

struct UnnestLocal {
    lists: Vec<usize>,
    empty: EmptyLists,
    capacity: usize,
    chunk: Chunk,
    /// The row of the chunk that is next, or whose elements are being given.
    row: usize,
    /// Where the elements of its lists are; `None` for NULL.
    found: Vec<Option<(usize, usize)>>,
    /// The number of the element that is next, of as many as the longest of the lists has.
    element: usize,
    longest: usize,
    /// The row of the input that each row of the output is of.
    rows: Vec<u32>,
    /// For each list, the element in each row of the output.
    elements: Vec<Vec<Option<u64>>>,
}

impl UnnestLocal {
    /// Looks the lists of the row at hand up.
    fn find(&mut self) {
        (self.element, self.longest) = (0, 0);
        for (&list, found) in self.lists.iter().zip(&mut self.found) {
            let column = self.chunk.column(list);
            *found = Lists::of(column.array).elements(column.position(self.row));
            let rows = match (*found, self.empty) {
                (None, EmptyLists::KeepNull | EmptyLists::Keep) | (Some((_, 0)), EmptyLists::Keep) => 1,
                (None, EmptyLists::Drop) => 0,
                (Some((_, len)), _) => len,
            };
            self.longest = self.longest.max(rows);
        }
    }

    /// Notes which elements the next rows of the output are made of.
    fn fill(&mut self) {
        while self.rows.len() < self.capacity {
            if self.element == self.longest {
                if self.row + 1 >= self.chunk.len() {
                    return;
                }
                self.row += 1;
                self.find();
                continue;
            }
            let end = self.longest.min(self.element + self.capacity - self.rows.len());
            self.rows.resize(self.rows.len() + end - self.element, self.row as u32);
            for (elements, &found) in self.elements.iter_mut().zip(&self.found) {
                let (first, len) = found.unwrap_or_default();
                elements.extend((self.element..end).map(|at| (at < len).then_some((first + at) as u64)));
            }
            self.element = end;
        }
    }
}

/// The values at `elements`, NULL where there is no element.
fn taken(values: &ArrayRef, elements: &[Option<u64>]) -> Result<ArrayRef, ExecError> {
    if let Some(first) = elements[0]
        && elements.iter().zip(first..).all(|(&element, at)| element == Some(at))
    {
        return Ok(values.slice(first as usize, elements.len()));
    }
    let elements: UInt64Array = elements.iter().copied().collect();
    Ok(arrow_select::take::take(values, &elements, None)?)
}

impl OperatorLocal for UnnestLocal {
    fn begin(&mut self, chunk: Chunk, _cancelled: &dyn Fn() -> bool) -> Result<(), ExecError> {
        (self.chunk, self.row) = (chunk, 0);
        self.rows.clear();
        self.elements.iter_mut().for_each(Vec::clear);
        self.find();
        Ok(())
    }

    fn next(&mut self) -> Result<OperatorStep, ExecError> {
        self.fill();
        if self.rows.is_empty() {
            self.chunk = Chunk::default();
            return Ok(OperatorStep::Done);
        }
        let chunk = &self.chunk;
        let repeated = chunk.select(&self.rows);
        let mut columns: Vec<Column> = (0..chunk.num_columns()).map(|column| repeated.to_column(column)).collect();
        for (&list, elements) in self.lists.iter().zip(&mut self.elements) {
            let values = Lists::of(chunk.column(list).array).values();
            columns[list] = Column::flat(normalize_array(&taken(values, elements)?)?);
            elements.clear();
        }
        let rows = self.rows.len();
        self.rows.clear();
        Ok(OperatorStep::Chunk(Chunk::from_columns(columns, rows)))
    }
}

/// Replaces columns of structs by their fields, in the places of the structs.
#[derive(Debug)]
pub struct UnnestStructs {
    structs: Vec<usize>,
    /// Columns that come out.
    columns: usize,
}

impl UnnestStructs {
    /// Takes the columns `structs` apart, `columns` of which come out in all.
    pub fn new(structs: Vec<usize>, columns: usize) -> Self {
        Self { structs, columns }
    }
}

impl Operator for UnnestStructs {
    fn name(&self) -> &str {
        "unnest structs"
    }

    fn columns(&self, _input: usize) -> usize {
        self.columns
    }

    fn domains(&self, _input: Vec<Domain>) -> Vec<Domain> {
        Vec::new()
    }

    fn keeps_rows(&self) -> bool {
        true
    }

    fn local(&self, _ctx: &ExecContext, _lane: usize) -> Box<dyn OperatorLocal> {
        Mapped::local(UnnestStructsLocal { structs: self.structs.clone() })
    }
}

struct UnnestStructsLocal {
    structs: Vec<usize>,
}

impl Map for UnnestStructsLocal {
    fn map(&mut self, chunk: Chunk) -> Result<OperatorStep, ExecError> {
        let mut columns = Vec::new();
        for index in 0..chunk.num_columns() {
            let column = chunk.to_column(index);
            if !self.structs.contains(&index) {
                columns.push(column);
                continue;
            }
            let structs = column.array.as_struct();
            for field in structs.columns() {
                let nulls = NullBuffer::union(structs.nulls(), field.nulls());
                let array = match structs.nulls() {
                    Some(_) if *field.data_type() != DataType::Null => {
                        make_array(field.to_data().into_builder().nulls(nulls).build()?)
                    }
                    _ => ArrayRef::clone(field),
                };
                columns.push(Column { array: normalize_array(&array)?, selection: column.selection.clone() });
            }
        }
        Ok(OperatorStep::Chunk(Chunk::from_columns(columns, chunk.len())))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::sync::Arc;

    use arrow_array::{Int32Array, StructArray, builder::Int32Builder, types::Int32Type};
    use ogee_memory::{BufferManager, MemoryConfig};

    use super::*;
    use crate::ExecSettings;

    fn context(chunk_capacity: usize) -> ExecContext {
        let config = MemoryConfig { counts_process: false, ..MemoryConfig::default() };
        let settings = ExecSettings { chunk_capacity, ..ExecSettings::default() };
        ExecContext::new(BufferManager::new(config).unwrap(), settings)
    }

    /// What comes out for `chunk`, of columns that are all of 32-bit integers.
    fn run(operator: &dyn Operator, chunk: Chunk, capacity: usize) -> Vec<Vec<Option<i32>>> {
        let mut rows = Vec::new();
        let mut local = operator.local(&context(capacity), 0);
        local.begin(chunk, &|| false).unwrap();
        while let OperatorStep::Chunk(chunk) = local.next().unwrap() {
            assert!(!chunk.is_empty() && chunk.len() <= capacity);
            let flat = chunk.flatten().unwrap();
            for row in 0..flat.len() {
                let value = |column| {
                    let column = flat.column(column).array.as_primitive::<Int32Type>();
                    column.is_valid(row).then(|| column.value(row))
                };
                rows.push((0..flat.num_columns()).map(value).collect());
            }
        }
        rows
    }

    fn lists() -> Chunk {
        let one = ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(1), None, Some(3)]),
            None,
            Some(vec![]),
            Some(vec![Some(4)]),
        ]);
        let other = LargeListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(10)]),
            Some(vec![]),
            Some(vec![]),
            Some(vec![Some(40), Some(41)]),
        ]);
        let plain = Int32Array::from(vec![7, 8, 9, 10]);
        Chunk::new(vec![Arc::new(one), Arc::new(other), Arc::new(plain)], 4).select(&[3, 0, 1, 2, 0])
    }

    #[test]
    fn several_lists_go_side_by_side() {
        let expected = |empty| {
            let mut rows = vec![
                vec![Some(4), Some(40), Some(10)],
                vec![None, Some(41), Some(10)],
                vec![Some(1), Some(10), Some(7)],
                vec![None, None, Some(7)],
                vec![Some(3), None, Some(7)],
            ];
            if empty != EmptyLists::Drop {
                rows.push(vec![None, None, Some(8)]);
            }
            if empty == EmptyLists::Keep {
                rows.push(vec![None, None, Some(9)]);
            }
            rows.extend([vec![Some(1), Some(10), Some(7)], vec![None, None, Some(7)], vec![Some(3), None, Some(7)]]);
            rows
        };
        for empty in [EmptyLists::Drop, EmptyLists::KeepNull, EmptyLists::Keep] {
            for capacity in [1, 2, 3, 1000] {
                assert_eq!(run(&Unnest::new(vec![0, 1], empty), lists(), capacity), expected(empty), "{empty:?}");
            }
        }
    }

    #[test]
    fn a_long_list_comes_in_chunks_that_share_it() {
        let values: ArrayRef = Arc::new(Int32Array::from_iter_values(0..1_000_000));
        let field = Arc::new(arrow_schema::Field::new_list_field(DataType::Int32, true));
        let list = FixedSizeListArray::new(field, 1_000_000, Arc::clone(&values), None);
        let mut local = Unnest::new(vec![0], EmptyLists::Drop).local(&context(2048), 0);
        let (mut rows, first) = (0, values.to_data().buffers()[0].as_ptr());
        local.begin(Chunk::new(vec![Arc::new(list)], 1), &|| false).unwrap();
        while let OperatorStep::Chunk(chunk) = local.next().unwrap() {
            let at = first.wrapping_add(rows * size_of::<i32>());
            assert_eq!(chunk.column(0).array.to_data().buffers()[0].as_ptr(), at, "nothing is copied");
            rows += chunk.len();
        }
        assert_eq!(rows, 1_000_000);
    }

    #[test]
    fn fields_of_a_null_struct_are_null() {
        let mut field = Int32Builder::new();
        field.append_slice(&[1, 2, 3]);
        let fields = vec![arrow_schema::Field::new("x", DataType::Int32, true)].into();
        let nulls = Some(NullBuffer::from(vec![true, false, true]));
        let structs = StructArray::new(fields, vec![Arc::new(field.finish())], nulls);
        let chunk = Chunk::new(vec![Arc::new(Int32Array::from(vec![5, 6, 7])), Arc::new(structs)], 3).select(&[1, 2]);
        let rows = run(&UnnestStructs::new(vec![1], 2), chunk, 10);
        assert_eq!(rows, [[Some(6), None], [Some(7), Some(3)]]);
    }
}
