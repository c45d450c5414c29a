//! Where the fields of many records are, in one pass over the text.
//!
//! Delimiters, quotes and ends of records are found 64 bytes at a time (`ogee_vector::Marks`); what is within quotes is passed over. Records have the same number of fields, so that those of a
//! column are at equal distances: columns are read one after the other.
//!
//! Not here: one record by itself (`records`), and what the fields stand for (`columns`).

use std::borrow::Cow;

use memchr::memchr;
use ogee_vector::Marks as Found;

use super::{
    records::{FIELDS_MAX, Incomplete, Marks, unescaped},
    sniff::{Given, is_comment},
};
use crate::cells::Cells;

/// What is wrong with a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// It is none.
    Record(Incomplete),
    /// It has so many fields.
    Width(usize),
    /// It has so many bytes.
    Long(usize),
}

/// How much is read at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Most {
    pub(super) rows: usize,
    pub(super) bytes: usize,
}

/// What is written in field `column` of each record of `text`; `None` where a record ends before it.
pub(super) fn texts<'a>(
    cells: &'a Cells,
    text: &'a [u8],
    column: usize,
    marks: &'a Marks,
) -> impl Iterator<Item = Option<Cow<'a, [u8]>>> {
    cells.column(column).map(move |place| {
        let (range, is_escaped) = place?;
        Some(if is_escaped { Cow::Owned(unescaped(&text[range], marks)) } else { Cow::Borrowed(&text[range]) })
    })
}

/// Puts the records from `at` on into `cells`, in place of those before, until there are as many as `most` says; gives where the next begins. Each has `width` fields. `text` ends with a record, or
/// the file with it.
///
/// # Errors
/// What is wrong with the record that begins at the place beside it.
pub(super) fn read(
    cells: &mut Cells,
    text: &[u8],
    mut at: usize,
    (marks, given): (&Marks, &Given),
    width: usize,
    most: Most,
) -> Result<usize, (usize, Wrong)> {
    cells.clear(width);
    let last = marks.terminator.unwrap_or(b'\n');
    let mut found = Found::new(text, [marks.delimiter, marks.quote, last, marks.terminator.unwrap_or(b'\r')], at);
    let begin = at;
    while at < text.len() && cells.rows() < most.rows && at - begin < most.bytes {
        let record = at;
        if given.comment.is_some() && is_comment(&text[at..], given.comment) {
            at = end_of_line(text, at, marks);
            found.seek(at);
            continue;
        }
        let fields;
        match record_at(cells, text, at, marks, &mut found) {
            Ok(read) => (at, fields) = read,
            // A record that something follows a quote in ends with its line.
            Err(Incomplete::AfterQuote) if given.ignores_errors => {
                cells.drop_record();
                at = end_of_line(text, at, marks);
                found.seek(at);
                continue;
            }
            Err(why) => return Err((record, Wrong::Record(why))),
        }
        if fields == width {
            cells.end_record(record);
        } else if fields == 1 && cells.is_empty(0) {
            // A blank line.
            cells.drop_record();
        } else if fields == width + 1 && cells.is_empty(width) || fields < width && given.truncated {
            cells.end_uneven_record(record);
        } else if given.ignores_errors {
            cells.drop_record();
        } else {
            return Err((record, Wrong::Width(fields)));
        }
        if let Some(most) = given.line_max
            && at - record > most
        {
            if !given.ignores_errors {
                return Err((record, Wrong::Long(at - record)));
            }
            cells.drop_last(record);
        }
    }
    Ok(at)
}

/// Takes the record that begins at `at`; gives where the next does, and the number of its fields.
#[inline]
fn record_at(
    cells: &mut Cells,
    text: &[u8],
    at: usize,
    marks: &Marks,
    found: &mut Found<'_>,
) -> Result<(usize, usize), Incomplete> {
    let (mut begin, mut fields) = (at, 0);
    loop {
        let mut mark = found.next_mark();
        let mut byte = text.get(mark).copied();
        if byte == Some(marks.quote) {
            if !text[begin..mark].iter().all(|byte| *byte == b' ') {
                // Not at the beginning of a field, it is a character as others are.
                continue;
            }
            let opening = mark - begin;
            let (close, is_escaped) = closing(text, mark + 1, marks).ok_or(Incomplete::Open)?;
            cells.push(mark + 1, close, is_escaped);
            let spaces = text[close + 1..].iter().take_while(|byte| **byte == b' ').count();
            found.seek(close + 1 + spaces);
            mark = found.next_mark();
            byte = text.get(mark).copied();
            let is_closed = mark == close + 1 + spaces
                && byte != Some(marks.quote)
                && (byte != Some(marks.delimiter) || marks.behind_delimiter(text, mark).is_some());
            if !is_closed && !marks.is_lenient {
                return Err(Incomplete::AfterQuote);
            }
            if !is_closed {
                // What follows belongs to the field.
                while byte == Some(marks.quote)
                    || byte == Some(marks.delimiter) && marks.behind_delimiter(text, mark).is_none()
                {
                    mark = found.next_mark();
                    byte = text.get(mark).copied();
                }
                let end = mark.min(text.len());
                let end = end - usize::from(text[end - 1] == marks.quote);
                cells.pop();
                cells.push(begin + opening + 1, end, is_escaped);
            }
        } else if byte == Some(marks.delimiter) && marks.behind_delimiter(text, mark).is_none() {
            continue;
        } else {
            cells.push(begin, mark, false);
        }
        fields += 1;
        if fields > FIELDS_MAX {
            return Err(Incomplete::Wide);
        }
        match byte {
            Some(byte) if byte == marks.delimiter && marks.tail.is_empty() => begin = mark + 1,
            Some(byte) if byte == marks.delimiter => {
                begin = mark + 1 + marks.tail.bytes().len();
                found.seek(begin);
            }
            Some(b'\r') if marks.terminator.is_none() && text.get(mark + 1) == Some(&b'\n') => {
                found.seek(mark + 2);
                return Ok((mark + 2, fields));
            }
            Some(_) => return Ok((mark + 1, fields)),
            None => return Ok((text.len(), fields)),
        }
    }
}

/// The quote that closes the field whose text begins at `at`, and whether there are escaped characters before it.
fn closing(text: &[u8], mut at: usize, marks: &Marks) -> Option<(usize, bool)> {
    let mut is_escaped = false;
    loop {
        let rest = text.get(at..)?;
        at += match marks.escape {
            Some(escape) => memchr::memchr2(marks.quote, escape, rest)?,
            None => memchr(marks.quote, rest)?,
        };
        let is_escape = match marks.escape {
            Some(escape) => text[at] == escape,
            None => text.get(at + 1) == Some(&marks.quote),
        };
        if !is_escape {
            return Some((at, is_escaped));
        }
        is_escaped = true;
        at += 2;
    }
}

/// Where the line ends, whatever is in it.
fn end_of_line(text: &[u8], at: usize, marks: &Marks) -> usize {
    let rest = &text[at..];
    let end = match marks.terminator {
        Some(terminator) => memchr(terminator, rest),
        None => memchr::memchr2(b'\n', b'\r', rest),
    };
    match end {
        None => text.len(),
        Some(end) if rest[end] == b'\r' && rest.get(end + 1) == Some(&b'\n') => at + end + 2,
        Some(end) => at + end + 1,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::{
        super::records::{PLAIN as MARKS, Record},
        *,
    };

    const ALL: Most = Most { rows: usize::MAX, bytes: usize::MAX };

    fn all(
        text: &[u8],
        marks: &Marks,
        given: &Given,
        width: usize,
    ) -> Result<Vec<Vec<Option<String>>>, (usize, Wrong)> {
        let mut cells = Cells::default();
        let end = read(&mut cells, text, 0, (marks, given), width, ALL)?;
        assert_eq!(end, text.len());
        let mut rows = vec![Vec::new(); cells.rows()];
        for column in 0..width {
            for (row, field) in rows.iter_mut().zip(texts(&cells, text, column, marks)) {
                row.push(field.map(|field| String::from_utf8_lossy(&field).into_owned()));
            }
        }
        Ok(rows)
    }

    #[test]
    fn fields_are_those_of_the_records() {
        // All texts of four parts.
        let parts: [&[u8]; 11] =
            [b"a", b",", b"\n", b"\r\n", b"\r", b"\"x\ny\"", b"\"q\"\"\n\"", b"\"", b" ", b"a\"b", b"\"\""];
        let mut numbers = [0_usize; 4];
        loop {
            // So that marks are in two blocks.
            let mut text = vec![b'x'; 61];
            numbers.iter().for_each(|&number| text.extend_from_slice(parts[number]));
            let (mut rest, mut record, mut records) = (&text[..], Record::default(), Vec::new());
            let expected = loop {
                if rest.is_empty() {
                    break Ok(records);
                }
                match record.read(rest, &MARKS, true) {
                    Ok(()) => {
                        let field = |i| Some(String::from_utf8_lossy(&record.field(rest, i, &MARKS)).into_owned());
                        records.push((0..record.len()).map(field).collect::<Vec<_>>());
                        rest = &rest[record.bytes..];
                    }
                    Err(why) => break Err((text.len() - rest.len(), Wrong::Record(why))),
                }
            };
            let width = match &expected {
                Ok(records) => records.iter().map(Vec::len).max().unwrap_or(1),
                Err(_) => 1,
            };
            let given = Given { truncated: true, ..Given::default() };
            let found = all(&text, &MARKS, &given, width);
            let expected = expected.map(|records| {
                let padded = records.into_iter().filter(|record| width == 1 || record != &[Some(String::new())]);
                let padded = padded.map(|mut record| {
                    record.resize(width, None);
                    record
                });
                padded.collect::<Vec<_>>()
            });
            if expected.is_ok() || !matches!(found, Err((_, Wrong::Width(_)))) {
                assert_eq!(found, expected, "{:?}", String::from_utf8_lossy(&text));
            }
            let Some(place) = numbers.iter().position(|number| number + 1 < parts.len()) else { break };
            numbers[..place].fill(0);
            numbers[place] += 1;
        }
    }

    #[test]
    fn records_of_another_width_are_named_or_passed_over() {
        let of = |text: &str, given: &Given| all(text.as_bytes(), &MARKS, given, 2).map(|rows| rows.len());
        let strict = Given::default();
        assert_eq!(of("a,b\n1,2,\n\n3,4", &strict), Ok(3));
        assert_eq!(of("a,b\n1\n", &strict), Err((4, Wrong::Width(1))));
        assert_eq!(of("a,b\n1,2,3\n", &strict), Err((4, Wrong::Width(3))));
        assert_eq!(of("a,b\n1\n1,2,3\nc,d", &Given { ignores_errors: true, ..strict.clone() }), Ok(2));
        let comments = Given { comment: Some(b'#'), ..strict };
        assert_eq!(of("a,b\n# it's \"one\r\nc,d\n#", &comments), Ok(2));
        let most = Most { rows: 2, bytes: usize::MAX };
        let mut cells = Cells::default();
        assert_eq!(read(&mut cells, b"1\n2\n3\n", 0, (&MARKS, &Given::default()), 1, most), Ok(4));
        assert_eq!((cells.rows(), cells.record(1)), (2, 2));
        let escaped = Marks { escape: Some(b'\\'), ..MARKS };
        let rows = all(b"\"a\\\"b\",\"c\\\\\"\n", &escaped, &Given::default(), 2).unwrap();
        assert_eq!(rows, [[Some("a\"b".to_owned()), Some("c\\".to_owned())]]);
    }
}
