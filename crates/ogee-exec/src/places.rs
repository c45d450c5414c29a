//! The place of each row in the stored order, as a column: what windows and aggregates sort by that depend on the order of rows when nobody says which.
//!
//! A place is the number of the row's range and, below it, the row's number within the range; a row that comes before another has a lower one. Numbers have gaps where filters
//! left rows out before, or where another lane went on with a range.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use arrow_schema::DataType;
use ogee_vector::{Chunk, Column};

use crate::{
    ExecContext, ExecError, Operator, OperatorLocal, OperatorStep, RowOrder,
    order::LanePlace,
    pipeline::{Map, Mapped},
};

/// Bits of a place for the number of the row within its range.
const ROW_BITS: u32 = 40;

/// The last range that has a number of its own: rows of later ones share it.
const RANGE_MAX: usize = (1 << (63 - ROW_BITS)) - 1;

/// Appends the place of each row as a column of 64-bit integers.
#[derive(Debug)]
pub(crate) struct Places {
    order: Arc<RowOrder>,
}

impl Places {
    /// The normalized type of a place.
    pub(crate) const TYPE: DataType = DataType::Int64;

    /// The places in `order`, which is that of the source of the pipeline.
    pub(crate) fn new(order: Arc<RowOrder>) -> Self {
        Self { order }
    }
}

impl Operator for Places {
    fn name(&self) -> &str {
        "places"
    }

    fn columns(&self, input: usize) -> usize {
        input + 1
    }

    fn keeps_rows(&self) -> bool {
        true
    }

    fn is_light(&self) -> bool {
        true
    }

    fn local(&self, _ctx: &ExecContext, lane: usize) -> Box<dyn OperatorLocal> {
        Mapped::local(PlacesLocal { order: Arc::clone(&self.order), lane, at: LanePlace::default(), next: 0 })
    }
}

struct PlacesLocal {
    order: Arc<RowOrder>,
    lane: usize,
    /// Where the lane entered the range that it is at.
    at: LanePlace,
    /// The number of the next row within it.
    next: i64,
}

impl Map for PlacesLocal {
    fn map(&mut self, chunk: Chunk) -> Result<OperatorStep, ExecError> {
        let at = self.order.place(self.lane);
        if at != self.at {
            (self.at, self.next) = (at, at.row as i64);
        }
        let first = (at.range.min(RANGE_MAX) as i64) << ROW_BITS | self.next;
        let rows = chunk.len();
        self.next += rows as i64;
        let places: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + rows as i64));
        let mut columns: Vec<Column> = (0..chunk.num_columns()).map(|column| chunk.to_column(column)).collect();
        columns.push(Column::flat(places));
        Ok(OperatorStep::Chunk(Chunk::from_columns(columns, rows)))
    }
}
