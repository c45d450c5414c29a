//! JSON as DuckDB writes it: without blanks, numbers and escapes in one form whatever they were read in.
//!
//! Whole numbers and those that no double holds stay as they are. Others have the shortest digits that are read back as the same double, and a point or an exponent.
//!
//! Not here: values of SQL (`building`).

use std::fmt::Write;

use super::reading::{Kind, Place, unescaped};

/// Writes `text` with quotes around it.
pub(super) fn write_text(text: &str, out: &mut String) {
    out.push('"');
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0x08 => "\\b",
            0x0c => "\\f",
            ..b' ' => "",
            _ => continue,
        };
        out.push_str(&text[from..at]);
        from = at + 1;
        match escape {
            "" => out.push_str(&format!("\\u{byte:04X}")),
            escape => out.push_str(escape),
        }
    }
    out.push_str(&text[from..]);
    out.push('"');
}

/// Writes the text that is written `raw`, without its quotes, again.
fn write_raw_text(raw: &str, out: &mut String) {
    if raw.contains('\\') {
        return write_text(&unescaped(raw), out);
    }
    out.push('"');
    out.push_str(raw);
    out.push('"');
}

/// An object that is written member by member.
pub(super) struct Members<'o> {
    out: &'o mut String,
    is_empty: bool,
}

impl<'o> Members<'o> {
    pub(super) fn begin(out: &'o mut String) -> Self {
        out.push('{');
        Self { out, is_empty: true }
    }

    /// Writes the key that is written `raw`, and gives where its value goes.
    pub(super) fn key(&mut self, raw: &str) -> &mut String {
        self.out.push_str(if std::mem::take(&mut self.is_empty) { "" } else { "," });
        write_raw_text(raw, self.out);
        self.out.push(':');
        self.out
    }

    pub(super) fn end(self) {
        self.out.push('}');
    }
}

/// Writes the value that begins at `place`.
pub(super) fn write_value(place: Place<'_>, out: &mut String) {
    write_all(place, None, out);
}

/// Writes the value that begins at `place` over several lines.
pub(super) fn write_pretty(place: Place<'_>, out: &mut String) {
    write_all(place, Some(0), out);
}

/// `indent`: blanks before lines, if there are lines.
fn write_all(mut place: Place<'_>, mut indent: Option<usize>, out: &mut String) {
    // Of each list or object that is open, whether it is an object, and has a value.
    let mut open: Vec<(bool, bool)> = Vec::new();
    let line = |indent: Option<usize>, out: &mut String| {
        if let Some(indent) = indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
        }
    };
    loop {
        match place.kind() {
            kind @ (Kind::List | Kind::Object) => {
                let is_object = kind == Kind::Object;
                out.push(if is_object { '{' } else { '[' });
                place.enter();
                open.push((is_object, false));
                indent = indent.map(|indent| indent + 4);
            }
            Kind::Text => {
                let raw = place.skip();
                write_raw_text(&raw[1..raw.len() - 1], out);
            }
            Kind::Null | Kind::Boolean => out.push_str(place.skip()),
            Kind::Whole | Kind::Negative | Kind::Real => write_number(place.skip(), out),
        }
        loop {
            let Some((is_object, has_value)) = open.last_mut() else { return };
            if place.next() {
                if std::mem::replace(has_value, true) {
                    out.push(',');
                }
                let is_object = *is_object;
                line(indent, out);
                if is_object {
                    write_raw_text(place.key(), out);
                    out.push_str(if indent.is_some() { ": " } else { ":" });
                }
                break;
            }
            let (is_object, has_value) = (*is_object, *has_value);
            open.pop();
            indent = indent.map(|indent| indent - 4);
            if has_value {
                line(indent, out);
            }
            out.push(if is_object { '}' } else { ']' });
        }
    }
}

/// Writes the number that is written `raw`.
pub(super) fn write_number(raw: &str, out: &mut String) {
    if Kind::of_number(raw) != Kind::Real || raw.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
        return out.push_str(if raw == "-0" { "0" } else { raw });
    }
    match raw.parse::<f64>() {
        Ok(number) if number.is_finite() => write_double(number, out),
        _ => out.push_str(raw),
    }
}

/// Digits before the point of a number that is written without an exponent, at most.
const WHOLE_DIGITS_MAX: i32 = 21;
/// Zeros behind the point of such a number, at most.
const ZEROS_MAX: i32 = 5;

/// Writes `number` with a point, or an exponent where it is large or small.
pub(super) fn write_double(number: f64, out: &mut String) {
    if !number.is_finite() {
        return out.push_str(match (number.is_nan(), number > 0.0) {
            (true, _) => "NaN",
            (false, true) => "Infinity",
            (false, false) => "-Infinity",
        });
    }
    if number.is_sign_negative() {
        out.push('-');
    }
    let shortest = format!("{:e}", number.abs());
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let digits = digits.replace('.', "");
    let exponent: i32 = exponent.parse().unwrap_or_default();
    // The point is behind so many of the digits.
    let point = exponent + 1;
    let count = digits.len() as i32;
    if !(-ZEROS_MAX..=WHOLE_DIGITS_MAX).contains(&point) {
        out.push_str(&digits[..1]);
        if count > 1 {
            out.push('.');
            out.push_str(&digits[1..]);
        }
        write!(out, "e{exponent}").expect("a text takes what is written");
    } else if point <= 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', point.unsigned_abs() as usize));
        out.push_str(&digits);
    } else if point >= count {
        out.push_str(&digits);
        out.extend(std::iter::repeat_n('0', (point - count) as usize));
        out.push_str(".0");
    } else {
        let (whole, fraction) = digits.split_at(point as usize);
        out.push_str(whole);
        out.push('.');
        out.push_str(fraction);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> String {
        let mut out = String::new();
        write_value(Place::of_checked(text), &mut out);
        out
    }

    #[test]
    fn numbers_are_written_as_in_duckdb() {
        for (text, expected) in [
            ("-0", "0"),
            ("-0.0", "-0.0"),
            ("1e21", "1e21"),
            ("1e20", "100000000000000000000.0"),
            ("1.5e-7", "1.5e-7"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1e-7"),
            ("1.0E+2", "100.0"),
            ("12345678901234567890.5", "12345678901234567000.0"),
            ("nan", "nan"),
            ("-Infinity", "-Infinity"),
            ("5e-324", "5e-324"),
            ("1.7976931348623157e308", "1.7976931348623157e308"),
            ("-1e400", "-1e400"),
            ("123.456e5", "12345600.0"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("1.50", "1.5"),
        ] {
            assert_eq!(written(text), expected);
        }
    }

    #[test]
    fn values_are_written_in_one_form() {
        assert_eq!(
            written(" [1 , {\"a\" : [ ] , \"\\u0062\":\"\\/\\u001f\" , } ,] "),
            "[1,{\"a\":[],\"b\":\"/\\u001F\"}]"
        );
        let mut out = String::new();
        write_pretty(Place::of_checked("{\"a\":[1,{\"b\":2}],\"c\":{},\"d\":[]}"), &mut out);
        let expected = "{\n    \"a\": [\n        1,\n        {\n            \"b\": 2\n        }\n    ],\n    \"c\": {},\n    \"d\": []\n}";
        assert_eq!(out, expected);
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(written(&deep), deep);
    }
}
