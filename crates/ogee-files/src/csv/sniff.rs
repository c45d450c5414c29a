//! What a CSV file looks like, found out from its beginning: marks, header, names and kinds of columns.
//!
//! Follows DuckDB's sniffer where that never loses a row or a value without a word. A file whose records differ in
//! length is not cut in another way until they fit: the record is named when it is read.
//!
//! Not here: reading all of it.

use std::collections::HashSet;

use super::{
    records::{Incomplete, Marks, Record},
    values::{Kind, Kinds},
};

/// Records looked at, at least, if there are as many (DuckDB's number).
pub(super) const SAMPLE_ROWS: usize = 20_480;

/// Bytes looked at, at least, if there are as many: a file of this size has the types of all its values.
pub(super) const SAMPLE_BYTES: usize = 8 << 20;

/// Records by which marks are told apart.
const MARKS_ROWS: usize = 1000;

/// What is known before the file is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Given {
    pub(super) delimiter: Option<u8>,
    pub(super) quote: Option<u8>,
    pub(super) escape: Option<u8>,
    pub(super) terminator: Option<u8>,
    pub(super) comment: Option<u8>,
    pub(super) has_header: Option<bool>,
    /// Records may be shorter than the header.
    pub(super) truncated: bool,
    /// Records whose types count, if said.
    pub(super) rows: Option<usize>,
    /// Lines before the table.
    pub(super) skip: usize,
    /// Texts that stand for NULL, if not the empty one.
    pub(super) nulls: Option<Vec<String>>,
    /// Records that are wrong are passed over.
    pub(super) ignores_errors: bool,
}

impl Given {
    /// Whether `field` stands for NULL.
    pub(super) fn is_null(&self, field: &[u8]) -> bool {
        match &self.nulls {
            None => field.is_empty(),
            Some(nulls) => nulls.iter().any(|null| null.as_bytes() == field),
        }
    }
}

/// What a file looks like.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) marks: Marks,
    /// Bytes before the first record: a mark of the encoding, comments.
    pub(super) skip: usize,
    pub(super) has_header: bool,
    /// Distinct names of columns.
    pub(super) names: Vec<String>,
    pub(super) kinds: Vec<Kinds>,
    /// The file has nothing in it.
    pub(super) is_empty: bool,
}

/// Looks at `sample`, which `is_all` of the file or its beginning; gives the number of its records, too.
pub(super) fn look(sample: &[u8], is_all: bool, given: &Given) -> (Look, usize) {
    let skip = if sample.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let skip = comments(sample, lines(sample, skip, given.skip), is_all, given);
    let sample_of_records = &sample[skip..];
    let marks = marks(sample_of_records, is_all, given);
    let mut look = Look {
        marks,
        skip,
        has_header: false,
        names: Vec::new(),
        kinds: Vec::new(),
        is_empty: sample_of_records.is_empty(),
    };
    let mut first: Option<Vec<Vec<u8>>> = None;
    // What the first record would be if it were no header.
    let mut first_kinds = Vec::new();
    let (mut kinds, mut rows): (Vec<Kinds>, usize) = (Vec::new(), 0);
    let (mut rest, mut record) = (sample_of_records, Record::default());
    let enough = |rows: usize, read: usize| match given.rows {
        Some(most) => rows >= most,
        None => rows >= SAMPLE_ROWS && read >= SAMPLE_BYTES,
    };
    while !rest.is_empty() && !enough(rows, sample_of_records.len() - rest.len()) {
        if record.read(rest, &marks, is_all).is_err() {
            break;
        }
        let buffer = rest;
        rest = &rest[record.bytes..];
        if record.is_blank() && (first.is_none() || kinds.len() != 1) || is_comment(buffer, given.comment) {
            continue;
        }
        let fields = (0..record.len()).map(|index| record.field(buffer, index, &marks));
        let Some(first) = &first else {
            let fields: Vec<Vec<u8>> = fields.map(std::borrow::Cow::into_owned).collect();
            first_kinds = fields.iter().map(|field| kind_of(field, given)).collect();
            kinds = vec![Kinds::any(); fields.len()];
            first = Some(fields);
            continue;
        };
        rows += 1;
        for (kinds, field) in kinds.iter_mut().zip(fields).take(first.len()) {
            if !given.is_null(&field) {
                kinds.narrow(&field);
            }
        }
    }
    let Some(first) = first else {
        look.names = vec!["column0".to_owned()];
        look.kinds = vec![Kinds::any()];
        return (look, 0);
    };
    let has_header = given.has_header.unwrap_or_else(|| is_header(&first, &first_kinds, &kinds, rows));
    look.has_header = has_header;
    if !has_header {
        kinds = kinds.into_iter().zip(first_kinds).map(|(kinds, first)| kinds.and(first)).collect();
    }
    if given.rows == Some(0) {
        // Told not to look, so all are texts.
        kinds = vec![Kinds::any(); kinds.len()];
    }
    let name = |index: usize| match has_header {
        true => String::from_utf8_lossy(&first[index]).trim().to_owned(),
        false => String::new(),
    };
    look.names = distinct((0..first.len()).map(name));
    look.kinds = kinds;
    (look, rows)
}

/// Those of a column that has nothing but `field`.
fn kind_of(field: &[u8], given: &Given) -> Kinds {
    let mut kinds = Kinds::any();
    if !given.is_null(field) {
        kinds.narrow(field);
    }
    kinds
}

/// Whether a line is to be passed over.
pub(super) fn is_comment(line: &[u8], mark: Option<u8>) -> bool {
    mark.is_some() && line.first() == mark.as_ref()
}

/// A header is not what the columns below it are; where all are texts, or nothing is below it, a record of texts is
/// one.
fn is_header(first: &[Vec<u8>], first_kinds: &[Kinds], kinds: &[Kinds], rows: usize) -> bool {
    let text = |kinds: &Kinds| kinds.kind() == Kind::Text;
    if rows == 0 {
        return first_kinds.iter().all(text) && first.iter().any(|field| !field.is_empty());
    }
    let strange =
        first.iter().zip(kinds).any(|(field, kinds)| !field.is_empty() && !text(kinds) && !kinds.takes(field));
    let texts = kinds.iter().all(text);
    strange || texts && first.iter().any(|field| !field.is_empty())
}

/// Names for all columns, none twice in any spelling: `a`, `a_1`; those without a name are `column0` and so on, as
/// DuckDB has them.
pub(super) fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut taken = HashSet::new();
    let name = |(index, name): (usize, String)| {
        let name = if name.is_empty() { format!("column{index}") } else { name };
        let mut found = name.clone();
        let mut number = 0;
        while !taken.insert(found.to_lowercase()) {
            number += 1;
            found = format!("{name}_{number}");
        }
        found
    };
    names.enumerate().map(name).collect()
}

/// Where the line behind the first `count` begins.
fn lines(sample: &[u8], from: usize, count: usize) -> usize {
    let mut at = from;
    for _ in 0..count {
        match memchr::memchr(b'\n', &sample[at..]) {
            Some(end) => at += end + 1,
            None => return sample.len(),
        }
    }
    at
}

/// Where the lines end that begin with `#` before the table.
fn comments(sample: &[u8], from: usize, is_all: bool, given: &Given) -> usize {
    let mut at = from;
    while sample.get(at) == Some(&b'#') {
        let Some(end) = memchr::memchr(b'\n', &sample[at..]) else { return from };
        at += end + 1;
    }
    if at == from || at >= sample.len() {
        return from;
    }
    // A name may begin with it, too.
    let below = &sample[at..];
    let (mut header, mut comment) = (Record::default(), Record::default());
    let marks = marks(below, is_all, given);
    let is_table = header.read(below, &marks, is_all).is_ok() && header.len() > 1;
    let is_other = comment.read(&sample[from..], &marks, is_all).is_err() || comment.len() != header.len();
    if is_table && is_other { at } else { from }
}

/// The marks by which all records have as many fields, and most of them.
fn marks(sample: &[u8], is_all: bool, given: &Given) -> Marks {
    let plain = |delimiter: u8| Marks {
        delimiter,
        quote: given.quote.unwrap_or(b'"'),
        escape: given.escape,
        terminator: given.terminator,
    };
    let escaped = |marks: Marks| Marks { escape: given.escape.or(Some(b'\\')), ..marks };
    let candidates: Vec<u8> = match given.delimiter {
        Some(delimiter) => vec![delimiter],
        None => vec![b',', b';', b'\t', b'|'],
    };
    let mut best: Option<(usize, Marks)> = None;
    for marks in candidates.iter().map(|delimiter| plain(*delimiter)) {
        for marks in [marks, escaped(marks)] {
            let Some(fields) = regular(sample, is_all, &marks, given) else { continue };
            if best.is_none_or(|(most, _)| fields > most) {
                best = Some((fields, marks));
            }
        }
    }
    let default = plain(candidates[0]);
    match best {
        Some((1, _)) | None if given.delimiter.is_none() => {
            // Records of several lengths are no table of one column, if the first of them has columns.
            let mut header = Record::default();
            let several = |delimiter: &u8| {
                let marks = plain(*delimiter);
                match header.read(sample, &marks, is_all) {
                    Ok(()) => header.len() > 1,
                    // Who reads it tells that it has too many.
                    Err(problem) => problem == Incomplete::Wide,
                }
            };
            match candidates.iter().copied().find(several) {
                Some(delimiter) => plain(delimiter),
                None => best.map_or(default, |(_, marks)| marks),
            }
        }
        Some((_, marks)) => marks,
        None => default,
    }
}

/// The number of fields of each record at the beginning, if it is the same.
fn regular(sample: &[u8], is_all: bool, marks: &Marks, given: &Given) -> Option<usize> {
    let (mut rest, mut record, mut fields) = (sample, Record::default(), None);
    for _ in 0..MARKS_ROWS {
        if rest.is_empty() {
            break;
        }
        match record.read(rest, marks, is_all) {
            Ok(()) => {}
            Err(Incomplete::More) => break,
            Err(Incomplete::Open | Incomplete::AfterQuote | Incomplete::Wide) => return None,
        }
        let is_blank = record.is_blank() || is_comment(rest, given.comment);
        let empty_end = record.field(rest, record.len() - 1, marks).is_empty();
        rest = &rest[record.bytes..];
        if is_blank {
            continue;
        }
        let expected = *fields.get_or_insert(record.len());
        let fits = record.len() == expected
            || record.len() == expected + 1 && empty_end
            || record.len() < expected && given.truncated;
        if !fits {
            return None;
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Look {
        look(text.as_bytes(), true, &Given::default()).0
    }

    fn shape(text: &str) -> (Vec<String>, bool, u8) {
        let look = of(text);
        (look.names, look.has_header, look.marks.delimiter)
    }

    fn named(names: &[&str], has_header: bool, delimiter: u8) -> (Vec<String>, bool, u8) {
        (names.iter().map(|name| (*name).to_owned()).collect(), has_header, delimiter)
    }

    #[test]
    fn delimiters_and_headers_are_found() {
        assert_eq!(shape("id,x\n1,2\n"), named(&["id", "x"], true, b','));
        assert_eq!(shape("1,2.5,a\n2,3.5,b\n"), named(&["column0", "column1", "column2"], false, b','));
        assert_eq!(shape("id;x\n1;1,5\n2;2,5\n"), named(&["id", "x"], true, b';'));
        assert_eq!(shape("a,b\nx;y,z\n"), named(&["a", "b"], true, b','));
        assert_eq!(shape("id|x\n1|2\n"), named(&["id", "x"], true, b'|'));
        assert_eq!(shape("a,b\nx,y\n"), named(&["a", "b"], true, b','));
        assert_eq!(shape("id,x\n"), named(&["id", "x"], true, b','));
        assert_eq!(shape("5\n"), named(&["column0"], false, b','));
        assert_eq!(shape("x\nhello, world\nagain\n"), named(&["x"], true, b';'));
        assert_eq!(shape("id,x,y\n1,2\n3,4,5\n"), named(&["id", "x", "y"], true, b','));
        assert_eq!(shape("# c\n# d\nid,x\n1,2\n"), named(&["id", "x"], true, b','));
        assert_eq!(shape("#id,x\n1,2\n"), named(&["#id", "x"], true, b','));
        assert_eq!(shape("bob,1\nal,2\n"), named(&["column0", "column1"], false, b','));
        assert_eq!(shape("2023,2024\n1,2\n"), named(&["column0", "column1"], false, b','));
        assert!(of("").is_empty);
    }

    #[test]
    fn names_are_distinct_in_any_spelling() {
        assert_eq!(of("a,a,b,a\n1,2,3,4\n").names, ["a", "a_1", "b", "a_2"]);
        assert_eq!(of("a,a_1,a\n1,2,3\n").names, ["a", "a_1", "a_2"]);
        assert_eq!(of("a,A\n1,2\n").names, ["a", "A_1"]);
        assert_eq!(of("a,,b\n1,2,3\n").names, ["a", "column1", "b"]);
        assert_eq!(of("a, b\n1,2\n").names, ["a", "b"]);
    }

    #[test]
    fn backslashes_escape_where_records_are_regular_only_then() {
        assert_eq!(of("id,s\n1,\"a \\\"q\\\" b\"\n").marks.escape, Some(b'\\'));
        assert_eq!(of("id,s\n1,\"c:\\\"\n").marks.escape, None);
        assert_eq!(of("id,s\n1,\"a \"\"q\"\" b\"\n").marks.escape, None);
    }
}
