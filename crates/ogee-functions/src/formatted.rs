//! `format` and `printf`: values in a text where that says, as the library fmt has it, which DuckDB uses.
//!
//! `format('{:>8,.2f}', x)` has what Python's formats have, and `,`, `_`, `'` or `t` and a letter before the width for what separates thousands. `printf('%8.2f', x)` has what C has,
//! with the same separators behind the flags. A value that is no number or text is written as the text that it is.
//!
//! Not here: times in formats of their own (`times::formats`).

use std::{fmt::Write, sync::Arc};

use datafusion::{
    arrow::{
        array::{
            Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float64Array, StringViewArray, StringViewBuilder,
        },
        compute::cast,
        datatypes::{DataType, Decimal128Type, Field},
    },
    common::{Result, exec_err},
    logical_expr::ScalarUDF,
};
use ogee_memory::BufferManager;

use crate::{
    arguments::{refused, texts},
    function::{Call, Function},
    nested_text::{singles, written},
    times::Zone,
};

/// The functions that statements may name; what is longer than the arguments is promised memory of `memory`.
pub fn functions(memory: &Arc<BufferManager>) -> Vec<ScalarUDF> {
    let text =
        |_: &datafusion::logical_expr::ReturnFieldArgs<'_>| Ok(Arc::new(Field::new("", DataType::Utf8View, true)));
    let functions = [
        Function::of_fields(
            FORMAT,
            |given| format_taken(FORMAT, given),
            text,
            |call| formatted(call, Style::Braces),
            memory,
        ),
        Function::of_fields(
            PRINTF,
            |given| format_taken(PRINTF, given),
            text,
            |call| formatted(call, Style::Percent),
            memory,
        ),
    ];
    functions.map(|function| function.zoned().registered()).into()
}

const FORMAT: &str = "format";
const PRINTF: &str = "printf";

/// How a format is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// `{:5d}`
    Braces,
    /// `%5d`
    Percent,
}

impl Style {
    fn name(self) -> &'static str {
        match self {
            Self::Braces => FORMAT,
            Self::Percent => PRINTF,
        }
    }
}

/// HUGEINT, which has room for all whole numbers.
const WHOLE: DataType = DataType::Decimal128(38, 0);

fn format_taken(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    let [format, values @ ..] = given else { return refused(name, given) };
    if !format.is_string() && !format.is_null() {
        return refused(name, given);
    }
    let taken = |given: &DataType| match given {
        given if given.is_string() || given.is_null() => DataType::Utf8View,
        DataType::Dictionary(_, of) if of.is_string() => DataType::Utf8View,
        given if given.is_floating() || given.is_decimal() && *given != WHOLE => DataType::Float64,
        given => given.clone(),
    };
    Ok(std::iter::once(DataType::Utf8View).chain(values.iter().map(taken)).collect())
}

/// The values of an argument.
enum Values {
    /// `limit`: two to the power of how many bits a negative one is written with where it has no sign.
    Whole(Decimal128Array, u32),
    Double(Float64Array),
    Truth(BooleanArray),
    Text(StringViewArray),
}

/// One of them.
#[derive(Clone, Copy, Debug)]
enum Value<'v> {
    Whole(i128, u32),
    Double(f64),
    Truth(bool),
    Text(&'v str),
}

impl Values {
    fn of(array: &ArrayRef, zone: &Zone) -> Result<Self> {
        Ok(match array.data_type() {
            whole if whole.is_integer() || *whole == WHOLE => {
                let bits = if whole.is_integer() { 64 } else { 128 };
                Self::Whole(cast(array, &WHOLE)?.as_primitive::<Decimal128Type>().clone(), bits)
            }
            DataType::Float64 => Self::Double(array.as_primitive().clone()),
            DataType::Boolean => Self::Truth(array.as_boolean().clone()),
            DataType::Utf8View => Self::Text(array.as_string_view().clone()),
            nested if nested.is_nested() => Self::Text(texts(&written(array, zone)?)?),
            _ => Self::Text(singles(array, zone)?),
        })
    }

    fn at(&self, row: usize) -> Option<Value<'_>> {
        match self {
            Self::Whole(values, bits) => values.is_valid(row).then(|| Value::Whole(values.value(row), *bits)),
            Self::Double(values) => values.is_valid(row).then(|| Value::Double(values.value(row))),
            Self::Truth(values) => values.is_valid(row).then(|| Value::Truth(values.value(row))),
            Self::Text(values) => values.is_valid(row).then(|| Value::Text(values.value(row))),
        }
    }
}

fn formatted(call: &mut Call<'_, '_>, style: Style) -> Result<ArrayRef> {
    let formats = texts(&call.args[0])?;
    let values = call.args[1..].iter().map(|array| Values::of(array, call.zone)).collect::<Result<Vec<_>>>()?;
    let mut texts = StringViewBuilder::with_capacity(formats.len());
    let mut parsed: Option<(&str, Vec<Piece>)> = None;
    let mut text = String::new();
    for row in 0..formats.len() {
        let of_row: Option<Vec<Value<'_>>> = values.iter().map(|values| values.at(row)).collect();
        let (true, Some(of_row)) = (formats.is_valid(row), of_row) else {
            texts.append_null();
            continue;
        };
        let format = formats.value(row);
        if parsed.as_ref().is_none_or(|(known, _)| *known != format) {
            parsed = Some((format, pieces(format, style)?));
        }
        text.clear();
        for piece in parsed.iter().flat_map(|(_, pieces)| pieces) {
            piece.write(&of_row, style, &mut text, |bytes| call.promises.add(row, bytes as u128))?;
        }
        texts.try_append_value(&text)?;
    }
    Ok(Arc::new(texts.finish()))
}

/// A part of a format.
#[derive(Debug, PartialEq)]
enum Piece {
    Text(String),
    /// The argument at this place.
    Value(usize, Spec),
}

/// Where what does not fill its width goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Align {
    Left,
    Right,
    Center,
    /// A number to the right and its sign to the left.
    Sign,
}

/// A number of a format: written out, or an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Of(usize),
    Argument(usize),
}

/// How a value is written.
#[derive(Clone, Debug, PartialEq)]
struct Spec {
    fill: char,
    align: Option<Align>,
    /// What stands before a number that is not negative.
    plus: Option<char>,
    /// With `0x` and the like.
    alternate: bool,
    separator: Option<char>,
    width: Size,
    precision: Option<Size>,
    kind: Option<char>,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            fill: ' ',
            align: None,
            plus: None,
            alternate: false,
            separator: None,
            width: Size::Of(0),
            precision: None,
            kind: None,
        }
    }
}

/// A format that is read.
struct Reader<'f> {
    rest: &'f str,
    style: Style,
    /// The next argument, where they are not numbered.
    next: usize,
    /// Whether arguments are numbered, if one was read.
    numbered: Option<bool>,
}

/// Columns that a value takes, and digits, at most. Rust writes 65,535 behind a point, some of which may be zeros that do not count.
const DIGITS_MAX: usize = 65_000;
const WIDTH_MAX: usize = i32::MAX as usize;

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self, letter: char) -> bool {
        match self.rest.strip_prefix(letter) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn take_any(&mut self, letters: &str) -> Option<char> {
        let letter = self.peek().filter(|letter| letters.contains(*letter))?;
        self.rest = &self.rest[letter.len_utf8()..];
        Some(letter)
    }

    fn number(&mut self) -> Result<Option<usize>> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Ok(None);
        }
        let (number, rest) = self.rest.split_at(digits);
        match number.parse().ok().filter(|number| *number <= WIDTH_MAX) {
            Some(number) => {
                self.rest = rest;
                Ok(Some(number))
            }
            None => exec_err!("the number {number} in the format of {} is too big", self.style.name()),
        }
    }

    /// The argument of number `number`, or the next one.
    fn argument(&mut self, number: Option<usize>) -> Result<usize> {
        if self.numbered.replace(number.is_some()).is_some_and(|before| before != number.is_some()) {
            return exec_err!(
                "the format of {} has arguments with and without numbers; number all or none",
                self.style.name()
            );
        }
        Ok(number.unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        }))
    }

    /// The character before that separates thousands.
    fn separator(&mut self) -> Option<char> {
        match self.take_any(",_'t")? {
            't' => {
                let separator = self.peek()?;
                self.rest = &self.rest[separator.len_utf8()..];
                Some(separator)
            }
            separator => Some(separator),
        }
    }

    /// A width or precision in a format with braces.
    fn size(&mut self) -> Result<Option<Size>> {
        if !self.take('{') {
            return Ok(self.number()?.map(Size::Of));
        }
        let number = self.number()?;
        let argument = self.argument(number)?;
        if !self.take('}') {
            return exec_err!("a width in the format of {} has no '}}' behind it", self.style.name());
        }
        Ok(Some(Size::Argument(argument)))
    }

    /// What is behind `{`.
    fn braces(&mut self) -> Result<Piece> {
        let number = self.number()?;
        if number.is_none() && self.peek().is_some_and(|letter| letter.is_alphabetic() || letter == '_') {
            let name: String =
                self.rest.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
            return exec_err!(
                "there is no argument named \"{name}\" for format; how a value is written stands behind ':', as in {{:{name}}}"
            );
        }
        let argument = self.argument(number)?;
        let mut spec = Spec::default();
        if self.take(':') {
            let mut letters = self.rest.chars();
            let align = |letter: Option<char>| match letter? {
                '<' => Some(Align::Left),
                '>' => Some(Align::Right),
                '^' => Some(Align::Center),
                '=' => Some(Align::Sign),
                _ => None,
            };
            let (first, second) = (letters.next(), letters.next());
            if let Some((fill, found)) = first.zip(align(second)).filter(|(fill, _)| !"{}".contains(*fill)) {
                (spec.fill, spec.align) = (fill, Some(found));
                self.rest = &self.rest[fill.len_utf8() + 1..];
            } else if let Some(found) = align(first) {
                spec.align = Some(found);
                self.rest = &self.rest[1..];
            }
            spec.plus = self.take_any("+- ").filter(|sign| *sign != '-');
            spec.alternate = self.take('#');
            spec.separator = self.separator();
            if self.take('0') {
                (spec.fill, spec.align) = ('0', Some(Align::Sign));
            }
            spec.width = self.size()?.unwrap_or(Size::Of(0));
            spec.separator = spec.separator.or_else(|| self.separator());
            if self.take('.') {
                spec.precision = self.size()?;
                if spec.precision.is_none() {
                    return exec_err!("the '.' in the format of format has no number behind it");
                }
            }
            spec.kind = self.peek().filter(|letter| !"{}".contains(*letter));
            self.rest = &self.rest[spec.kind.map_or(0, char::len_utf8)..];
        }
        if !self.take('}') {
            return exec_err!("a '{{' in the format of format has no '}}' behind it");
        }
        Ok(Piece::Value(argument, spec))
    }

    /// What is behind `%`.
    fn percent(&mut self) -> Result<Piece> {
        let before = self.rest;
        let number = match self.number()? {
            Some(number) if self.take('$') => match number.checked_sub(1) {
                Some(at) => Some(at),
                None => return exec_err!("the first argument in the format of printf is number 1"),
            },
            _ => {
                self.rest = before;
                None
            }
        };
        let mut spec = Spec { align: Some(Align::Right), ..Spec::default() };
        let mut zero = false;
        while let Some(flag) = self.take_any("-+ #0,_'") {
            match flag {
                '-' => spec.align = Some(Align::Left),
                '+' => spec.plus = Some('+'),
                ' ' => spec.plus = spec.plus.or(Some(' ')),
                '#' => spec.alternate = true,
                '0' => zero = true,
                separator => spec.separator = Some(separator),
            }
        }
        if zero && spec.align != Some(Align::Left) {
            (spec.fill, spec.align) = ('0', Some(Align::Sign));
        }
        spec.width =
            if self.take('*') { Size::Argument(self.argument(None)?) } else { Size::Of(self.number()?.unwrap_or(0)) };
        if self.take('.') {
            let precision = if self.take('*') {
                Size::Argument(self.argument(None)?)
            } else {
                Size::Of(self.number()?.unwrap_or(0))
            };
            spec.precision = Some(precision);
        }
        // How many bits C would take.
        while self.take_any("hljztL").is_some() {}
        spec.kind = self.peek();
        self.rest = &self.rest[spec.kind.map_or(0, char::len_utf8)..];
        if spec.kind.is_none() {
            return exec_err!("a '%' in the format of printf has no letter behind it; a percent sign is written %%");
        }
        Ok(Piece::Value(self.argument(number)?, spec))
    }
}

/// The parts of a format.
fn pieces(format: &str, style: Style) -> Result<Vec<Piece>> {
    let mut reader = Reader { rest: format, style, next: 0, numbered: None };
    let mut pieces = Vec::new();
    let mut text = String::new();
    while let Some(letter) = reader.peek() {
        reader.rest = &reader.rest[letter.len_utf8()..];
        let begins = match (style, letter) {
            (Style::Braces, '{') => !reader.take('{'),
            (Style::Percent, '%') => !reader.take('%'),
            (Style::Braces, '}') if !reader.take('}') => {
                return exec_err!("a '}}' in the format of format has no '{{' before it; a brace is written twice");
            }
            _ => false,
        };
        if begins {
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            pieces.push(if style == Style::Braces { reader.braces()? } else { reader.percent()? });
        } else {
            text.push(letter);
        }
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

/// A number as its sign, what stands before its digits, and those.
#[derive(Debug, Default)]
struct Number {
    sign: Option<char>,
    prefix: &'static str,
    digits: String,
}

impl Piece {
    /// Writes the piece with `values`; `grows` is told how many bytes it adds, before it does.
    fn write(
        &self,
        values: &[Value<'_>],
        style: Style,
        text: &mut String,
        mut grows: impl FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        let name = style.name();
        let (at, spec) = match self {
            Self::Text(plain) => {
                grows(plain.len())?;
                text.push_str(plain);
                return Ok(());
            }
            Self::Value(at, spec) => (*at, spec),
        };
        let value = |at: usize| match values.get(at) {
            Some(value) => Ok(*value),
            None => {
                exec_err!("{name} has {} arguments behind its format, which asks for number {}", values.len(), at + 1)
            }
        };
        let size = |size: Size| match size {
            Size::Of(size) => Ok(size),
            Size::Argument(at) => match value(at)? {
                Value::Whole(size, _) if (0..=WIDTH_MAX as i128).contains(&size) => Ok(size as usize),
                _ => exec_err!("a width in the format of {name} is a number from 0 to {WIDTH_MAX}"),
            },
        };
        let (width, precision) = (size(spec.width)?, spec.precision.map(size).transpose()?);
        if let Some(digits) = precision.filter(|digits| *digits > DIGITS_MAX) {
            return exec_err!("{name} writes {DIGITS_MAX} digits at most, not {digits}");
        }
        grows(width * spec.fill.len_utf8() + precision.unwrap_or(0))?;
        let wrong = |what: &str| match spec.kind {
            Some(kind) => exec_err!("the type '{kind}' in the format of {name} is not for {what}"),
            None => exec_err!("{name} cannot write {what} so"),
        };
        let number = match value(at)? {
            Value::Text(value) => {
                if !matches!(spec.kind, None | Some('s')) {
                    return wrong("a text; texts have 's'");
                }
                return write_text(value, spec, width, precision, text, grows);
            }
            Value::Truth(value) if matches!(spec.kind, None | Some('s')) => {
                return write_text(if value { "true" } else { "false" }, spec, width, precision, text, grows);
            }
            Value::Truth(value) => whole(i128::from(value), 64, spec, precision, style),
            Value::Whole(value, _) if style == Style::Percent && spec.kind == Some('c') => {
                let letter = u32::try_from(value).ok().and_then(char::from_u32);
                let Some(letter) = letter else {
                    return exec_err!("no letter has the number {value} that printf is to write");
                };
                let spec = Spec { fill: ' ', ..spec.clone() };
                return write_text(letter.encode_utf8(&mut [0; 4]), &spec, width, None, text, grows);
            }
            Value::Whole(value, bits) => {
                if style == Style::Braces && precision.is_some() {
                    return exec_err!("a whole number has no digits behind its point in format; cast it to DOUBLE");
                }
                whole(value, bits, spec, precision, style)
            }
            Value::Double(value) => double(value, spec, precision),
        };
        let Some(number) = number else {
            return match value(at)? {
                Value::Double(_) => wrong("a number with a point; those have 'f', 'e' or 'g'"),
                _ => wrong("a whole number; those have 'd' or 'x'"),
            };
        };
        grows(number.digits.len())?;
        let length = number.digits.chars().count() + number.prefix.len() + usize::from(number.sign.is_some());
        // There are no zeros before `inf` and `nan`.
        let is_finite = number.digits.starts_with(|letter: char| letter.is_ascii_hexdigit());
        let (fill, align) = match spec.align.unwrap_or(Align::Right) {
            Align::Sign if spec.fill == '0' && !is_finite => (' ', Align::Right),
            align => (spec.fill, align),
        };
        let fills = |count: usize, text: &mut String| text.extend(std::iter::repeat_n(fill, count));
        let left = width.saturating_sub(length);
        let (before, within, after) = match align {
            Align::Left => (0, 0, left),
            Align::Right => (left, 0, 0),
            Align::Center => (left / 2, 0, left - left / 2),
            Align::Sign => (0, left, 0),
        };
        fills(before, text);
        text.extend(number.sign);
        text.push_str(number.prefix);
        fills(within, text);
        text.push_str(&number.digits);
        fills(after, text);
        Ok(())
    }
}

fn write_text(
    value: &str,
    spec: &Spec,
    width: usize,
    precision: Option<usize>,
    text: &mut String,
    mut grows: impl FnMut(usize) -> Result<()>,
) -> Result<()> {
    let end = precision.and_then(|letters| value.char_indices().nth(letters)).map_or(value.len(), |(at, _)| at);
    let value = &value[..end];
    grows(value.len())?;
    let left = width.saturating_sub(value.chars().count());
    // There is no sign that zeros would be behind.
    let fill = if spec.align == Some(Align::Sign) { ' ' } else { spec.fill };
    let before = match spec.align.unwrap_or(Align::Left) {
        Align::Left => 0,
        Align::Right | Align::Sign => left,
        Align::Center => left / 2,
    };
    text.extend(std::iter::repeat_n(fill, before));
    text.push_str(value);
    text.extend(std::iter::repeat_n(fill, left - before));
    Ok(())
}

/// A whole number of so many bits; `None` if it has no such type.
fn whole(value: i128, bits: u32, spec: &Spec, precision: Option<usize>, style: Style) -> Option<Number> {
    let kind = spec.kind.unwrap_or('d');
    let is_unsigned = style == Style::Percent && matches!(kind, 'x' | 'X' | 'o' | 'b' | 'B' | 'u');
    let (magnitude, negative) = match is_unsigned && value < 0 {
        // In two's complement.
        true => (value.cast_unsigned() & (u128::MAX >> (128 - bits)), false),
        false => (value.unsigned_abs(), value < 0),
    };
    let (prefix, digits) = match kind {
        _ if spec.separator.is_some() && "dinuLxXoObB".contains(kind) => ("", magnitude.to_string()),
        'd' | 'n' | 'L' => ("", magnitude.to_string()),
        'i' | 'u' if style == Style::Percent => ("", magnitude.to_string()),
        'x' => ("0x", format!("{magnitude:x}")),
        'X' => ("0X", format!("{magnitude:X}")),
        'b' => ("0b", format!("{magnitude:b}")),
        'B' => ("0B", format!("{magnitude:b}")),
        'o' => ("0", format!("{magnitude:o}")),
        _ => return None,
    };
    let mut digits = grouped(&digits, spec.separator);
    if let Some(missing) = precision.and_then(|least| least.checked_sub(digits.len())) {
        digits.insert_str(0, &"0".repeat(missing));
    }
    let sign = if negative { Some('-') } else { spec.plus.filter(|_| !is_unsigned) };
    Some(Number { sign, prefix: if spec.alternate { prefix } else { "" }, digits })
}

/// `digits`, a number, with `separator` between each three before the point.
fn grouped(digits: &str, separator: Option<char>) -> String {
    let Some(separator) = separator else { return digits.to_owned() };
    let end = digits.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    let mut grouped = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (at, digit) in digits[..end].chars().enumerate() {
        if at > 0 && (end - at) % 3 == 0 {
            grouped.push(separator);
        }
        grouped.push(digit);
    }
    grouped.push_str(&digits[end..]);
    grouped
}

/// A number with a point; `None` if it has no such type.
fn double(value: f64, spec: &Spec, precision: Option<usize>) -> Option<Number> {
    let sign = if value.is_sign_negative() { Some('-') } else { spec.plus };
    let size = value.abs();
    let kind = spec.kind;
    let mut digits = match kind {
        None | Some('e' | 'E' | 'f' | 'F' | 'g' | 'G' | 'a' | 'A' | 'n' | 'L') if !size.is_finite() => {
            if size.is_nan() { "nan".to_owned() } else { "inf".to_owned() }
        }
        None | Some('n' | 'L') if precision.is_none() => shortest(size),
        None | Some('g' | 'G' | 'n' | 'L') => general(size, precision.unwrap_or(6), spec.alternate),
        Some('e' | 'E') => scientific(size, precision.unwrap_or(6)),
        Some('f' | 'F') => format!("{size:.*}", precision.unwrap_or(6)),
        Some('a' | 'A') if precision.is_none() => hexadecimal(size),
        _ => return None,
    };
    if spec.alternate && size.is_finite() && !digits.contains(['.', 'e', 'x']) {
        digits.push('.');
    }
    if size.is_finite() {
        digits = grouped(&digits, spec.separator);
    }
    if kind.is_some_and(|kind| kind.is_ascii_uppercase() && kind != 'L') {
        digits.make_ascii_uppercase();
    }
    Some(Number { sign, prefix: "", digits })
}

/// The fewest digits that are this number and no other.
fn shortest(size: f64) -> String {
    let written = format!("{size:e}");
    let (digits, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..16).contains(&exponent) {
        return with_exponent(digits, exponent);
    }
    let plain = size.to_string();
    if plain.contains('.') { plain } else { format!("{plain}.0") }
}

fn with_exponent(digits: &str, exponent: i32) -> String {
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

fn scientific(size: f64, precision: usize) -> String {
    let written = format!("{size:.precision$e}");
    let (digits, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    with_exponent(digits, exponent.parse().unwrap_or(0))
}

/// So many digits, with an exponent where there would be more.
fn general(size: f64, precision: usize, keeps_zeros: bool) -> String {
    let precision = precision.max(1);
    let written = format!("{size:.*e}", precision - 1);
    let (digits, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let without_zeros = |digits: &str| match digits.contains('.') && !keeps_zeros {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => digits.to_owned(),
    };
    if exponent < -4 || i64::from(exponent) >= precision as i64 {
        return with_exponent(&without_zeros(digits), exponent);
    }
    let behind = (precision as i64 - 1 - i64::from(exponent)).max(0) as usize;
    without_zeros(&format!("{size:.behind$}"))
}

/// As C's `%a`: a power of two and hexadecimal digits.
fn hexadecimal(size: f64) -> String {
    const FRACTION_BITS: u32 = f64::MANTISSA_DIGITS - 1;
    let bits = size.to_bits();
    let (exponent, fraction) = (bits >> FRACTION_BITS & 0x7ff, bits & ((1 << FRACTION_BITS) - 1));
    let (lead, power) = match (exponent, fraction) {
        (0, 0) => (0, 0),
        (0, _) => (0, f64::MIN_EXP - 1),
        (exponent, _) => (1, exponent as i32 - (f64::MAX_EXP - 1)),
    };
    let mut text = format!("0x{lead}");
    if fraction != 0 {
        let digits = format!("{fraction:013x}");
        write!(text, ".{}", digits.trim_end_matches('0')).expect("a text takes what is written");
    }
    write!(text, "p{power:+}").expect("a text takes what is written");
    text
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn text(style: Style, format: &str, values: &[Value<'_>]) -> Result<String> {
        let mut text = String::new();
        for piece in pieces(format, style)? {
            piece.write(values, style, &mut text, |_| Ok(()))?;
        }
        Ok(text)
    }

    #[test]
    fn braces_are_those_of_fmt() {
        let whole = |value: i128| Value::Whole(value, 64);
        for (format, value, expected) in [
            ("{:,}", whole(-1_234_567), "-1,234,567"),
            ("{:t.}", whole(1_234_567), "1.234.567"),
            ("{:05d}|", whole(-5), "-0005|"),
            ("{:*^7}|", Value::Text("ab"), "**ab***|"),
            ("{:#x} {0:X}", whole(255), ""),
            ("{:#x}", whole(255), "0xff"),
            ("{:b}", whole(-5), "-101"),
            ("{{{:>5}}}", whole(7), "{    7}"),
            ("{:,.2f}", Value::Double(1_234_567.891), "1,234,567.89"),
            ("{:08.2f}", Value::Double(-34.56), "-0034.56"),
            ("{:05}", Value::Double(f64::NEG_INFINITY), " -inf"),
            ("{:e}", Value::Double(1.5), "1.500000e+00"),
            ("{:g}", Value::Double(123_456_789.0), "1.23457e+08"),
            ("{:.3}", Value::Double(2.34567), "2.35"),
            ("{:a}", Value::Double(1.5), "0x1.8p+0"),
            ("{:a}", Value::Double(f64::from_bits(1)), "0x0.0000000000001p-1022"),
            ("{}", Value::Double(1e20), "1e+20"),
            ("{:d}", Value::Truth(true), "1"),
            ("{:.3}", Value::Text("äöüß"), "äöü"),
            ("{:é^5}", Value::Text("a"), "ééaéé"),
        ] {
            if expected.is_empty() {
                assert!(text(Style::Braces, format, &[value]).is_err(), "{format}");
            } else {
                assert_eq!(text(Style::Braces, format, &[value]).unwrap(), expected, "{format}");
            }
        }
    }

    #[test]
    fn percents_are_those_of_c() {
        let whole = |value: i128| Value::Whole(value, 64);
        for (format, value, expected) in [
            ("%5d|%%", whole(1), "    1|%"),
            ("%-5d|", whole(1), "1    |"),
            ("%05d", whole(-1), "-0001"),
            ("%x", whole(-1), "ffffffffffffffff"),
            ("%lu", whole(-5), "18446744073709551611"),
            ("%#.3x", whole(5), "0x005"),
            ("%5c|", whole(65), "    A|"),
            ("%05s|", Value::Text("c"), "    c|"),
            ("%.2s|", Value::Text("cdef"), "cd|"),
            ("%010.2f", Value::Double(1.5), "0000001.50"),
            ("%g", Value::Double(100_000.0), "100000"),
            ("%1$s%1$s", Value::Text("a"), "aa"),
        ] {
            assert_eq!(text(Style::Percent, format, &[value]).unwrap(), expected, "{format}");
        }
        for format in ["%", "%d%d", "%s", "%f", "%1$d%d", "%0$d", "%.99999d", "%99999999999d"] {
            assert!(text(Style::Percent, format, &[whole(1)]).is_err(), "{format}");
        }
        for format in ["{", "}", "{:", "{:.}", "{!r}", "{name}", "{:{}}", "{:s}"] {
            assert!(text(Style::Braces, format, &[whole(1)]).is_err(), "{format}");
        }
    }
}
