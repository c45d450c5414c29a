//! The types of statements, as DuckDB names them: which type of Arrow's each is, and what is said of those that there are not.
//!
//! Names of struct fields are kept. Types that follow the zone of the session would change with it, while tables outlive it: instants are in UTC.
//!
//! Not here: names that statements give to types (`named_types`), and the parser's words (`syntax`).

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{DataType, Field, FieldRef, Fields, IntervalUnit, TimeUnit},
    common::{DataFusionError, Result, not_impl_err, plan_err},
    logical_expr::planner::TypePlanner,
    sql::sqlparser::ast::{
        ArrayElemTypeDef, DataType as SqlType, EnumMember, ExactNumberInfo, ObjectName, StructField, TimezoneInfo,
    },
};
use ogee_functions::{
    marks::{Mark, enum_field},
    numbers::HUGEINT,
};

use crate::syntax::created::UNTYPED;

/// Plans types before DataFusion does.
#[derive(Debug, Default)]
pub(crate) struct Types;

impl TypePlanner for Types {
    fn plan_type_field(&self, sql_type: &SqlType) -> Result<Option<FieldRef>> {
        match sql_type {
            SqlType::Custom(name, _) if name.to_string() == UNTYPED => Ok(None),
            sql_type => field_of(sql_type).map(|field| Some(Arc::new(field))),
        }
    }
}

/// # Errors
/// If there is no such type.
pub(crate) fn check(sql_type: &SqlType) -> Result<()> {
    field_of(sql_type).map(|_| ())
}

/// A field of values of type `sql_type`. Types are no deeper than statements are.
fn field_of(sql_type: &SqlType) -> Result<Field> {
    use SqlType as S;
    let plain = match sql_type {
        S::Boolean | S::Bool => DataType::Boolean,
        S::TinyInt(_) => DataType::Int8,
        S::SmallInt(_) | S::Int2(_) | S::Int16 => DataType::Int16,
        S::Int(_) | S::Integer(_) | S::Int4(_) | S::Int32 | S::Signed | S::SignedInteger => DataType::Int32,
        S::BigInt(_) | S::Int8(_) | S::Int64 => DataType::Int64,
        S::TinyIntUnsigned(_) | S::UTinyInt | S::UInt8 => DataType::UInt8,
        S::SmallIntUnsigned(_) | S::Int2Unsigned(_) | S::USmallInt | S::UInt16 => DataType::UInt16,
        S::IntUnsigned(_)
        | S::IntegerUnsigned(_)
        | S::Int4Unsigned(_)
        | S::UInt32
        | S::Unsigned
        | S::UnsignedInteger => DataType::UInt32,
        S::BigIntUnsigned(_) | S::Int8Unsigned(_) | S::UBigInt | S::UInt64 => DataType::UInt64,
        S::HugeInt | S::Int128 => HUGEINT,
        S::UHugeInt | S::UInt128 => {
            return not_impl_err!("UHUGEINT is not supported; HUGEINT has 38 digits, and VARCHAR any number of them");
        }
        S::Float(ExactNumberInfo::Precision(25..)) => DataType::Float64,
        S::Float(_) | S::Real | S::Float4 | S::Float32 => DataType::Float32,
        S::Double(ExactNumberInfo::None) | S::DoublePrecision | S::Float8 | S::Float64 => DataType::Float64,
        S::Numeric(digits) | S::Decimal(digits) | S::Dec(digits) => decimal(*digits)?,
        S::Varchar(_)
        | S::Nvarchar(_)
        | S::Char(_)
        | S::Character(_)
        | S::CharacterVarying(_)
        | S::CharVarying(_)
        | S::Text
        | S::String(_) => DataType::Utf8View,
        S::Bytea | S::Blob(_) | S::Binary(_) | S::Varbinary(_) | S::Bytes(_) => DataType::Binary,
        S::Date => DataType::Date32,
        S::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => DataType::Time64(TimeUnit::Nanosecond),
        S::Time(..) => {
            return not_impl_err!(
                "TIME WITH TIME ZONE is not supported; use TIMESTAMPTZ, or TIME and the offset as an INTERVAL"
            );
        }
        S::Timestamp(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            DataType::Timestamp(unit(*digits)?, None)
        }
        S::Timestamp(digits, _) => DataType::Timestamp(unit(*digits)?, Some("UTC".into())),
        S::Datetime(digits) => DataType::Timestamp(unit(*digits)?, None),
        S::Interval { fields: None, precision: None } => DataType::Interval(IntervalUnit::MonthDayNano),
        S::JSON | S::JSONB => return Ok(Mark::Json.field("")),
        S::Uuid => return Ok(Mark::Uuid.field("")),
        S::Bit(_) | S::BitVarying(_) | S::VarBit(_) => return Ok(Mark::Bit.field("")),
        S::Enum(members, _) => return enumeration(members),
        S::Array(
            ArrayElemTypeDef::AngleBracket(of)
            | ArrayElemTypeDef::SquareBracket(of, None)
            | ArrayElemTypeDef::Parenthesis(of),
        ) => DataType::List(element(of)?),
        S::Array(ArrayElemTypeDef::SquareBracket(of, Some(length))) => match i32::try_from(*length) {
            Ok(length @ 1..=100_000) => DataType::FixedSizeList(element(of)?, length),
            _ => return plan_err!("an array has from 1 to 100000 elements, not {length}"),
        },
        S::Array(ArrayElemTypeDef::None) => return plan_err!("a list has a type of its elements, as in INTEGER[]"),
        S::Struct(fields, _) | S::Tuple(fields) => structure(fields)?,
        S::Map(key, value) => {
            let key = field_of(key)?.with_name("key").with_nullable(false);
            let value = field_of(value)?.with_name("value");
            let entries = Field::new("entries", DataType::Struct(Fields::from(vec![key, value])), false);
            DataType::Map(Arc::new(entries), false)
        }
        S::Union(_) => {
            return not_impl_err!("UNION types are not supported; use a STRUCT with a field for each, or JSON");
        }
        S::Custom(name, arguments) => return named(name, arguments),
        other => return not_impl_err!("there is no type {other}"),
    };
    Ok(Field::new("", plain, true))
}

/// Types that the parser does not know.
fn named(name: &ObjectName, arguments: &[String]) -> Result<Field> {
    let upper = name.to_string().to_ascii_uppercase();
    let plain = match upper.as_str() {
        "INT1" => DataType::Int8,
        "SHORT" => DataType::Int16,
        "INTEGRAL" | "SIGNED" => DataType::Int32,
        "LONG" | "OID" => DataType::Int64,
        "UINTEGER" => DataType::UInt32,
        "LOGICAL" => DataType::Boolean,
        "BPCHAR" | "NCHAR" | "NVARCHAR" | "TEXT" | "STRING" | "VARCHAR" => DataType::Utf8View,
        "TIMESTAMP_S" => DataType::Timestamp(TimeUnit::Second, None),
        "TIMESTAMP_MS" => DataType::Timestamp(TimeUnit::Millisecond, None),
        "TIMESTAMP_US" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "TIMESTAMP_NS" => DataType::Timestamp(TimeUnit::Nanosecond, None),
        "GUID" => return Ok(Mark::Uuid.field("")),
        "BITSTRING" => return Ok(Mark::Bit.field("")),
        "BIGNUM" | "VARINT" => {
            return not_impl_err!("{upper} is not supported; HUGEINT has 38 digits, and VARCHAR any number of them");
        }
        "TIME_NS" => return not_impl_err!("TIME_NS is not supported; TIME has nanoseconds"),
        "VARIANT" => return not_impl_err!("VARIANT is not supported; use JSON"),
        "ENUM" => return plan_err!("an ENUM has texts for its values, as in ENUM('a', 'b')"),
        _ if arguments.is_empty() => return plan_err!("there is no type '{name}'"),
        _ => return plan_err!("there is no type '{name}({})'", arguments.join(", ")),
    };
    Ok(Field::new("", plain, true))
}

fn element(of: &SqlType) -> Result<FieldRef> {
    Ok(Arc::new(field_of(of)?.with_name(Field::LIST_FIELD_DEFAULT_NAME)))
}

fn structure(fields: &[StructField]) -> Result<DataType> {
    let mut names: Vec<String> = Vec::with_capacity(fields.len());
    let mut typed = Vec::with_capacity(fields.len());
    for (nth, field) in fields.iter().enumerate() {
        let name = field.field_name.as_ref().map_or_else(|| format!("c{nth}"), |name| name.value.clone());
        if names.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
            return plan_err!("a STRUCT has two fields \"{name}\"");
        }
        typed.push(field_of(&field.field_type)?.with_name(name.as_str()));
        names.push(name);
    }
    match typed.is_empty() {
        true => plan_err!("a STRUCT has fields, as in STRUCT(a INTEGER)"),
        false => Ok(DataType::Struct(typed.into())),
    }
}

fn enumeration(members: &[EnumMember]) -> Result<Field> {
    let mut values: Vec<String> = Vec::with_capacity(members.len());
    let mut met = std::collections::HashSet::new();
    for member in members {
        let EnumMember::Name(value) = member else { return plan_err!("values of an ENUM are texts") };
        if !met.insert(value) {
            return plan_err!("an ENUM has '{value}' twice");
        }
        if value.contains('\0') {
            return plan_err!("a value of an ENUM has a character of code 0");
        }
        values.push(value.clone());
    }
    Ok(enum_field(&values))
}

fn decimal(digits: ExactNumberInfo) -> Result<DataType> {
    let (precision, scale) = match digits {
        ExactNumberInfo::None => (18, 3),
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    let none = || -> Result<DataType> {
        plan_err!(
            "DECIMAL({precision}, {scale}): a decimal has from 1 to 76 digits, and no more of them behind the point"
        )
    };
    let (Ok(precision), Ok(scale)) = (u8::try_from(precision), i8::try_from(scale)) else { return none() };
    match precision {
        _ if scale < 0 || scale as u8 > precision => none(),
        1..=38 => Ok(DataType::Decimal128(precision, scale)),
        39..=76 => Ok(DataType::Decimal256(precision, scale)),
        _ => none(),
    }
}

/// The unit of timestamps with so many digits of a second.
fn unit(digits: Option<u64>) -> Result<TimeUnit> {
    Ok(match digits {
        Some(0) => TimeUnit::Second,
        Some(1..=3) => TimeUnit::Millisecond,
        None | Some(4..=6) => TimeUnit::Microsecond,
        Some(7..=9) => TimeUnit::Nanosecond,
        Some(more) => {
            let message = format!("a timestamp has at most 9 digits of a second, not {more}");
            return Err(DataFusionError::Plan(message));
        }
    })
}
