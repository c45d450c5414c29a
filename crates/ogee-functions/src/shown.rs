//! Numbers as people read them: sizes in units, bars.
//!
//! Not here: formats that users give.

use std::{fmt::Write, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, StringViewBuilder, UInt64Array},
        datatypes::DataType,
    },
    common::{Result, exec_err},
    logical_expr::ScalarUDF,
};
use ogee_memory::BufferManager;

use crate::{
    arguments::{Argument, doubles, taken, texts, wholes},
    function::Function,
    growing::Promises,
};

/// The functions that statements may name; bars are promised memory of `memory`.
pub fn functions(memory: &Arc<BufferManager>) -> Vec<ScalarUDF> {
    let functions = [
        Function::of(
            "format_bytes",
            |given| taken("format_bytes", &[Argument::Whole], 0, given),
            |_| Ok(DataType::Utf8View),
            |args, _| sizes(&args[0], 1024, ["KiB", "MiB", "GiB", "TiB", "PiB"]),
        )
        .also(&["formatreadablesize", "pg_size_pretty"]),
        Function::of(
            "formatreadabledecimalsize",
            |given| taken("formatreadabledecimalsize", &[Argument::Whole], 0, given),
            |_| Ok(DataType::Utf8View),
            |args, _| sizes(&args[0], 1000, ["kB", "MB", "GB", "TB", "PB"]),
        ),
        Function::of(
            PARSE_BYTES,
            |given| taken(PARSE_BYTES, &[Argument::Text], 0, given),
            |_| Ok(DataType::UInt64),
            |args, _| {
                let texts = texts(&args[0])?;
                let bytes = texts.iter().map(|text| text.map(parse_bytes).transpose());
                Ok(Arc::new(bytes.collect::<Result<UInt64Array>>()?))
            },
        ),
        Function::growing(
            "bar",
            |given| taken("bar", &[Argument::Double; 4], 1, given),
            |_| Ok(DataType::Utf8View),
            bars,
            memory,
        ),
    ];
    functions.into_iter().map(Function::registered).collect()
}

/// Bytes with one digit after the point, further ones cut off, in the largest unit of which there is one.
fn sizes(array: &ArrayRef, each: u64, units: [&str; 5]) -> Result<ArrayRef> {
    let values = wholes(array)?;
    let mut texts = StringViewBuilder::with_capacity(values.len());
    for value in &values {
        let Some(value) = value else {
            texts.append_null();
            continue;
        };
        let sign = if value < 0 { "-" } else { "" };
        let bytes = value.unsigned_abs();
        // Of the unit before the one that is shown there are so many.
        let (mut smaller, mut shown) = (bytes, None);
        for unit in units {
            if shown.is_some() {
                smaller /= each;
            }
            if smaller < each {
                break;
            }
            shown = Some(unit);
            if smaller / each < each {
                break;
            }
        }
        texts.append_value(match shown {
            Some(unit) => format!("{sign}{}.{} {unit}", smaller / each, smaller % each * 10 / each),
            None if bytes == 1 => format!("{sign}1 byte"),
            None => format!("{sign}{bytes} bytes"),
        });
    }
    Ok(Arc::new(texts.finish()))
}

const PARSE_BYTES: &str = "parse_formatted_bytes";

/// The bytes that a number and a unit are: `1.5 GB`, `16 KiB`.
fn parse_bytes(text: &str) -> Result<u64> {
    let text = text.trim();
    let is_exponent = |at: usize| {
        let rest = text[at + 1..].trim_start_matches(['+', '-']);
        rest.starts_with(|letter: char| letter.is_ascii_digit())
    };
    let is_number = |at: usize, letter: char| match letter {
        '0'..='9' | '.' | '+' | '-' => true,
        'e' | 'E' => at > 0 && is_exponent(at),
        _ => false,
    };
    let end = text.char_indices().find(|(at, letter)| !is_number(*at, *letter)).map_or(text.len(), |(at, _)| at);
    let Ok(number) = text[..end].parse::<f64>() else {
        return exec_err!("{PARSE_BYTES} takes a number and a unit, as in '1.5 GB', not '{text}'");
    };
    if number < 0.0 {
        return exec_err!("{PARSE_BYTES} takes no negative size, as '{text}' is");
    }
    let unit = text[end..].trim().to_ascii_lowercase();
    let each: u64 = match unit.as_str() {
        "b" | "byte" | "bytes" => 1,
        "k" | "kb" | "kilobyte" | "kilobytes" => 1000,
        "m" | "mb" | "megabyte" | "megabytes" => 1000_u64.pow(2),
        "g" | "gb" | "gigabyte" | "gigabytes" => 1000_u64.pow(3),
        "t" | "tb" | "terabyte" | "terabytes" => 1000_u64.pow(4),
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => {
            return exec_err!(
                "{PARSE_BYTES} knows no unit '{unit}'; units are B, KB, MB, GB, TB of 1000 and KiB, MiB, GiB, TiB of 1024"
            );
        }
    };
    let bytes = number * each as f64;
    if bytes >= u64::MAX as f64 {
        return exec_err!("'{text}' is more than {PARSE_BYTES} has a number for");
    }
    Ok(bytes as u64)
}

/// Columns of a bar, if none are asked for.
const WIDTH: f64 = 80.0;
/// Columns of a bar, at most.
const WIDTH_MAX: f64 = 1000.0;

/// `bar(value, least, most, width)`.
fn bars(args: &[ArrayRef], promises: &mut Promises<'_>) -> Result<ArrayRef> {
    let columns = args.iter().map(doubles).collect::<Result<Vec<_>>>()?;
    let mut texts = StringViewBuilder::with_capacity(args[0].len());
    let mut text = String::new();
    for row in 0..args[0].len() {
        if columns.iter().any(|column| column.is_null(row)) {
            texts.append_null();
            continue;
        }
        let at = |column: usize| columns[column].value(row);
        let width = if columns.len() > 3 { at(3) } else { WIDTH };
        text.clear();
        write_bar(at(0), at(1), at(2), width, &mut text)?;
        promises.add(row, text.len() as u128)?;
        texts.append_value(&text);
    }
    Ok(Arc::new(texts.finish()))
}

fn write_bar(value: f64, least: f64, most: f64, width: f64, text: &mut String) -> Result<()> {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    if !(1.0..=WIDTH_MAX).contains(&width) {
        return exec_err!("the width of a bar is from 1 to {WIDTH_MAX}, not {width}");
    }
    let filled = if value.is_nan() || least.is_nan() || most.is_nan() || value <= least {
        0.0
    } else if value >= most {
        width
    } else {
        width * (value - least) / (most - least)
    };
    if !filled.is_finite() {
        return exec_err!("a bar from {least} to {most} has no length");
    }
    let eighths = (filled * 8.0) as usize;
    (0..eighths / 8).for_each(|_| text.push('█'));
    if !eighths.is_multiple_of(8) {
        text.push(EIGHTHS[eighths % 8]);
    }
    let left = (width as usize).saturating_sub(eighths.div_ceil(8));
    write!(text, "{:left$}", "")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_eighths() -> Result<()> {
        for ((value, least, most, width), expected) in [
            ((5.0, 0.0, 20.0, 10.0), "██▌       "),
            ((f64::NAN, 0.0, 10.0, 5.0), "     "),
            ((5.0, 0.0, 10.0, 5.5), "██▊  "),
            ((5.0, 10.0, 0.0, 5.0), "     "),
        ] {
            let mut text = String::new();
            write_bar(value, least, most, width, &mut text)?;
            assert_eq!(text, expected);
        }
        Ok(())
    }
}
