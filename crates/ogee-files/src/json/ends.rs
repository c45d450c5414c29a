//! Where values of a JSON file end, found without reading them.
//!
//! Most files are objects on lines: a line that ends with a brace before one that begins with one ends an object, since commas are between the objects within another. Otherwise brackets
//! are counted.
//!
//! Not here: values (`parse`).

use memchr::{memchr2, memrchr};

use super::{
    format::Layout,
    parse::{Failure, parse},
    reader::{PARTS_BYTES, VALUE_BYTES_MAX},
};
use crate::pieces::{Ends, Mode};

/// Ends of lines that are looked at before brackets are counted.
const LINES: usize = 64;

/// Where the values of a file end.
#[derive(Debug, Default)]
pub(super) struct ValueEnds {
    mode: Mode,
    layout: Layout,
}

impl ValueEnds {
    pub(super) fn new(layout: Layout) -> Self {
        Self { layout, ..Self::default() }
    }
}

impl Ends for ValueEnds {
    const RECORD_BYTES_MAX: usize = VALUE_BYTES_MAX;
    const TOO_LONG: &'static str = "a value of more than 256 MiB begins here";

    fn mode(&self) -> Mode {
        self.mode
    }

    fn whole(&mut self, text: &[u8], is_first: bool) -> usize {
        let mut begin = 0;
        if is_first {
            begin = if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
            begin += blanks(&text[begin..]);
            if text.get(begin) == Some(&b'[') && self.layout != Layout::Values {
                (self.mode, begin) = (Mode::Items, begin + 1);
            }
        }
        let whole = match self.mode {
            Mode::Records => last_line(&text[begin..]).unwrap_or_else(|| last_value(&text[begin..])),
            Mode::Items => match last_item(&text[begin..]) {
                Some(whole) => whole,
                None => {
                    self.mode = Mode::Behind;
                    return text.len();
                }
            },
            Mode::Behind => return text.len(),
        };
        if whole > 0 {
            return begin + whole;
        }
        // What is no value at all is not waited for.
        let after_comma = text[begin..].strip_prefix(b",").unwrap_or(&text[begin..]);
        match parse(after_comma, false, PARTS_BYTES) {
            Err(Failure::Wrong(..)) => text.len(),
            _ => 0,
        }
    }
}

fn blanks(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// Where the last line of `text` ends behind which another object begins; `None` if there is none such among the last.
fn last_line(text: &[u8]) -> Option<usize> {
    let mut end = text.len();
    for _ in 0..LINES {
        let at = memrchr(b'\n', &text[..end])?;
        let before = text[..at].iter().rev().find(|byte| !byte.is_ascii_whitespace());
        let behind = text[at + 1..].iter().find(|byte| !byte.is_ascii_whitespace());
        if (before, behind) == (Some(&b'}'), Some(&b'{')) {
            return Some(at + 1);
        }
        end = at;
    }
    None
}

/// Where the last of the values ends that `text` begins with.
fn last_value(text: &[u8]) -> usize {
    let (mut depth, mut whole, mut at) = (0_usize, 0, 0);
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'"' => match string(text, at) {
                Some(end) => at = end,
                None => break,
            },
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ if byte.is_ascii_whitespace() => {}
            _ => continue,
        }
        if depth == 0 {
            whole = at;
        }
    }
    whole
}

/// Where the last of the items ends that `text` begins with, or the commas before them; `None` if the array ends.
fn last_item(text: &[u8]) -> Option<usize> {
    let (mut depth, mut whole, mut at) = (0_usize, 0, 0);
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'"' => match string(text, at) {
                Some(end) => at = end,
                None => break,
            },
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    whole = at;
                }
            }
            b',' if depth == 0 => whole = at - 1,
            _ => {}
        }
    }
    Some(whole)
}

/// What is behind the string whose opening quote is before `at`; `None` if it is not closed.
fn string(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_end_behind_them() {
        let ends = |text: &str, is_first| {
            let mut ends = ValueEnds::default();
            (ends.whole(text.as_bytes(), is_first), ends.mode)
        };
        for (text, whole, mode) in [
            ("{\"a\": 1}\n{\"a\": 2}\n{\"a", "{\"a\": 1}\n{\"a\": 2}\n", Mode::Records),
            ("{\"a\": 1}\n{\"a\": 2}\n", "{\"a\": 1}\n", Mode::Records),
            ("{\"a\": 1}{\"a\": 2}\n {\"a\": \"}\\\"", "{\"a\": 1}{\"a\": 2}\n", Mode::Records),
            ("{\"a\": [\n{\"b\": 1},\n{\"b\": 2}\n]}\n", "{\"a\": [\n{\"b\": 1},\n{\"b\": 2}\n]}\n", Mode::Records),
            ("{\"a\": [\n{\"b\": 1},\n{\"b\"", "", Mode::Records),
            ("1\n22\n33", "1\n22\n", Mode::Records),
            ("\u{feff} [1, {\"a\": [2]}, [3], \"]", "\u{feff} [1, {\"a\": [2]}, [3]", Mode::Items),
            ("[1, 2] \n", "[1, 2] \n", Mode::Behind),
            ("[1, 2] x", "[1, 2] x", Mode::Behind),
            ("[12", "", Mode::Items),
            // Nobody waits for the end of what is no value.
            ("{a: [", "{a: [", Mode::Records),
        ] {
            assert_eq!(ends(text, true), (whole.len(), mode), "{text}");
        }
        let mut items = ValueEnds { mode: Mode::Items, layout: Layout::Auto };
        assert_eq!(items.whole(b", {}, 5, 6", false), 7);
        assert_eq!((items.whole(b", 7]", false), items.mode), (4, Mode::Behind));
    }
}
