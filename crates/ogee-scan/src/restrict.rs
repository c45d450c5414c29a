//! Row groups that cannot matter to those who read the scan, by what they learnt while the query ran.
//!
//! Not here: predicates of the statement, which the front end prunes by.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use ogee_exec::Restriction;
use ogee_vector::{Column, integer_range, normalize_type};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, statistics::StatisticsConverter};

/// A column, by its name in the files and its type in the table, and which of its values matter.
#[derive(Clone)]
pub(crate) struct RestrictedColumn {
    pub(crate) name: String,
    pub(crate) data_type: arrow_schema::DataType,
    restriction: Arc<Restriction>,
    /// Its number among the columns that the restriction is about.
    number: usize,
}

impl RestrictedColumn {
    /// Column `column` of the table, if it is one of the files'.
    pub(crate) fn new(
        file_schema: &SchemaRef,
        column: usize,
        restriction: &Arc<Restriction>,
        number: usize,
    ) -> Option<Self> {
        let field = file_schema.fields().get(column)?;
        let (name, data_type) = (field.name().clone(), field.data_type().clone());
        Some(Self { name, data_type, restriction: Arc::clone(restriction), number })
    }

    /// Of each row group: whether some of its rows can matter. True where statistics do not tell.
    pub(crate) fn admits(&self, metadata: &ArrowReaderMetadata) -> Option<Vec<bool>> {
        let parquet = metadata.metadata();
        let schema = parquet.file_metadata().schema_descr();
        let converter = StatisticsConverter::try_new(&self.name, metadata.schema(), schema).ok()?;
        let row_groups = parquet.row_groups();
        let in_type = |array| arrow_cast::cast(&array, &normalize_type(&self.data_type)).ok();
        let least = in_type(converter.row_group_mins(row_groups).ok()?)?;
        let greatest = in_type(converter.row_group_maxes(row_groups).ok()?)?;
        let value = |array: &arrow_array::ArrayRef, row| integer_range(Column::flat(array.slice(row, 1)).as_ref());
        let admits = |row: usize| match (value(&least, row), value(&greatest, row)) {
            (Some((least, _)), Some((_, greatest))) => self.restriction.admits(self.number, least, greatest),
            _ => true,
        };
        Some((0..row_groups.len()).map(admits).collect())
    }
}
