//! The text of JSON as values that point into it.
//!
//! Numbers stay the digits they were written with, keys their order; a key that comes twice is an error.
//!
//! Not here: types of columns.

use std::borrow::Cow;

/// Arrays and objects within each other; more would use up the stack.
const DEPTH_MAX: usize = 128;

/// A value.
#[derive(Debug)]
pub(super) enum Value<'a> {
    Null,
    Boolean(bool),
    /// As it is written.
    Number(&'a str),
    Text(Cow<'a, str>),
    List(Vec<Item<'a>>),
    Object(Vec<(Cow<'a, str>, Item<'a>)>),
}

/// A value and its text.
#[derive(Debug)]
pub(super) struct Item<'a> {
    pub(super) value: Value<'a>,
    pub(super) text: &'a [u8],
}

/// Why there is no value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The text ends before it does.
    More,
    /// What is wrong, and how many bytes before the end of the text.
    Wrong(String, usize),
    /// Its parts take more memory than they may.
    Large,
}

pub(super) type Parsed<T> = Result<T, Failure>;

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    /// Bytes that the parts of the value may still take.
    left: usize,
}

/// The value at the front of `text`, and its bytes with the blanks before it. A number at the end of `text` may go on
/// unless that `is_last`. Its parts, which are not in the text, take `most` bytes at most.
pub(super) fn parse(text: &[u8], is_last: bool, most: usize) -> Parsed<(Item<'_>, usize)> {
    let mut parser = Parser { text, at: 0, left: most };
    let item = parser.item(0)?;
    let is_open = matches!(item.value, Value::Number(_)) && parser.at == text.len() && !is_last;
    if is_open { Err(Failure::More) } else { Ok((item, parser.at)) }
}

impl<'a> Parser<'a> {
    fn wrong<T>(&self, what: impl Into<String>) -> Parsed<T> {
        Err(Failure::Wrong(what.into(), self.text.len() - self.at.min(self.text.len())))
    }

    /// Takes memory for a part.
    fn take(&mut self, bytes: usize) -> Parsed<()> {
        self.left = self.left.checked_sub(bytes).ok_or(Failure::Large)?;
        Ok(())
    }

    fn peek(&mut self) -> Parsed<u8> {
        self.at += self.text[self.at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.text.get(self.at).copied().ok_or(Failure::More)
    }

    fn item(&mut self, depth: usize) -> Parsed<Item<'a>> {
        let first = self.peek()?;
        let begin = self.at;
        if depth > DEPTH_MAX {
            return self.wrong(format!("more than {DEPTH_MAX} values within each other"));
        }
        let value = match first {
            b'{' => self.object(depth)?,
            b'[' => self.list(depth)?,
            b'"' => Value::Text(self.string()?),
            b'-' | b'0'..=b'9' => self.number()?,
            b't' => self.word("true", Value::Boolean(true))?,
            b'f' => self.word("false", Value::Boolean(false))?,
            b'n' => self.word("null", Value::Null)?,
            _ => return self.wrong("no JSON value"),
        };
        Ok(Item { value, text: &self.text[begin..self.at] })
    }

    fn word(&mut self, word: &str, value: Value<'a>) -> Parsed<Value<'a>> {
        let rest = &self.text[self.at..];
        if rest.starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(value);
        }
        if word.as_bytes().starts_with(rest) { Err(Failure::More) } else { self.wrong("no JSON value") }
    }

    fn number(&mut self) -> Parsed<Value<'a>> {
        let rest = &self.text[self.at..];
        let is_of = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = rest.iter().take_while(|byte| is_of(byte)).count();
        let text = std::str::from_utf8(&rest[..length]).unwrap_or_default();
        if !is_number(text.as_bytes()) {
            let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
            let has_zeros = matches!(digits, [b'0', second, ..] if second.is_ascii_digit());
            if length == rest.len() && !has_zeros {
                return Err(Failure::More);
            }
            return self.wrong("no JSON number");
        }
        self.at += length;
        Ok(Value::Number(text))
    }

    fn string(&mut self) -> Parsed<Cow<'a, str>> {
        let begin = self.at + 1;
        let mut at = begin;
        let mut text: Option<Vec<u8>> = None;
        loop {
            let rest = &self.text[at.min(self.text.len())..];
            let length = memchr::memchr2(b'"', b'\\', rest).ok_or(Failure::More)?;
            if let Some(text) = &mut text {
                self.take(2 * length)?;
                text.extend_from_slice(&rest[..length]);
            }
            at += length;
            if self.text[at] == b'"' {
                let bytes = match text {
                    None => Cow::Borrowed(&self.text[begin..at]),
                    Some(text) => Cow::Owned(text),
                };
                let text = match bytes {
                    Cow::Borrowed(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
                    Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
                };
                let Some(text) = text else { return self.wrong("a text that is not UTF-8") };
                self.at = at + 1;
                return Ok(text);
            }
            if text.is_none() {
                self.take(2 * (at - begin))?;
            }
            // What stands for a character.
            self.take(2 * 4)?;
            let text = text.get_or_insert_with(|| self.text[begin..at].to_vec());
            let escaped = *self.text.get(at + 1).ok_or(Failure::More)?;
            at += 2;
            let plain = match escaped {
                b'"' | b'\\' | b'/' => escaped,
                b'b' => 8,
                b'f' => 12,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'u' => {
                    let Some((character, length)) = unicode(&self.text[at..])? else {
                        return self.wrong("no character of Unicode");
                    };
                    let mut bytes = [0; 4];
                    text.extend_from_slice(character.encode_utf8(&mut bytes).as_bytes());
                    at += length;
                    continue;
                }
                _ => return self.wrong("a backslash before what it does not escape"),
            };
            text.push(plain);
        }
    }

    fn list(&mut self, depth: usize) -> Parsed<Value<'a>> {
        self.at += 1;
        let mut items = Vec::new();
        if self.peek()? == b']' {
            self.at += 1;
            return Ok(Value::List(items));
        }
        loop {
            // A vector that grows is there twice.
            self.take(2 * size_of::<Item<'_>>())?;
            items.push(self.item(depth + 1)?);
            match self.peek()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Ok(Value::List(items));
                }
                _ => return self.wrong("neither comma nor bracket after an item of a list"),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Parsed<Value<'a>> {
        self.at += 1;
        let mut fields: Vec<(Cow<'a, str>, Item<'a>)> = Vec::new();
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(Value::Object(fields));
        }
        loop {
            if self.peek()? != b'"' {
                return self.wrong("no key in an object");
            }
            let key = self.string()?;
            if self.peek()? != b':' {
                return self.wrong("no colon after a key");
            }
            self.at += 1;
            self.take(2 * size_of::<(Cow<'_, str>, Item<'_>)>())?;
            let item = self.item(depth + 1)?;
            fields.push((key, item));
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    if let Some(key) = repeated(&fields) {
                        return self.wrong(format!("key \"{key}\" twice in an object"));
                    }
                    return Ok(Value::Object(fields));
                }
                _ => return self.wrong("neither comma nor brace after a value"),
            }
        }
    }
}

/// Whether `text`, which has nothing else in it than numbers may have, is one.
#[inline]
pub(super) fn is_number(text: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(unsigned);
    if whole == 0 || whole > 1 && unsigned[0] == b'0' {
        return false;
    }
    let mut rest = &unsigned[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let count = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = &fraction[count..];
    }
    match rest {
        [] => true,
        [b'e' | b'E', exponent @ ..] => {
            let exponent = exponent.strip_prefix(b"-").or(exponent.strip_prefix(b"+")).unwrap_or(exponent);
            !exponent.is_empty() && digits(exponent) == exponent.len()
        }
        _ => false,
    }
}

/// A key that comes twice.
fn repeated<'k>(fields: &'k [(Cow<'_, str>, Item<'_>)]) -> Option<&'k str> {
    if fields.len() <= 16 {
        let is_again = |(number, (key, _)): &(usize, &(Cow<'_, str>, Item<'_>))| {
            fields[..*number].iter().any(|(other, _)| other == key)
        };
        return fields.iter().enumerate().find(is_again).map(|(_, (key, _))| key.as_ref());
    }
    let mut seen = std::collections::HashSet::with_capacity(fields.len());
    fields.iter().find(|(key, _)| !seen.insert(key.as_ref())).map(|(key, _)| key.as_ref())
}

/// The character that the digits behind `\u` stand for, and how many bytes they are; `None` if there is none.
fn unicode(text: &[u8]) -> Parsed<Option<(char, usize)>> {
    let unit = |text: &[u8]| -> Parsed<Option<u32>> {
        let digits = text.get(..4).ok_or(Failure::More)?;
        let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
        let digits = std::str::from_utf8(digits).ok().filter(|_| is_hex);
        Ok(digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()))
    };
    let Some(first) = unit(text)? else { return Ok(None) };
    if !(0xd800..0xdc00).contains(&first) {
        return Ok(char::from_u32(first).map(|character| (character, 4)));
    }
    // The first half of a pair.
    if text.len() < 6 {
        return Err(Failure::More);
    }
    if &text[4..6] != b"\\u" {
        return Ok(None);
    }
    let Some(second) = unit(&text[6..])? else { return Ok(None) };
    if !(0xdc00..0xe000).contains(&second) {
        return Ok(None);
    }
    let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    Ok(char::from_u32(code).map(|character| (character, 10)))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn values_are_as_written() {
        let text = br#" {"a": [1, -2.5e3, 12345678901234567890], "b\u00e9\ud83d\ude00": "x\ny"} {"#;
        let (item, length) = parse(text, true, usize::MAX).unwrap();
        assert_eq!(&text[length..], b" {");
        let Value::Object(fields) = item.value else { panic!("an object") };
        assert_eq!(fields[1].0, "bé😀");
        assert!(matches!(&fields[1].1.value, Value::Text(text) if text == "x\ny"));
        let Value::List(items) = &fields[0].1.value else { panic!("a list") };
        assert!(matches!(items[2].value, Value::Number("12345678901234567890")));
        assert_eq!(fields[0].1.text, b"[1, -2.5e3, 12345678901234567890]");
    }

    #[test]
    fn a_text_that_ends_early_is_asked_for_more() {
        let text = br#"{"a": [true, null, "x\u00e9\"", 1.5e-3], "b": {}}"#;
        for end in 0..text.len() {
            assert!(matches!(parse(&text[..end], false, usize::MAX), Err(Failure::More)), "{end}");
        }
        assert!(parse(text, false, usize::MAX).is_ok());
        for wrong in ["{a: 1}", "[1 2]", "01", "nul1", "{\"a\" 1}", "\"\\x\"", "{\"a\": 1, \"a\": 2}", "'x'", "NaN"] {
            assert!(matches!(parse(wrong.as_bytes(), true, usize::MAX), Err(Failure::Wrong(..))), "{wrong}");
        }
        let wide = format!("[{}1]", "1,".repeat(1000));
        assert!(matches!(parse(wide.as_bytes(), true, 1000 * size_of::<Item<'_>>()), Err(Failure::Large)));
        assert!(parse(wide.as_bytes(), true, 4000 * size_of::<Item<'_>>()).is_ok());
        let escaped = format!("\"{}\\n\"", "x".repeat(1000));
        assert!(matches!(parse(escaped.as_bytes(), true, 1000), Err(Failure::Large)));
        let deep = "[".repeat(100_000);
        assert!(matches!(parse(deep.as_bytes(), true, usize::MAX), Err(Failure::Wrong(..))));
    }
}
