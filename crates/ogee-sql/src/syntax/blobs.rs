//! Texts that are cast to blobs: `\\xAA` is one byte, as in DuckDB.
//!
//! Not here: casts of values that are no constants, whose bytes are those of the text.

use datafusion::sql::sqlparser::ast::{DataType, Expr, Value};

/// The constant that `expr` is, if it casts a text with such bytes to a blob.
pub(super) fn in_cast(expr: &Expr) -> Option<Expr> {
    let (text, data_type) = match expr {
        Expr::Cast { expr: text, data_type, .. } => match &**text {
            Expr::Value(value) => (&value.value, data_type),
            _ => return None,
        },
        Expr::TypedString(typed) => (&typed.value.value, &typed.data_type),
        _ => return None,
    };
    let is_blob = matches!(
        data_type,
        DataType::Blob(_) | DataType::Bytea | DataType::Binary(_) | DataType::Varbinary(_) | DataType::Bytes(_)
    );
    let Value::SingleQuotedString(text) = text else { return None };
    if !is_blob || !text.contains("\\x") {
        return None;
    }
    let mut hex = String::with_capacity(2 * text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        rest = match rest {
            [b'\\', b'x' | b'X', high, low, behind @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                hex.extend([char::from(*high), char::from(*low)]);
                behind
            }
            _ => {
                hex.push_str(&format!("{first:02x}"));
                behind
            }
        };
    }
    Some(Expr::value(Value::HexStringLiteral(hex)))
}
