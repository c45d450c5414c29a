//! What `COPY` writes, in types that other readers understand.
//!
//! Parquet has no dates in milliseconds and no times in seconds: Arrow's writer stores their integers, and says what
//! they are in metadata of its own only (parquet's `arrow_to_parquet_type`).
//!
//! A writer of Parquet has a row group in memory, and something for each column: less of it where there is little (`within_limit`).
//!
//! DataFusion's writer takes the NULL of a column that names directories for 0 or an empty text; it gets a name of its
//! own here.
//!
//! Not here: writing, and where to (`copy_target`).

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit},
    common::{Column, config::ParquetOptions},
    error::Result,
    logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, lit, when},
};
use ogee_vector::row_width;

use crate::tables::NULL_VALUE;

/// `plan` with its columns cast where they are to be.
pub fn in_plain_types(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Copy(mut copy) = plan else { return Ok(plan) };
    let names_directories = |field: &Field| field.is_nullable() && copy.partition_by.contains(field.name());
    let fields = copy.input.schema().fields();
    if fields.iter().all(|field| plain(field.data_type()).is_none() && !names_directories(field)) {
        return Ok(LogicalPlan::Copy(copy));
    }
    let columns = copy.input.schema().iter().map(|(relation, field)| {
        let column = Expr::Column(Column::from((relation, field)));
        let written = if names_directories(field) {
            let text = match field.data_type() {
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => column.clone(),
                _ => cast(column.clone(), DataType::Utf8),
            };
            when(column.is_null(), lit(NULL_VALUE)).otherwise(text)?
        } else {
            match plain(field.data_type()) {
                Some(plain) => cast(column, plain),
                None => return Ok(column),
            }
        };
        Ok(written.alias_qualified(relation.cloned(), field.name()))
    });
    let columns = columns.collect::<Result<Vec<Expr>>>()?;
    let input = LogicalPlanBuilder::from(Arc::unwrap_or_clone(copy.input)).project(columns)?.build()?;
    copy.input = Arc::new(input);
    Ok(LogicalPlan::Copy(copy))
}

/// The part of the memory limit that rows of a row group may take before they are encoded, and that the dictionaries of all columns may.
pub(crate) const ROW_GROUP_SHARE: usize = 8;
const DICTIONARIES_SHARE: usize = 16;

/// Rows of a row group, at least.
const ROW_GROUP_ROWS_MIN: usize = 256;

/// Bytes that parquet's writer takes for the dictionary of a column before it has a value (its `Interner` begins with 4,096 places).
const DICTIONARY_BYTES: usize = 80 << 10;

/// `plan` with row groups that `limit` bytes of memory have room for, since the writer has all columns of one in memory, and without dictionaries if those of
/// all columns do not fit. What the statement or the session says stays: `row_group_rows` are those that nobody has asked for.
pub fn within_limit(plan: LogicalPlan, settings: &ParquetOptions, row_group_rows: usize, limit: usize) -> LogicalPlan {
    let LogicalPlan::Copy(mut copy) = plan else { return plan };
    if copy.file_type.get_ext() != "parquet" {
        return LogicalPlan::Copy(copy);
    }
    let schema = copy.input.schema().as_arrow();
    let rows = (limit / ROW_GROUP_SHARE / row_width(schema).max(1)).max(ROW_GROUP_ROWS_MIN);
    let columns = schema.fields().len();
    if rows < row_group_rows && settings.max_row_group_size == row_group_rows {
        copy.options.entry("format.max_row_group_size".to_owned()).or_insert_with(|| rows.to_string());
    }
    if columns * DICTIONARY_BYTES > limit / DICTIONARIES_SHARE {
        copy.options.entry("format.dictionary_enabled".to_owned()).or_insert_with(|| "false".to_owned());
    }
    LogicalPlan::Copy(copy)
}

/// The type to write instead, unless `data_type` is one that all know.
fn plain(data_type: &DataType) -> Option<DataType> {
    use DataType as D;
    Some(match data_type {
        D::Date64 => D::Date32,
        D::Timestamp(TimeUnit::Second, zone) => D::Timestamp(TimeUnit::Millisecond, zone.clone()),
        D::Time32(TimeUnit::Second) => D::Time32(TimeUnit::Millisecond),
        D::List(field) => D::List(plain_field(field)?),
        D::LargeList(field) => D::LargeList(plain_field(field)?),
        D::FixedSizeList(field, length) => D::FixedSizeList(plain_field(field)?, *length),
        D::Struct(fields) if fields.iter().any(|field| plain_field(field).is_some()) => {
            let field = |field: &FieldRef| plain_field(field).unwrap_or_else(|| Arc::clone(field));
            D::Struct(fields.iter().map(field).collect::<Fields>())
        }
        _ => return None,
    })
}

fn plain_field(field: &FieldRef) -> Option<FieldRef> {
    Some(Arc::new(field.as_ref().clone().with_data_type(plain(field.data_type())?)))
}
