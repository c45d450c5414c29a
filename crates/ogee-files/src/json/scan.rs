//! Where the values of an object are that are wanted, found in one pass over its text; the others are passed over.
//!
//! Numbers, words and texts are looked at as far as it takes to see where they end and that they are JSON; what is within lists and objects is parsed (`parse`), and dropped if nobody wants it.
//!
//! Not here: arrays (`build`).

use std::{borrow::Cow, ops::Range};

use ogee_vector::Marks;

use super::parse::{Failure, Parsed, Value, is_number, parse};

/// Which keys the object at hand has had.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Objects in which places were found last.
    seen: Vec<u64>,
    object: u64,
}

/// Where a key belongs.
pub(super) enum Place {
    /// The value is wanted, or not, of this place.
    At(usize),
    /// Nobody wants it.
    Nowhere,
    /// It is an error that it is there.
    Unknown,
}

/// The object that is scanned, and what may be in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Object<'t> {
    /// It begins at `begin`; nothing comes behind the text if it `is_last`.
    pub(super) text: &'t [u8],
    pub(super) begin: usize,
    pub(super) is_last: bool,
    /// Bytes that the parts of a value may take.
    pub(super) most: usize,
}

/// The keys that objects may have.
pub(super) trait Keys {
    /// Places that keys have.
    fn places(&self) -> usize;

    /// The key of `place` as it is mostly written: in quotes, with a colon.
    fn written(&self, place: usize) -> &[u8];

    /// Where `key` belongs.
    fn find(&self, key: &[u8]) -> Place;
}

impl Seen {
    /// Scans an object; `found` is told where the values of places are. Gives what is behind it, or the key that is an error, or `None` if the value is no object.
    #[inline]
    pub(super) fn object(
        &mut self,
        object: Object<'_>,
        keys: &impl Keys,
        mut found: impl FnMut(usize, Range<usize>),
    ) -> Parsed<Option<Result<usize, String>>> {
        let Object { text, begin, is_last, most } = object;
        self.object += 1;
        self.seen.resize(keys.places(), 0);
        let mut at = blanks(text, begin);
        match text.get(at) {
            Some(b'{') => at = blanks(text, at + 1),
            Some(_) => return Ok(None),
            None => return Err(Failure::More),
        }
        if text.get(at) == Some(&b'}') {
            return Ok(Some(Ok(at + 1)));
        }
        let wrong = |at: usize, what: &str| Err(Failure::Wrong(what.to_owned(), text.len() - at));
        let mut marks = Marks::new(text, [b'"', b'\\', b',', b'}'], at);
        let mut next = 0;
        loop {
            let rest = text.get(at..).unwrap_or_default();
            // Most objects have the same keys in the same order.
            let likely = next < keys.places() && begins_with(rest, keys.written(next));
            let place = if likely {
                at = blanks(text, at + keys.written(next).len());
                Place::At(next)
            } else {
                match rest.first() {
                    Some(b'"') => {}
                    Some(_) => return wrong(at, "no key in an object"),
                    None => return Err(Failure::More),
                }
                let end = string(text, at, &mut marks)?;
                let key = &text[at + 1..end - 1];
                let key = match memchr::memchr(b'\\', key) {
                    None => Cow::Borrowed(key),
                    Some(_) => match parse(&text[at..end], true, most)?.0.value {
                        Value::Text(key) => Cow::Owned(key.into_owned().into_bytes()),
                        _ => Cow::Borrowed(key),
                    },
                };
                at = blanks(text, end);
                match text.get(at) {
                    Some(b':') => at = blanks(text, at + 1),
                    Some(_) => return wrong(at, "no colon after a key"),
                    None => return Err(Failure::More),
                }
                match keys.find(&key) {
                    Place::Unknown => return Ok(Some(Err(String::from_utf8_lossy(&key).into_owned()))),
                    place => place,
                }
            };
            let end = value(text, at, is_last, most, &mut marks)?;
            if let Place::At(place) = place {
                if self.seen[place] == self.object {
                    let key = String::from_utf8_lossy(keys.written(place));
                    return wrong(at, &format!("key {} twice in an object", key.trim_end_matches(':')));
                }
                self.seen[place] = self.object;
                found(place, at..end);
                next = place + 1;
            }
            at = blanks(text, end);
            match text.get(at) {
                Some(b',') => at = blanks(text, at + 1),
                Some(b'}') => return Ok(Some(Ok(at + 1))),
                Some(_) => return wrong(at, "neither comma nor brace after a value"),
                None => return Err(Failure::More),
            }
        }
    }
}

/// Whether `text` begins with `key`; a few comparisons of eight bytes, where a call would take longer.
#[inline(always)]
fn begins_with(text: &[u8], key: &[u8]) -> bool {
    const WORD: usize = size_of::<u64>();
    let Some(text) = text.get(..key.len()) else { return false };
    let (Some(last), Some(last_key)) = (text.last_chunk::<WORD>(), key.last_chunk::<WORD>()) else {
        return text.iter().zip(key).all(|(a, b)| a == b);
    };
    let mut differ = u64::from_ne_bytes(*last) ^ u64::from_ne_bytes(*last_key);
    for (text, key) in text.as_chunks::<WORD>().0.iter().zip(key.as_chunks::<WORD>().0) {
        differ |= u64::from_ne_bytes(*text) ^ u64::from_ne_bytes(*key);
    }
    differ == 0
}

/// Behind the blanks at `at`, of which there mostly are none.
#[inline(always)]
fn blanks(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// Behind the string that begins at `at`.
#[inline(always)]
fn string(text: &[u8], at: usize, marks: &mut Marks<'_>) -> Parsed<usize> {
    marks.seek(at + 1);
    loop {
        let mark = marks.next_mark();
        match text.get(mark) {
            Some(b'"') => return Ok(mark + 1),
            Some(b'\\') => marks.seek(mark + 2),
            Some(_) => {}
            None => return Err(Failure::More),
        }
    }
}

/// Behind the value that begins at `at`.
#[inline(always)]
fn value(text: &[u8], at: usize, is_last: bool, most: usize, marks: &mut Marks<'_>) -> Parsed<usize> {
    match text.get(at) {
        Some(b'"') => string(text, at, marks),
        Some(b'-' | b'0'..=b'9') => {
            marks.seek(at);
            let mark = marks.next_mark();
            if mark == text.len() {
                return Err(Failure::More);
            }
            let number = text[at..mark].trim_ascii_end();
            match is_number(number) {
                true => Ok(at + number.len()),
                false => Err(Failure::Wrong("no JSON number".to_owned(), text.len() - at)),
            }
        }
        Some(_) => parse(&text[at..], is_last, most).map(|(_, bytes)| at + bytes),
        None => Err(Failure::More),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    struct Names([(&'static str, &'static str); 3]);

    impl Keys for Names {
        fn places(&self) -> usize {
            self.0.len()
        }

        fn written(&self, place: usize) -> &[u8] {
            self.0[place].1.as_bytes()
        }

        fn find(&self, key: &[u8]) -> Place {
            match self.0.iter().position(|(name, _)| name.as_bytes() == key) {
                Some(place) => Place::At(place),
                None if key == b"nobody's" => Place::Nowhere,
                None => Place::Unknown,
            }
        }
    }

    #[test]
    fn values_are_where_their_keys_are() {
        let mut seen = Seen::default();
        let mut scan = |text: &str| {
            let mut values = [const { None }; 3];
            let found = |place: usize, value: Range<usize>| values[place] = Some(text[value].to_owned());
            let object = Object { text: text.as_bytes(), begin: 0, is_last: true, most: 1 << 20 };
            let names = Names([("a", "\"a\":"), ("b", "\"b\":"), ("é\n", "\"é\n\":")]);
            let end = seen.object(object, &names, found);
            end.map(|end| end.map(|end| end.map(|end| (end, values))))
        };
        let text = r#" { "b" : [1, {"a": "}"}] , "\u00e9\n":"x\"}", "nobody's": null, "a":-1.5e3} rest"#;
        let (end, values) = scan(text).unwrap().unwrap().unwrap();
        assert_eq!(&text[end..], " rest");
        assert_eq!(
            values,
            [Some("-1.5e3"), Some("[1, {\"a\": \"}\"}]"), Some("\"x\\\"}\"")].map(|value| value.map(ToOwned::to_owned))
        );
        // Nothing is left of the object before.
        assert_eq!(scan("{}").unwrap().unwrap().unwrap(), (2, [None, None, None]));
        assert_eq!(scan("[1]"), Ok(None));
        for key in
            ["", "a", "seven77", "eight888", "nine99999", "something of twenty-four", "something of twenty-five!"]
        {
            assert!(begins_with(format!("{key}x").as_bytes(), key.as_bytes()), "{key}");
            for at in 0..key.len() {
                let mut other = key.as_bytes().to_vec();
                other[at] ^= 1;
                assert!(
                    !begins_with(&other, key.as_bytes()) && !begins_with(&key.as_bytes()[..at], key.as_bytes()),
                    "{key}"
                );
            }
        }
        assert_eq!(scan("{\"x\": 1}"), Ok(Some(Err("x".to_owned()))));
        for wrong in [
            "{a: 1}",
            "{\"a\" 1}",
            "{\"a\": 01}",
            "{\"a\": 1, \"a\": 2}",
            "{\"a\": [1 2]}",
            "{\"a\": tru}",
            "{\"a\": 1 2}",
            "{\"a\": 1.}",
        ] {
            assert!(matches!(scan(wrong), Err(Failure::Wrong(..))), "{wrong}");
        }
        let whole = r#"{"a": 12, "b": "x\"", "é\n": [true, null]}"#;
        for end in (0..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
            assert_eq!(scan(&whole[..end]), Err(Failure::More), "{end}");
        }
    }
}
