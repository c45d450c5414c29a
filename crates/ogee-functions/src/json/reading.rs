//! JSON as text: whether it is well formed, and places in text that is.
//!
//! No tree is made: a document of 100 MB takes nothing beyond its text, and one of 100,000 brackets no stack. What is read is what DuckDB reads: RFC 8259, and beside it
//! commas before closing brackets, and `NaN` and `Infinity` in letters of any case.
//!
//! 1. A [`Place`] is in text that was checked, where a value begins, or behind one.
//! 2. Behind a value that was read by [`Place::skip`], or element by element up to the end, [`Place::next`] finds the next.
//!
//! Not here: what values mean.

use std::borrow::Cow;

use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use memchr::memchr2;

/// Values that may be within each other where a function goes down to the innermost.
const DEPTH_MAX: usize = 1000;

/// Characters of a text that errors show.
const SHOWN_MAX: usize = 50;

/// Where text is no JSON, and why.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    at: usize,
    why: &'static str,
}

impl Malformed {
    /// The error of a statement that was given `text`.
    pub(super) fn error(&self, text: &str) -> DataFusionError {
        exec_datafusion_err!(
            "Malformed JSON at byte {} of input: {}; the input is {:?}",
            self.at,
            self.why,
            shown(text)
        )
    }
}

/// As much of `text` as an error shows.
pub(super) fn shown(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Boolean,
    /// A whole number without a sign, of 64 bits.
    Whole,
    /// A whole number with a minus, of 64 bits.
    Negative,
    /// Any other number.
    Real,
    Text,
    List,
    Object,
}

impl Kind {
    /// What `json_type` calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Boolean => "BOOLEAN",
            Self::Whole => "UBIGINT",
            Self::Negative => "BIGINT",
            Self::Real => "DOUBLE",
            Self::Text => "VARCHAR",
            Self::List => "ARRAY",
            Self::Object => "OBJECT",
        }
    }

    /// Of the number that is written `raw`.
    pub(super) fn of_number(raw: &str) -> Self {
        match raw.strip_prefix('-') {
            _ if !raw.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') => Self::Real,
            Some(_) if raw.parse::<i64>().is_ok() => Self::Negative,
            None if raw.parse::<u64>().is_ok() => Self::Whole,
            _ => Self::Real,
        }
    }
}

/// A place in well-formed JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Place<'a> {
    /// The value that all of `text` is.
    pub(super) fn of(text: &'a str) -> Result<Self> {
        check(text).map_err(|malformed| malformed.error(text))?;
        Ok(Self::of_checked(text))
    }

    /// As [`Self::of`], for function `name`, which goes down to the innermost values.
    pub(super) fn of_shallow(text: &'a str, name: &str) -> Result<Self> {
        let depth = check(text).map_err(|malformed| malformed.error(text))?;
        if depth > DEPTH_MAX {
            return exec_err!(
                "JSON exceeds the maximum depth: it has values within each other {depth} deep, and {name} goes {DEPTH_MAX} \
                 deep; extract a part of it first"
            );
        }
        Ok(Self::of_checked(text))
    }

    /// The value that all of `text` is, which was found to be well formed.
    pub(super) fn of_checked(text: &'a str) -> Self {
        Self { text, at: blanks(text.as_bytes(), 0) }
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// What begins here.
    pub(super) fn kind(&self) -> Kind {
        match self.byte() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::List,
            Some(b'"') => Kind::Text,
            Some(b't' | b'f') => Kind::Boolean,
            // `NaN` and `nan` are numbers.
            Some(b'n') if self.raw() == "null" => Kind::Null,
            _ => Kind::of_number(self.raw()),
        }
    }

    /// The text of the value that begins here.
    pub(super) fn raw(&self) -> &'a str {
        let mut end = *self;
        end.skip()
    }

    /// Goes behind the value that begins here, and gives its text.
    pub(super) fn skip(&mut self) -> &'a str {
        let bytes = self.text.as_bytes();
        let from = self.at;
        self.at = match self.byte() {
            Some(b'"') => end_of_text(bytes, from),
            Some(b'{' | b'[') => {
                let (mut at, mut open) = (from, 0_usize);
                while let Some(byte) = bytes.get(at) {
                    match byte {
                        b'"' => {
                            at = end_of_text(bytes, at);
                            continue;
                        }
                        b'{' | b'[' => open += 1,
                        b'}' | b']' => open -= 1,
                        _ => {}
                    }
                    at += 1;
                    if open == 0 {
                        break;
                    }
                }
                at
            }
            _ => {
                let is_end = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r');
                bytes[from..].iter().position(is_end).map_or(bytes.len(), |length| from + length)
            }
        };
        &self.text[from..self.at]
    }

    /// Goes into the list or object that begins here, before its first value.
    pub(super) fn enter(&mut self) {
        debug_assert!(matches!(self.byte(), Some(b'{' | b'[')));
        self.at += 1;
    }

    /// Goes on to the next value, or its key, of the list or object that this is in; where there is none, behind that.
    pub(super) fn next(&mut self) -> bool {
        let bytes = self.text.as_bytes();
        self.at = blanks(bytes, self.at);
        if self.byte() == Some(b',') {
            self.at = blanks(bytes, self.at + 1);
        }
        match self.byte() {
            Some(b']' | b'}') => {
                self.at += 1;
                false
            }
            byte => byte.is_some(),
        }
    }

    /// Goes from a key to its value, and gives the key as it is written, without quotes.
    pub(super) fn key(&mut self) -> &'a str {
        let bytes = self.text.as_bytes();
        let from = self.at + 1;
        let end = end_of_text(bytes, self.at);
        // The colon.
        self.at = blanks(bytes, blanks(bytes, end) + 1);
        &self.text[from..end - 1]
    }

    /// The elements of the list that begins here; of anything else none. Each is gone past when the next is asked for.
    pub(super) fn elements(self) -> impl Iterator<Item = Place<'a>> {
        self.within(self.kind() == Kind::List).map(|(_, value)| value)
    }

    /// The keys, as they are written, and values of the object that begins here; of anything else none.
    pub(super) fn members(self) -> impl Iterator<Item = (&'a str, Place<'a>)> {
        self.within(self.kind() == Kind::Object)
    }

    /// The elements or values of the list or object that begins here; of anything else none.
    pub(super) fn parts(self) -> impl Iterator<Item = Place<'a>> {
        self.within(matches!(self.kind(), Kind::List | Kind::Object)).map(|(_, value)| value)
    }

    /// What is in the value that begins here, with its key where that is an object, if it `is_in` question.
    fn within(mut self, mut is_in: bool) -> impl Iterator<Item = (&'a str, Place<'a>)> {
        let is_object = self.byte() == Some(b'{');
        let mut is_before = false;
        if is_in {
            self.enter();
        }
        std::iter::from_fn(move || {
            if is_in && std::mem::replace(&mut is_before, true) {
                self.skip();
            }
            is_in = is_in && self.next();
            is_in.then(|| (if is_object { self.key() } else { "" }, self))
        })
    }

    /// How many values and keys begin before `other`, which is within this value.
    pub(super) fn count_before(self, other: Place<'a>) -> u64 {
        let before = self.all_with_keys().take_while(|(value, _)| value.at < other.at);
        let before: u64 = before.map(|(_, has_key)| 1 + u64::from(has_key)).sum();
        // Its own key.
        let own = self.all_with_keys().find(|(value, _)| value.at == other.at);
        before + u64::from(own.is_some_and(|(_, has_key)| has_key))
    }

    /// How many values and keys are within this one.
    pub(super) fn count_within(self) -> u64 {
        self.all_with_keys().skip(1).map(|(_, has_key)| 1 + u64::from(has_key)).sum()
    }

    /// All values from this one on, in the order in which they begin.
    pub(super) fn all(self) -> impl Iterator<Item = Place<'a>> {
        self.all_with_keys().map(|(value, _)| value)
    }

    /// As [`Self::all`], and whether each has a key.
    fn all_with_keys(self) -> impl Iterator<Item = (Place<'a>, bool)> {
        let end = self.at + self.raw().len();
        let mut here = self;
        // Of each list or object that is open, whether it is an object.
        let mut open: Vec<bool> = Vec::new();
        let mut is_first = true;
        std::iter::from_fn(move || {
            let mut has_key = false;
            if !std::mem::take(&mut is_first) {
                match here.kind() {
                    Kind::List | Kind::Object => {
                        open.push(here.kind() == Kind::Object);
                        here.enter();
                    }
                    _ => {
                        here.skip();
                    }
                }
                while !here.next() {
                    open.pop();
                    if here.at >= end || open.is_empty() {
                        return None;
                    }
                }
                has_key = *open.last()?;
                if has_key {
                    here.key();
                }
            }
            (here.at < end).then_some((here, has_key))
        })
    }

    /// The text that begins here, without its quotes and escapes.
    pub(super) fn unquoted(&self) -> Cow<'a, str> {
        let raw = self.raw();
        unescaped(&raw[1..raw.len() - 1])
    }
}

/// Whether the key that is written `raw` is `key`.
pub(super) fn is_key(raw: &str, key: &str) -> bool {
    raw == key && !raw.contains('\\') || raw.contains('\\') && unescaped(raw) == key
}

/// What `raw`, which was between quotes, stands for.
pub(super) fn unescaped(raw: &str) -> Cow<'_, str> {
    let Some(first) = memchr::memchr(b'\\', raw.as_bytes()) else { return Cow::Borrowed(raw) };
    let mut text = String::with_capacity(raw.len());
    text.push_str(&raw[..first]);
    let mut rest = &raw[first..];
    while let Some(escape) = rest.strip_prefix('\\') {
        let mut length = 1;
        match escape.as_bytes().first() {
            Some(b'b') => text.push('\u{8}'),
            Some(b'f') => text.push('\u{c}'),
            Some(b'n') => text.push('\n'),
            Some(b'r') => text.push('\r'),
            Some(b't') => text.push('\t'),
            Some(b'u') => {
                let unit = |at: usize| escape.get(at..at + 4).and_then(|hex| u32::from_str_radix(hex, 16).ok());
                length = 5;
                let code = match unit(1).unwrap_or_default() {
                    high @ 0xD800..=0xDBFF => {
                        length = 11;
                        0x10000 + ((high - 0xD800) << 10) + unit(7).unwrap_or_default().saturating_sub(0xDC00)
                    }
                    code => code,
                };
                text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(&other) => text.push(char::from(other)),
            None => {}
        }
        rest = escape.get(length..).unwrap_or_default();
        let plain = memchr::memchr(b'\\', rest.as_bytes()).unwrap_or(rest.len());
        text.push_str(&rest[..plain]);
        rest = &rest[plain..];
    }
    Cow::Owned(text)
}

fn blanks(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(at) {
        at += 1;
    }
    at
}

/// Where the text ends that has its quotes from `at` on, in what was checked.
fn end_of_text(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found;
        if bytes[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    bytes.len()
}

/// A bit for each list and object that is open: whether it is an object.
#[derive(Default)]
struct Open {
    bits: Vec<u64>,
    depth: usize,
    deepest: usize,
}

impl Open {
    fn push(&mut self, is_object: bool) {
        let (word, bit) = (self.depth / 64, self.depth % 64);
        if word == self.bits.len() {
            self.bits.push(0);
        }
        self.bits[word] = self.bits[word] & !(1 << bit) | u64::from(is_object) << bit;
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
    }

    fn is_object(&self) -> Option<bool> {
        let last = self.depth.checked_sub(1)?;
        Some(self.bits[last / 64] >> (last % 64) & 1 == 1)
    }
}

/// How many lists and objects are within each other in `text`, if it is JSON.
pub(super) fn check(text: &str) -> Result<usize, Malformed> {
    let bytes = text.as_bytes();
    if bytes.is_empty() {
        return Err(Malformed { at: 0, why: "input length is 0" });
    }
    let mut open = Open::default();
    let mut at = blanks(bytes, 0);
    loop {
        at = match bytes.get(at) {
            Some(&bracket @ (b'{' | b'[')) => {
                let is_object = bracket == b'{';
                open.push(is_object);
                at = blanks(bytes, at + 1);
                if bytes.get(at) != Some(&closing(is_object)) {
                    if is_object {
                        at = check_key(bytes, at)?;
                    }
                    continue;
                }
                open.depth -= 1;
                at + 1
            }
            Some(b'"') => check_text(bytes, at)?,
            Some(b'-' | b'0'..=b'9') => check_number(bytes, at)?,
            Some(b't') => check_word(bytes, at, b"true")?,
            Some(b'f') => check_word(bytes, at, b"false")?,
            Some(b'n') if bytes.get(at + 1).is_none_or(|byte| *byte == b'u') => check_word(bytes, at, b"null")?,
            Some(b'n' | b'N' | b'i' | b'I') => check_no_number(bytes, at)?,
            _ => return Err(unexpected(bytes, at)),
        };
        // Behind a value: the next of its list or object, or its end.
        loop {
            at = blanks(bytes, at);
            let Some(is_object) = open.is_object() else {
                return match at == bytes.len() {
                    true => Ok(open.deepest),
                    false => Err(Malformed { at, why: "unexpected content after document" }),
                };
            };
            let is_comma = bytes.get(at) == Some(&b',');
            if is_comma {
                at = blanks(bytes, at + 1);
            }
            if bytes.get(at) == Some(&closing(is_object)) {
                open.depth -= 1;
                at += 1;
                continue;
            }
            if !is_comma {
                return Err(unexpected(bytes, at));
            }
            if is_object {
                at = check_key(bytes, at)?;
            }
            break;
        }
    }
}

fn closing(is_object: bool) -> u8 {
    if is_object { b'}' } else { b']' }
}

fn unexpected(bytes: &[u8], at: usize) -> Malformed {
    match at < bytes.len() {
        true => Malformed { at, why: "unexpected character" },
        false => Malformed { at: bytes.len(), why: "unexpected end of data" },
    }
}

/// Where the value of the key at `at` begins.
fn check_key(bytes: &[u8], at: usize) -> Result<usize, Malformed> {
    if bytes.get(at) != Some(&b'"') {
        return Err(unexpected(bytes, at));
    }
    let at = blanks(bytes, check_text(bytes, at)?);
    if bytes.get(at) != Some(&b':') {
        return Err(unexpected(bytes, at));
    }
    Ok(blanks(bytes, at + 1))
}

fn check_text(bytes: &[u8], at: usize) -> Result<usize, Malformed> {
    let mut at = at + 1;
    loop {
        let found = memchr2(b'"', b'\\', &bytes[at..]).map_or(bytes.len(), |found| at + found);
        if let Some(control) = bytes[at..found].iter().position(|byte| *byte < b' ') {
            return Err(Malformed { at: at + control, why: "unexpected control character in string" });
        }
        match bytes.get(found) {
            None => return Err(unexpected(bytes, found)),
            Some(b'"') => return Ok(found + 1),
            Some(_) => at = check_escape(bytes, found)?,
        }
    }
}

/// Where the escape that begins at `at` ends.
fn check_escape(bytes: &[u8], at: usize) -> Result<usize, Malformed> {
    let unit = |at: usize| {
        let hex = bytes.get(at..at + 4).filter(|hex| hex.iter().all(u8::is_ascii_hexdigit));
        let digit = |number: u32, hex: &u8| number * 16 + char::from(*hex).to_digit(16).unwrap_or_default();
        hex.map(|hex| hex.iter().fold(0, digit))
            .ok_or(Malformed { at: at - 2, why: "invalid escaped sequence in string" })
    };
    match bytes.get(at + 1) {
        None => Err(unexpected(bytes, at + 1)),
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => match unit(at + 2)? {
            0xDC00..=0xDFFF => Err(Malformed { at, why: "invalid high surrogate in string" }),
            0xD800..=0xDBFF => {
                let low = at + 6;
                if bytes.get(low..low + 2) != Some(b"\\u") {
                    return Err(Malformed { at: low, why: "no low surrogate in string" });
                }
                match unit(low + 2)? {
                    0xDC00..=0xDFFF => Ok(low + 6),
                    _ => Err(Malformed { at: low, why: "invalid low surrogate in string" }),
                }
            }
            _ => Ok(at + 6),
        },
        Some(_) => Err(Malformed { at: at + 1, why: "invalid escaped character in string" }),
    }
}

fn check_word(bytes: &[u8], at: usize, word: &[u8]) -> Result<usize, Malformed> {
    let given = &bytes[at..];
    if given.starts_with(word) {
        return Ok(at + word.len());
    }
    if word.starts_with(given) {
        return Err(unexpected(bytes, bytes.len()));
    }
    Err(unexpected(bytes, at))
}

/// `NaN`, `inf` and `Infinity`.
fn check_no_number(bytes: &[u8], at: usize) -> Result<usize, Malformed> {
    let is = |word: &[u8]| bytes.get(at..at + word.len()).is_some_and(|given| given.eq_ignore_ascii_case(word));
    let known: [&[u8]; 3] = [b"infinity", b"inf", b"nan"];
    match known.into_iter().find(|word| is(word)) {
        Some(word) => Ok(at + word.len()),
        None => Err(unexpected(bytes, at)),
    }
}

fn check_number(bytes: &[u8], from: usize) -> Result<usize, Malformed> {
    let digits = |at: usize| bytes[at.min(bytes.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let some_digits = |at: usize, why: &'static str| match digits(at) {
        0 if at >= bytes.len() => Err(unexpected(bytes, at)),
        0 => Err(Malformed { at, why }),
        count => Ok(at + count),
    };
    let mut at = from;
    if bytes[at] == b'-' {
        at += 1;
        if let Some(b'n' | b'N' | b'i' | b'I') = bytes.get(at) {
            return check_no_number(bytes, at);
        }
    }
    let whole = some_digits(at, "no digit after minus sign")?;
    if bytes[at] == b'0' && whole > at + 1 {
        return Err(Malformed { at: from, why: "number with leading zero is not allowed" });
    }
    at = whole;
    if bytes.get(at) == Some(&b'.') {
        at = some_digits(at + 1, "no digit after decimal point")?;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        at += 1;
        if let Some(b'+' | b'-') = bytes.get(at) {
            at += 1;
        }
        at = some_digits(at, "no digit after exponent sign")?;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn malformed(text: &str) -> (usize, &'static str) {
        check(text).map_or_else(|malformed| (malformed.at, malformed.why), |_| (usize::MAX, ""))
    }

    #[test]
    fn what_is_json_is_read() {
        for text in [
            "1",
            " -0 ",
            "1.5e-7",
            "[1,2,]",
            "{\"a\":1,}",
            "[]",
            "{ }",
            "NaN",
            "[-Infinity, inf]",
            "\"\\ud83d\\ude00\"",
            "null",
            "[[],{},[{}]]",
            "\t{\"a\" : [true,false , null]}\n",
        ] {
            assert!(check(text).is_ok(), "{text}: {:?}", check(text));
        }
        assert_eq!(check("[[1],{\"a\":[2]}]"), Ok(3));
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(check(&deep), Ok(100_000));
    }

    #[test]
    fn what_is_none_is_told_where() {
        for (text, at, why) in [
            ("", 0, "input length is 0"),
            ("  ", 2, "unexpected end of data"),
            ("{\"a\":1} x", 8, "unexpected content after document"),
            ("{a:1}", 1, "unexpected character"),
            ("[1,2", 4, "unexpected end of data"),
            ("[,1]", 1, "unexpected character"),
            ("[1 2]", 3, "unexpected character"),
            ("[1}", 2, "unexpected character"),
            ("{\"a\" 1}", 5, "unexpected character"),
            ("\"a", 2, "unexpected end of data"),
            ("nul", 3, "unexpected end of data"),
            ("nulx", 0, "unexpected character"),
            ("1.", 2, "unexpected end of data"),
            ("1.x", 2, "no digit after decimal point"),
            ("01", 0, "number with leading zero is not allowed"),
            ("-", 1, "unexpected end of data"),
            (".5", 0, "unexpected character"),
            ("\"\\ud83d\"", 7, "no low surrogate in string"),
            ("\"\\ude00\"", 1, "invalid high surrogate in string"),
            ("\"\\ud83d\\u0041\"", 7, "invalid low surrogate in string"),
            ("\"\\x\"", 2, "invalid escaped character in string"),
            ("\"\\u12g4\"", 1, "invalid escaped sequence in string"),
            ("\"\\u12é\"", 1, "invalid escaped sequence in string"),
            ("\"a\nb\"", 2, "unexpected control character in string"),
            ("1\0", 1, "unexpected content after document"),
        ] {
            assert_eq!(malformed(text), (at, why), "{text:?}");
        }
    }

    #[test]
    fn values_are_found_in_their_order() {
        let place = Place::of_checked(" {\"a\": [1, {\"b\" : \"x,]\"}], \"c\\\"\":null ,} ");
        let raw: Vec<&str> = place.all().map(|value| value.raw()).collect();
        assert_eq!(raw[1..], ["[1, {\"b\" : \"x,]\"}]", "1", "{\"b\" : \"x,]\"}", "\"x,]\"", "null"]);
        let keys: Vec<_> = place.members().map(|(key, value)| (unescaped(key).into_owned(), value.kind())).collect();
        assert_eq!(keys, [("a".to_owned(), Kind::List), ("c\"".to_owned(), Kind::Null)]);
        assert_eq!(Place::of_checked("[1,[2],]").elements().map(|value| value.raw()).collect::<Vec<_>>(), ["1", "[2]"]);
    }

    #[test]
    fn escapes_are_what_they_stand_for() {
        assert_eq!(unescaped(r#"a\"\\\/\b\f\n\r\tz"#), "a\"\\/\u{8}\u{c}\n\r\tz");
        assert_eq!(unescaped(r"\u00e9\uD83D\uDE00!\u0000"), "é😀!\0");
        assert!(is_key(r"\u0061", "a") && is_key("a", "a") && !is_key(r"\u0061", r"\u0061"));
    }
}
