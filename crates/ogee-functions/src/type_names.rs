//! `typeof`: what SQL calls the type of a value.
//!
//! Not here: the type that a name stands for, which the parser knows.

use std::{fmt::Write, sync::Arc};

use datafusion::{
    arrow::{
        array::{ArrayRef, StringViewArray},
        datatypes::{DataType, Field, TimeUnit},
    },
    logical_expr::ScalarUDF,
};
use ogee_memory::BufferManager;

use crate::{
    arguments::{Argument, taken},
    function::{Call, Function},
    marks,
};

/// The functions that statements may name.
pub fn functions(memory: &Arc<BufferManager>) -> Vec<ScalarUDF> {
    let body = |call: &mut Call<'_, '_>| {
        let name = sql_name_of(&call.fields[0]);
        let names: StringViewArray = std::iter::repeat_n(Some(name), call.rows).collect();
        Ok(Arc::new(names) as ArrayRef)
    };
    let takes = |given: &[DataType]| taken("typeof", &[Argument::Any], 0, given);
    let function =
        Function::of_fields("typeof", takes, |_| Ok(Arc::new(Field::new("", DataType::Utf8View, false))), body, memory);
    vec![function.registered()]
}

/// The name of the type of `field` in SQL, where that says more than its type.
pub fn sql_name_of(field: &Field) -> String {
    let mut name = String::new();
    write_name_of(field, &mut name).expect("a text takes what is written");
    name
}

fn write_name_of(field: &Field, name: &mut String) -> std::fmt::Result {
    match marks::write_name(field, name)? {
        true => Ok(()),
        false => write_name(field.data_type(), name),
    }
}

/// The name of `data_type` in SQL, as DuckDB writes it.
pub fn sql_name(data_type: &DataType) -> String {
    let mut name = String::new();
    write_name(data_type, &mut name).expect("a text takes what is written");
    name
}

fn write_name(data_type: &DataType, name: &mut String) -> std::fmt::Result {
    match data_type {
        DataType::Null => name.write_str("\"NULL\""),
        DataType::Boolean => name.write_str("BOOLEAN"),
        DataType::Int8 => name.write_str("TINYINT"),
        DataType::Int16 => name.write_str("SMALLINT"),
        DataType::Int32 => name.write_str("INTEGER"),
        DataType::Int64 => name.write_str("BIGINT"),
        DataType::UInt8 => name.write_str("UTINYINT"),
        DataType::UInt16 => name.write_str("USMALLINT"),
        DataType::UInt32 => name.write_str("UINTEGER"),
        DataType::UInt64 => name.write_str("UBIGINT"),
        DataType::Float16 | DataType::Float32 => name.write_str("FLOAT"),
        DataType::Float64 => name.write_str("DOUBLE"),
        // What has the room of HUGEINT stands for it.
        DataType::Decimal128(38, 0) => name.write_str("HUGEINT"),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => write!(name, "DECIMAL({precision},{scale})"),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => name.write_str("VARCHAR"),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            name.write_str("BLOB")
        }
        DataType::Date32 | DataType::Date64 => name.write_str("DATE"),
        DataType::Time32(_) | DataType::Time64(_) => name.write_str("TIME"),
        DataType::Timestamp(_, Some(_)) => name.write_str("TIMESTAMP WITH TIME ZONE"),
        DataType::Timestamp(TimeUnit::Second, None) => name.write_str("TIMESTAMP_S"),
        DataType::Timestamp(TimeUnit::Millisecond, None) => name.write_str("TIMESTAMP_MS"),
        DataType::Timestamp(TimeUnit::Microsecond, None) => name.write_str("TIMESTAMP"),
        DataType::Timestamp(TimeUnit::Nanosecond, None) => name.write_str("TIMESTAMP_NS"),
        DataType::Interval(_) | DataType::Duration(_) => name.write_str("INTERVAL"),
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::ListView(element)
        | DataType::LargeListView(element) => {
            write_name_of(element, name)?;
            name.write_str("[]")
        }
        DataType::FixedSizeList(element, size) => {
            write_name_of(element, name)?;
            write!(name, "[{size}]")
        }
        DataType::Struct(fields) => {
            name.write_str("STRUCT(")?;
            for (nth, field) in fields.iter().enumerate() {
                name.write_str(if nth == 0 { "" } else { ", " })?;
                write_field(field, name)?;
            }
            name.write_str(")")
        }
        DataType::Map(entries, _) => {
            name.write_str("MAP(")?;
            if let DataType::Struct(fields) = entries.data_type() {
                for (nth, field) in fields.iter().enumerate() {
                    name.write_str(if nth == 0 { "" } else { ", " })?;
                    write_name_of(field, name)?;
                }
            }
            name.write_str(")")
        }
        DataType::Dictionary(_, values) => write_name(values, name),
        DataType::RunEndEncoded(_, values) => write_name(values.data_type(), name),
        other @ DataType::Union(..) => write!(name, "{other}"),
    }
}

fn write_field(field: &Field, name: &mut String) -> std::fmt::Result {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let starts_plain = field.name().bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    match starts_plain && field.name().bytes().all(is_plain) {
        true => name.write_str(field.name())?,
        false => write!(name, "\"{}\"", field.name().replace('"', "\"\""))?,
    }
    name.write_str(" ")?;
    write_name_of(field, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_called_as_in_sql() {
        let list = |element| DataType::List(Arc::new(Field::new_list_field(element, true)));
        let fields = vec![Field::new("a", DataType::Int32, true), Field::new("B c", list(DataType::Utf8View), true)];
        let cases = [
            (DataType::Decimal128(10, 2), "DECIMAL(10,2)"),
            (DataType::Decimal128(38, 0), "HUGEINT"),
            (list(list(DataType::Int8)), "TINYINT[][]"),
            (DataType::Struct(fields.into()), "STRUCT(a INTEGER, \"B c\" VARCHAR[])"),
            (DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), "TIMESTAMP WITH TIME ZONE"),
        ];
        for (data_type, name) in cases {
            assert_eq!(sql_name(&data_type), name);
        }
    }
}
