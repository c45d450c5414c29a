//! Records of a CSV file: bytes cut into fields.
//!
//! ```text
//! record = field (delimiter field)* end       end = LF | CR LF | CR | end of file
//! field  = bytes without delimiter and end  |  spaces quote (byte | quote quote | escape byte)* quote spaces
//! ```
//!
//! Fields are ranges of the buffer; only those with an escaped character are copied.
//!
//! Not here: what the fields stand for, reading.

use std::borrow::Cow;

use memchr::{memchr, memchr2, memchr3};

/// Bytes that no text has in it, in the place of marks that there are not.
pub(super) const NO_QUOTE: u8 = 0xff;
pub(super) const NO_DELIMITER: u8 = 0xfe;

/// Bytes of a delimiter, at most.
pub(crate) const DELIMITER_MAX: usize = 4;

/// What follows the first byte of a delimiter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Tail {
    bytes: [u8; DELIMITER_MAX - 1],
    len: u8,
}

impl Tail {
    /// `bytes`, of which there are three at most.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut tail = Self { len: bytes.len() as u8, ..Self::default() };
        tail.bytes[..bytes.len()].copy_from_slice(bytes);
        tail
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// How records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marks {
    /// Between fields: the first byte, and what follows it.
    pub(super) delimiter: u8,
    pub(super) tail: Tail,
    /// Around fields that have delimiters, ends of lines or quotes in them.
    pub(super) quote: u8,
    /// In front of a quote within quotes, unless it is the quote itself.
    pub(super) escape: Option<u8>,
    /// The end of records, if they do not end with lines.
    pub(super) terminator: Option<u8>,
    /// What follows a closing quote belongs to the field.
    pub(super) is_lenient: bool,
}

/// Those of most files.
#[cfg(test)]
pub(super) const PLAIN: Marks = Marks {
    delimiter: b',',
    tail: Tail { bytes: [0; 3], len: 0 },
    quote: b'"',
    escape: None,
    terminator: None,
    is_lenient: false,
};

impl Marks {
    /// Where the delimiter ends that begins at `at`, if one does.
    #[inline]
    pub(super) fn behind_delimiter(&self, text: &[u8], at: usize) -> Option<usize> {
        let behind = at + 1 + self.tail.bytes().len();
        let is_one = text.get(at) == Some(&self.delimiter) && text[at + 1..].starts_with(self.tail.bytes());
        is_one.then_some(behind)
    }
}

/// A field: a range of the buffer.
#[derive(Clone, Copy, Debug)]
struct Field {
    begin: usize,
    end: usize,
    /// Has escaped characters.
    is_escaped: bool,
}

/// A record.
#[derive(Debug, Default)]
pub(super) struct Record {
    fields: Vec<Field>,
    /// Bytes with the end of the record.
    pub(super) bytes: usize,
    /// Ends of lines in it.
    pub(super) lines: u64,
}

/// Why there is no record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Incomplete {
    /// It goes on behind the buffer.
    More,
    /// A quote is not closed before the end of the file.
    Open,
    /// Something follows a closing quote.
    AfterQuote,
    /// It has more than [`FIELDS_MAX`] fields.
    Wide,
}

/// Fields of a record, at most.
pub(super) const FIELDS_MAX: usize = 1 << 17;

impl Record {
    /// Number of fields.
    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether the line has nothing in it.
    pub(super) fn is_blank(&self) -> bool {
        matches!(self.fields.as_slice(), [only] if only.begin == only.end)
    }

    /// What is written in field `index` of the record that begins at `buffer`.
    pub(super) fn field<'a>(&self, buffer: &'a [u8], index: usize, marks: &Marks) -> Cow<'a, [u8]> {
        let field = self.fields[index];
        let raw = &buffer[field.begin..field.end];
        if field.is_escaped { Cow::Owned(unescaped(raw, marks)) } else { Cow::Borrowed(raw) }
    }

    /// How many fields are in quotes.
    pub(super) fn quoted_fields(&self, buffer: &[u8], marks: &Marks) -> usize {
        (0..self.len()).filter(|index| self.is_quoted(buffer, *index, marks)).count()
    }

    /// Whether field `index` is in quotes.
    pub(super) fn is_quoted(&self, buffer: &[u8], index: usize, marks: &Marks) -> bool {
        let begin = self.fields[index].begin;
        begin > 0 && buffer[begin - 1] == marks.quote
    }

    /// Reads the record that begins at `buffer`; `is_last`: nothing comes behind it.
    pub(super) fn read(&mut self, buffer: &[u8], marks: &Marks, is_last: bool) -> Result<(), Incomplete> {
        self.fields.clear();
        self.lines = 0;
        let more = if is_last { Incomplete::Open } else { Incomplete::More };
        let mut at = 0;
        loop {
            if self.fields.len() >= FIELDS_MAX {
                return Err(Incomplete::Wide);
            }
            let begin = at;
            let spaces = buffer[at..].iter().take_while(|byte| **byte == b' ').count();
            let quoted = at + spaces;
            let end = if buffer.get(quoted) == Some(&marks.quote) {
                let (field, behind) = self.quoted(buffer, quoted + 1, marks).ok_or(more_of(&more))?;
                self.fields.push(field);
                let spaces = buffer[behind..].iter().take_while(|byte| **byte == b' ').count();
                let end = behind + spaces;
                let is_end = |byte: &u8| match marks.terminator {
                    None => matches!(byte, b'\n' | b'\r'),
                    Some(terminator) => *byte == terminator,
                };
                let is_closed = match buffer.get(end) {
                    None => true,
                    Some(byte) => is_end(byte) || marks.behind_delimiter(buffer, end).is_some(),
                };
                if is_closed || !marks.is_lenient {
                    end
                } else {
                    let end = end_of_field(buffer, behind, marks);
                    if let Some(field) = self.fields.last_mut() {
                        field.end = end - usize::from(buffer[end - 1] == marks.quote);
                    }
                    end
                }
            } else {
                let end = end_of_field(buffer, at, marks);
                self.fields.push(Field { begin, end, is_escaped: false });
                end
            };
            let Some(&mark) = buffer.get(end) else {
                if !is_last {
                    return Err(Incomplete::More);
                }
                self.bytes = end;
                return Ok(());
            };
            if let Some(behind) = marks.behind_delimiter(buffer, end) {
                at = behind;
                continue;
            }
            at = end + 1;
            match marks.terminator {
                Some(terminator) if mark == terminator => self.bytes = at,
                None if mark == b'\n' => (self.bytes, self.lines) = (at, self.lines + 1),
                // Which of the two ends it is, is not known at the end of the buffer.
                None if mark == b'\r' => match buffer.get(at) {
                    None if !is_last => return Err(Incomplete::More),
                    Some(b'\n') => (self.bytes, self.lines) = (at + 1, self.lines + 1),
                    _ => (self.bytes, self.lines) = (at, self.lines + 1),
                },
                _ => return Err(Incomplete::AfterQuote),
            }
            return Ok(());
        }
    }

    /// The field whose opening quote is before `begin`, and where its closing quote ends; `None` if there is no closing
    /// quote.
    fn quoted(&mut self, buffer: &[u8], begin: usize, marks: &Marks) -> Option<(Field, usize)> {
        let (mut at, mut is_escaped) = (begin, false);
        loop {
            let rest = buffer.get(at..)?;
            at += match marks.escape {
                Some(escape) => memchr2(marks.quote, escape, rest)?,
                None => memchr(marks.quote, rest)?,
            };
            let is_escape = match marks.escape {
                Some(escape) => buffer[at] == escape,
                None => buffer.get(at + 1) == Some(&marks.quote),
            };
            if is_escape {
                is_escaped = true;
                at += 2;
                continue;
            }
            let field = Field { begin, end: at, is_escaped };
            self.lines += memchr::memchr_iter(b'\n', &buffer[begin..at]).count() as u64;
            return Some((field, at + 1));
        }
    }
}

/// Where the field ends that begins at `at`, whatever is in it but delimiters and ends of records.
fn end_of_field(buffer: &[u8], mut at: usize, marks: &Marks) -> usize {
    loop {
        let found = match marks.terminator {
            None => memchr3(marks.delimiter, b'\n', b'\r', &buffer[at..]),
            Some(terminator) => memchr2(marks.delimiter, terminator, &buffer[at..]),
        };
        let Some(found) = found else { return buffer.len() };
        at += found;
        if buffer[at] != marks.delimiter || marks.behind_delimiter(buffer, at).is_some() {
            return at;
        }
        at += 1;
    }
}

/// What is written as `raw` within quotes.
pub(super) fn unescaped(raw: &[u8], marks: &Marks) -> Vec<u8> {
    let escape = marks.escape.unwrap_or(marks.quote);
    let mut text = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr(escape, rest) {
        text.extend_from_slice(&rest[..at]);
        text.extend(rest.get(at + 1));
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    text.extend_from_slice(rest);
    text
}

fn more_of(more: &Incomplete) -> Incomplete {
    match more {
        Incomplete::More => Incomplete::More,
        _ => Incomplete::Open,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    use super::PLAIN as MARKS;

    fn all(text: &str, marks: &Marks) -> Result<Vec<Vec<String>>, Incomplete> {
        let (mut rest, mut record, mut records) = (text.as_bytes(), Record::default(), Vec::new());
        while !rest.is_empty() {
            record.read(rest, marks, true)?;
            let field = |i| String::from_utf8_lossy(&record.field(rest, i, marks)).into_owned();
            records.push((0..record.len()).map(field).collect());
            rest = &rest[record.bytes..];
        }
        Ok(records)
    }

    #[test]
    fn records_end_with_lines_outside_of_quotes() {
        let records = all("a,b\r\n1,\"x\ny\"\r2, \"q, \"\"r\"\"\" \n\n3,a\"b\"", &MARKS).unwrap();
        assert_eq!(records, [vec!["a", "b"], vec!["1", "x\ny"], vec!["2", "q, \"r\""], vec![""], vec!["3", "a\"b\""]]);
        let backslash = Marks { escape: Some(b'\\'), ..MARKS };
        assert_eq!(all("\"a \\\"q\\\\\",b\\n\n", &backslash).unwrap(), [["a \"q\\", "b\\n"]]);
        assert_eq!(all("\"a\"b,c", &MARKS), Err(Incomplete::AfterQuote));
        assert_eq!(all("\"a\nb", &MARKS), Err(Incomplete::Open));
    }

    #[test]
    fn delimiters_may_be_long() {
        let marks = Marks { delimiter: b'|', tail: Tail::of(b"|"), ..MARKS };
        assert_eq!(all("a||b|c||\"d||\"\n||e\n", &marks).unwrap(), [vec!["a", "b|c", "d||"], vec!["", "e"]]);
    }

    #[test]
    fn what_follows_a_quote_may_belong_to_the_field() {
        let marks = Marks { is_lenient: true, ..MARKS };
        let records = all("1,\"x \"y\" z\",2\n3,\"x\"yz\n", &marks).unwrap();
        assert_eq!(records, [vec!["1", "x \"y\" z", "2"], vec!["3", "x\"yz"]]);
    }

    #[test]
    fn records_have_so_many_fields_at_most() {
        let most = ",".repeat(FIELDS_MAX - 1);
        assert_eq!(Record::default().read(most.as_bytes(), &MARKS, true), Ok(()));
        assert_eq!(Record::default().read(format!("{most},").as_bytes(), &MARKS, true), Err(Incomplete::Wide));
    }

    #[test]
    fn a_buffer_may_end_anywhere() {
        let text = "é,\"x\n\"\"y\"\"\"\r\nnext,\"\"\r\n";
        let mut record = Record::default();
        for end in 0..text.len() {
            let found = record.read(&text.as_bytes()[..end], &MARKS, false);
            assert_eq!(found.is_ok(), end >= 14, "{end}");
            assert!(found.is_ok() || found == Err(Incomplete::More));
            if end >= 14 {
                assert_eq!((record.bytes, record.lines), (14, 2));
            }
        }
    }
}
