//! Domains of columns out of the statistics of files.

use datafusion::{
    common::{ColumnStatistics, Statistics},
    datasource::listing::PartitionedFile,
    scalar::ScalarValue,
};
use ogee_vector::Domain;

/// What the statistics of `files` say about column `column` of their table.
pub(super) fn of_files(files: &[&PartitionedFile], column: usize) -> Domain {
    let of = |statistics: &Statistics| statistics.column_statistics.get(column).map(of_column);
    let domains = files.iter().map(|file| file.statistics.as_deref().and_then(of));
    domains.reduce(|a, b| Some(a?.union(b?))).flatten().unwrap_or(Domain::UNKNOWN)
}

fn of_column(statistics: &ColumnStatistics) -> Domain {
    let value = |value: Option<&ScalarValue>| value.and_then(integer);
    let (min, max) = (statistics.min_value.get_value(), statistics.max_value.get_value());
    let nulls = statistics.null_count.get_value() != Some(&0);
    Domain { nulls, integers: value(min).zip(value(max)) }
}

/// A value as rows store it, if that is an integer.
pub fn integer(value: &ScalarValue) -> Option<i64> {
    use ScalarValue as V;
    match value {
        V::Int8(v) => v.map(i64::from),
        V::Int16(v) => v.map(i64::from),
        V::Int32(v) | V::Date32(v) | V::Time32Second(v) | V::Time32Millisecond(v) => v.map(i64::from),
        V::UInt8(v) => v.map(i64::from),
        V::UInt16(v) => v.map(i64::from),
        V::UInt32(v) => v.map(i64::from),
        V::UInt64(v) => v.and_then(|v| i64::try_from(v).ok()),
        V::Int64(v)
        | V::Date64(v)
        | V::Time64Microsecond(v)
        | V::Time64Nanosecond(v)
        | V::TimestampSecond(v, _)
        | V::TimestampMillisecond(v, _)
        | V::TimestampMicrosecond(v, _)
        | V::TimestampNanosecond(v, _) => *v,
        V::Decimal128(v, precision, _) if *precision <= 18 => v.and_then(|v| i64::try_from(v).ok()),
        _ => None,
    }
}
