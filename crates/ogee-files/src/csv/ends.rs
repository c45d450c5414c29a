//! Where records of a CSV file end, found without reading their fields.
//!
//! Ends of lines count, but for those within quotes. Only a quote at the beginning of a field opens one; so what is looked at are quotes, and the ends of lines behind the last of them.
//!
//! Not here: fields (`records`).

use std::sync::Arc;

use memchr::{memchr, memrchr, memrchr2};

use super::{
    records::{Marks, Record},
    sniff::{Given, Look},
};
use crate::pieces::Ends;

/// Where the records of a file end that looks like `look`.
pub(super) struct RecordEnds {
    look: Arc<Look>,
    /// Quotes mean nothing in a comment.
    has_comments: bool,
    record: Record,
}

impl RecordEnds {
    pub(super) fn new(look: &Arc<Look>, given: &Given) -> Self {
        Self { look: Arc::clone(look), has_comments: given.comment.is_some(), record: Record::default() }
    }
}

impl Ends for RecordEnds {
    const RECORD_BYTES_MAX: usize = 64 << 20;
    const TOO_LONG: &'static str = "a record of more than 64 MiB begins here; is a quote not closed?";

    fn whole(&mut self, text: &[u8], is_first: bool) -> usize {
        let skip = if is_first { self.look.skip } else { 0 };
        let Some(records) = text.get(skip..).filter(|records| !records.is_empty()) else { return 0 };
        let marks = &self.look.marks;
        let is_special = marks.escape.is_some() || !marks.tail.is_empty() || marks.is_lenient;
        let whole = match is_special || self.has_comments {
            true => self.one_by_one(records),
            false => last_end(records, marks),
        };
        if whole == 0 { 0 } else { skip + whole }
    }
}

impl RecordEnds {
    /// As [`last_end`], record by record.
    fn one_by_one(&mut self, text: &[u8]) -> usize {
        let mut whole = 0;
        while self.record.read(&text[whole..], &self.look.marks, false).is_ok() {
            whole += self.record.bytes;
        }
        whole
    }
}

/// Bytes of the records that end in `text`, which begins with one.
fn last_end(text: &[u8], marks: &Marks) -> usize {
    let mut gap = 0;
    // Where no quote is open; the last is behind all quotes.
    let mut gaps: Vec<(usize, usize)> = Vec::new();
    let mut at = 0;
    loop {
        let Some(quote) = memchr(marks.quote, &text[at..]).map(|quote| at + quote) else {
            gaps.push((gap, text.len()));
            break;
        };
        if !begins_field(text, quote, marks) {
            at = quote + 1;
            continue;
        }
        gaps.push((gap, quote));
        let Some(close) = closing(text, quote + 1, marks.quote) else { break };
        (gap, at) = (close + 1, close + 1);
        if at >= text.len() {
            break;
        }
    }
    gaps.into_iter().rev().find_map(|(begin, end)| last_end_within(text, begin, end, marks)).unwrap_or(0)
}

/// Whether a field begins at `at`, or blanks before it that belong to it.
fn begins_field(text: &[u8], at: usize, marks: &Marks) -> bool {
    match text[..at].iter().rev().find(|byte| **byte != b' ') {
        None => true,
        Some(byte) => {
            *byte == marks.delimiter
                || match marks.terminator {
                    Some(terminator) => *byte == terminator,
                    None => matches!(byte, b'\n' | b'\r'),
                }
        }
    }
}

/// The quote that closes what is open from `at` on; `None` if that is not known yet.
fn closing(text: &[u8], mut at: usize, quote: u8) -> Option<usize> {
    loop {
        at += memchr(quote, text.get(at..)?)?;
        match text.get(at + 1) {
            Some(next) if *next == quote => at += 2,
            Some(_) => return Some(at),
            // Another quote may follow.
            None => return None,
        }
    }
}

/// Where the last record ends whose end is in `begin..end` of `text`, where no quote is open.
fn last_end_within(text: &[u8], begin: usize, end: usize, marks: &Marks) -> Option<usize> {
    let gap = &text[begin..end];
    if let Some(terminator) = marks.terminator {
        return memrchr(terminator, gap).map(|at| begin + at + 1);
    }
    let mut gap = gap;
    loop {
        let at = memrchr2(b'\n', b'\r', gap)?;
        // Which of two ends a last one is, is not known.
        if gap[at] == b'\n' || begin + at + 1 < text.len() && text[begin + at + 1] != b'\n' {
            return Some(begin + at + 1);
        }
        gap = &gap[..at];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::super::records::PLAIN as MARKS;

    /// By reading the records.
    fn by_records(text: &[u8], marks: &Marks) -> usize {
        let (mut whole, mut record) = (0, Record::default());
        while record.read(&text[whole..], marks, false).is_ok() {
            whole += record.bytes;
        }
        whole
    }

    #[test]
    fn ends_are_those_of_the_records() {
        let parts: &[&[u8]] =
            &[b"a", b",", b"\n", b"\r\n", b"\r", b"\"x\ny\"", b"\"q\"\"\n\"", b"\"", b" ", b"a\"b", b"\"\"", b"|"];
        // All texts of five parts.
        let mut numbers = [0_usize; 5];
        loop {
            let text: Vec<u8> = numbers.iter().flat_map(|&number| parts[number]).copied().collect();
            for marks in [MARKS, Marks { terminator: Some(b'|'), ..MARKS }] {
                let (expected, found) = (by_records(&text, &marks), last_end(&text, &marks));
                // Behind what follows a closing quote, which is an error, nothing counts.
                let mut record = Record::default();
                let is_wrong =
                    record.read(&text[expected..], &marks, true) == Err(super::super::records::Incomplete::AfterQuote);
                assert!(
                    found == expected || is_wrong && found >= expected,
                    "{:?}: {found}, not {expected}",
                    String::from_utf8_lossy(&text)
                );
            }
            let Some(place) = numbers.iter().position(|number| number + 1 < parts.len()) else { break };
            numbers[..place].fill(0);
            numbers[place] += 1;
        }
    }
}
