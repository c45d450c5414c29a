//! Values as bytes that compare as the values do, whatever their type: intervals by their length, NaN greatest, NULL behind all.
//!
//! Not here: the order of rows, which the engine knows.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, Decimal128Array},
        compute::SortOptions,
        datatypes::DataType,
        row::{RowConverter, Rows, SortField},
    },
    common::Result,
};
use ogee_vector::canonical_floats;

use crate::times::intervals::{intervals, length};

/// `values`, of which equal ones are the same, and smaller ones less.
fn comparable(values: &ArrayRef) -> Result<ArrayRef> {
    if !matches!(values.data_type(), DataType::Interval(_)) {
        return Ok(canonical_floats(values));
    }
    let lengths = intervals(values)?;
    let lengths: Decimal128Array = lengths.iter().map(|interval| interval.map(length)).collect();
    Ok(Arc::new(lengths))
}

/// The bytes of `values`; those of values that `descends` puts first are less.
pub(crate) fn places(values: &ArrayRef, descends: bool) -> Result<Rows> {
    let values = comparable(values)?;
    let options = SortOptions { descending: descends, nulls_first: false };
    let converter = RowConverter::new(vec![SortField::new_with_options(values.data_type().clone(), options)])?;
    Ok(converter.convert_columns(&[values])?)
}

/// The rows of `values` in their order, equal ones as they lie.
pub(crate) fn ranked(values: &ArrayRef, descends: bool) -> Result<Vec<u32>> {
    let places = places(values, descends)?;
    let mut rows: Vec<u32> = (0..values.len() as u32).collect();
    rows.sort_by(|a, b| places.row(*a as usize).cmp(&places.row(*b as usize)));
    Ok(rows)
}
