//! What a CSV file looks like, found out from its beginning: marks, header, names and kinds of columns.
//!
//! Follows DuckDB's sniffer where that never loses a row or a value without a word. A file whose records differ in
//! length is not cut in another way until they fit: the record is named when it is read.
//!
//! Not here: reading all of it.

use std::collections::HashSet;

use ogee_functions::letters::without_accents;

use super::{
    records::{Incomplete, Marks, NO_QUOTE, Record, Tail},
    values::{Kind, Kinds, Manner},
};

/// Records looked at, at least, if there are as many (DuckDB's number).
pub(super) const SAMPLE_ROWS: usize = 20_480;

/// Bytes looked at, at least, if there are as many: a file of this size has the types of all its values.
pub(super) const SAMPLE_BYTES: usize = 8 << 20;

/// Bytes of an example, at most.
const EXAMPLE_BYTES: usize = 64;

/// What fields are told apart by, if nothing is said of it.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Records by which marks are told apart.
const MARKS_ROWS: usize = 1000;

/// What is known before the file is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Given {
    pub(super) delimiter: Option<(u8, Tail)>,
    pub(super) quote: Option<u8>,
    /// `Some(None)`: there is none but the quote itself.
    pub(super) escape: Option<Option<u8>>,
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
    /// In quotes they do not.
    pub(super) has_quoted_texts: bool,
    /// Columns in which they do not, by names in small letters.
    pub(super) never_null: Vec<String>,
    /// Records that are wrong are passed over.
    pub(super) ignores_errors: bool,
    /// What follows a closing quote belongs to the field.
    pub(super) is_lenient: bool,
    /// Bytes of a record, at most.
    pub(super) line_max: Option<usize>,
    /// Names have letters, digits and underscores alone.
    pub(super) has_plain_names: bool,
    /// Files have other columns than the first has.
    pub(super) is_union: bool,
    /// Declared columns are those of the file by their places, whatever its header says.
    pub(super) by_place: bool,
    pub(super) encoding: Option<String>,
    pub(super) manner: Manner,
}

impl Given {
    /// What may part fields.
    fn delimiters(&self) -> Vec<(u8, Tail)> {
        match self.delimiter {
            Some(delimiter) => vec![delimiter],
            None => DELIMITERS.map(|delimiter| (delimiter, Tail::default())).to_vec(),
        }
    }

    /// Whether `field` stands for NULL.
    pub(super) fn is_null(&self, field: &[u8]) -> bool {
        match &self.nulls {
            None => field.is_empty(),
            Some(nulls) => nulls.iter().any(|null| null.as_bytes() == field),
        }
    }

    /// Whether no value of the column of this name is NULL.
    pub(super) fn is_never_null(&self, name: &str) -> bool {
        self.never_null.iter().any(|known| known == "*" || known.eq_ignore_ascii_case(name))
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
    /// The first value of each column that is not NULL.
    pub(super) examples: Vec<Option<Vec<u8>>>,
    /// The file has nothing in it.
    pub(super) is_empty: bool,
}

/// Looks at `sample`, which `is_all` of the file or its beginning; gives the number of its records, too.
pub(super) fn look(sample: &[u8], is_all: bool, given: &Given) -> (Look, usize) {
    let skip = if sample.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let skip = comments(sample, lines(sample, skip, given.skip), is_all, given);
    let mut skip = skip;
    let mut marks = marks_of(&sample[skip..], is_all, given);
    if let Some(bytes) = preamble(&sample[skip..], is_all, &marks, given) {
        skip += bytes;
        marks = marks_of(&sample[skip..], is_all, given);
    }
    let sample_of_records = &sample[skip..];
    let mut look = Look {
        marks,
        skip,
        has_header: false,
        names: Vec::new(),
        kinds: Vec::new(),
        examples: Vec::new(),
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
        let fields = (0..record.len()).map(|index| {
            let is_text = given.has_quoted_texts && record.is_quoted(buffer, index, &marks);
            (record.field(buffer, index, &marks), is_text)
        });
        let Some(first) = &mut first else {
            let fields: Vec<(Vec<u8>, bool)> = fields.map(|(field, is_text)| (field.into_owned(), is_text)).collect();
            first_kinds = fields.iter().map(|(field, is_text)| kind_of(field, *is_text, given)).collect();
            kinds = vec![given.manner.kinds(); fields.len()];
            first = Some(fields.into_iter().map(|(field, _)| field).collect());
            continue;
        };
        // What is passed over says nothing of types.
        if given.ignores_errors && record.len() != first.len() && !given.truncated {
            continue;
        }
        rows += 1;
        // Where records may be shorter than the longest, that has all columns.
        if given.truncated && record.len() > first.len() {
            first.resize(record.len(), Vec::new());
            first_kinds.resize(record.len(), given.manner.kinds());
            kinds.resize(record.len(), given.manner.kinds());
        }
        look.examples.resize(first.len(), None);
        for ((kinds, example), (field, is_text)) in
            kinds.iter_mut().zip(&mut look.examples).zip(fields).take(first.len())
        {
            if is_text || !given.is_null(&field) {
                kinds.narrow_as(&field, &given.manner);
                example.get_or_insert_with(|| field[..field.len().min(EXAMPLE_BYTES)].to_vec());
            }
        }
    }
    let Some(first) = first else {
        look.names = vec!["column0".to_owned()];
        look.kinds = vec![Kinds::any()];
        return (look, 0);
    };
    let has_header = given.has_header.unwrap_or_else(|| is_header(&first, &first_kinds, &kinds, rows, given));
    look.has_header = has_header;
    if !has_header {
        kinds = kinds.into_iter().zip(first_kinds).map(|(kinds, first)| kinds.and(first)).collect();
    }
    if given.rows == Some(0) {
        // Told not to look, so all are texts.
        kinds = vec![Kinds::any(); kinds.len()];
    }
    let name = |index: usize| match has_header {
        true if given.has_plain_names => plain_name(&String::from_utf8_lossy(&first[index])),
        true => String::from_utf8_lossy(&first[index]).trim().to_owned(),
        false => String::new(),
    };
    look.names = distinct((0..first.len()).map(name));
    look.kinds = kinds;
    (look, rows)
}

/// Those of a column that has nothing but `field`.
fn kind_of(field: &[u8], is_text: bool, given: &Given) -> Kinds {
    let mut kinds = given.manner.kinds();
    if is_text || !given.is_null(field) {
        kinds.narrow_as(field, &given.manner);
    }
    kinds
}

/// Whether a line is to be passed over.
pub(super) fn is_comment(line: &[u8], mark: Option<u8>) -> bool {
    mark.is_some() && line.first() == mark.as_ref()
}

/// A header is not what the columns below it are; where all are texts, or nothing is below it, a record of texts is
/// one.
fn is_header(first: &[Vec<u8>], first_kinds: &[Kinds], kinds: &[Kinds], rows: usize, given: &Given) -> bool {
    let text = |kinds: &Kinds| kinds.kind() == Kind::Text;
    if rows == 0 {
        return first_kinds.iter().all(text) && first.iter().any(|field| !field.is_empty());
    }
    // Columns without names, above values.
    if first.iter().all(Vec::is_empty) && kinds.len() > 1 && !kinds.iter().all(text) {
        return true;
    }
    let strange = first
        .iter()
        .zip(kinds)
        .any(|(field, kinds)| !field.is_empty() && !text(kinds) && !kinds.takes(field, &given.manner));
    let texts = kinds.iter().all(text);
    strange || texts && first.iter().any(|field| !field.is_empty())
}

/// Names for all columns, none twice in any spelling: `a`, `a_1`; those without a name are `column0` and so on, with
/// as many digits as the last one has, as in DuckDB.
pub(super) fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let names: Vec<String> = names.collect();
    let digits = names.len().saturating_sub(1).to_string().len();
    let mut taken = HashSet::new();
    let name = |(index, name): (usize, String)| {
        let name = if name.is_empty() { format!("column{index:0digits$}") } else { name };
        let mut found = name.clone();
        let mut number = 0;
        while !taken.insert(found.to_lowercase()) {
            number += 1;
            found = format!("{name}_{number}");
        }
        found
    };
    names.into_iter().enumerate().map(name).collect()
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

/// Bytes of what stands before the table: records of fewer fields than all that follow have, as DuckDB finds them. `None` where the records are regular from the first on, or nowhere.
fn preamble(sample: &[u8], is_all: bool, marks: &Marks, given: &Given) -> Option<usize> {
    let is_regular = regular(sample, is_all, marks, given).is_some_and(|(fields, _)| fields > 1);
    if is_regular || given.skip > 0 || given.truncated || given.ignores_errors {
        return None;
    }
    let candidates = given.delimiters();
    let quote = given.quote.unwrap_or(b'"');
    let mut best: Option<(usize, usize)> = None;
    for (delimiter, tail) in candidates {
        let Some((fields, bytes)) = table_behind(sample, is_all, &Marks { delimiter, tail, quote, ..*marks }, given)
        else {
            continue;
        };
        if best.is_none_or(|(most, _)| fields > most) {
            best = Some((fields, bytes));
        }
    }
    best.map(|(_, bytes)| bytes)
}

/// The fields of each record of a table, and where it begins: behind records that all have fewer.
fn table_behind(sample: &[u8], is_all: bool, marks: &Marks, given: &Given) -> Option<(usize, usize)> {
    // Where each record begins, and its fields; none of a blank one.
    let mut records: Vec<(usize, usize)> = Vec::new();
    let (mut at, mut record) = (0, Record::default());
    while at < sample.len() && records.len() < MARKS_ROWS {
        let rest = &sample[at..];
        match record.read(rest, marks, is_all) {
            Ok(()) => {}
            Err(Incomplete::More) => break,
            Err(Incomplete::Open | Incomplete::AfterQuote | Incomplete::Wide) => return None,
        }
        let is_blank = record.is_blank() || is_comment(rest, given.comment);
        records.push((at, if is_blank { 0 } else { record.len() }));
        at += record.bytes;
    }
    let width =
        records.iter().rev().map(|(_, fields)| *fields).find(|&fields| fields > 0).filter(|&width| width > 1)?;
    let before = records.iter().rposition(|(_, fields)| *fields != 0 && *fields != width)?;
    let table = before + 1 + records[before + 1..].iter().position(|(_, fields)| *fields == width)?;
    let rows = records[table..].iter().filter(|(_, fields)| *fields > 0).count();
    if rows < 2 || records[..table].iter().any(|(_, fields)| *fields >= width) {
        return None;
    }
    // Names of too few columns are told of, and no text before the table.
    let is_apart = before + 1 < table || records[..table].iter().all(|(_, fields)| *fields <= 1);
    if !is_apart {
        let first = &sample[records[table].0..];
        record.read(first, marks, is_all).ok()?;
        let is_name = |index: usize| {
            let field = record.field(first, index, marks);
            !field.is_empty() && kind_of(&field, false, given).kind() == Kind::Text
        };
        if !(0..width).all(is_name) {
            return None;
        }
    }
    Some((width, records[table].0))
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
    let marks = marks_of(below, is_all, given);
    let is_table = header.read(below, &marks, is_all).is_ok() && header.len() > 1;
    let is_other = comment.read(&sample[from..], &marks, is_all).is_err() || comment.len() != header.len();
    if is_table && is_other { at } else { from }
}

/// The marks by which all records have as many fields, and most of them; of several those by which most are in quotes.
fn marks_of(sample: &[u8], is_all: bool, given: &Given) -> Marks {
    let candidates = given.delimiters();
    let quotes: Vec<u8> = given.quote.map_or_else(|| vec![b'"', b'\'', NO_QUOTE], |quote| vec![quote]);
    let of = |(delimiter, tail): (u8, Tail), quote: u8| Marks {
        delimiter,
        tail,
        quote,
        escape: given.escape.flatten().filter(|escape| *escape != quote),
        terminator: given.terminator,
        is_lenient: given.is_lenient,
    };
    let plain = |delimiter: (u8, Tail)| of(delimiter, quotes[0]);
    // The marks of a delimiter and a quote by which records have most fields, how many, and how many are in quotes.
    let found = |delimiter: (u8, Tail), quote: u8| {
        let marks = of(delimiter, quote);
        let escaped = Marks { escape: Some(b'\\'), ..marks };
        let with_escapes = (given.escape.is_none() && quote != NO_QUOTE).then_some(escaped);
        let mut best: Option<((usize, usize), Marks)> = None;
        for marks in [Some(marks), with_escapes].into_iter().flatten() {
            let Some(found) = regular(sample, is_all, &marks, given) else { continue };
            if best.is_none_or(|((most, _), _)| found.0 > most) {
                best = Some((found, marks));
            }
        }
        best
    };
    let mut best: Option<((usize, usize), Marks)> = None;
    for delimiter in candidates.iter().copied() {
        let mut of_delimiter: Option<((usize, usize), Marks)> = None;
        for quote in quotes.iter().copied() {
            // Without quotes only what no quotes fit.
            if quote == NO_QUOTE && of_delimiter.is_some() {
                continue;
            }
            let Some(found) = found(delimiter, quote) else { continue };
            // One that stands nowhere is none, but for the usual one.
            if quote != quotes[0] && quote != NO_QUOTE && found.0.1 == 0 {
                continue;
            }
            if of_delimiter.is_none_or(|((_, quoted), _)| found.0.1 > quoted) {
                of_delimiter = Some(found);
            }
        }
        let Some(found) = of_delimiter else { continue };
        if best.is_none_or(|((most, _), _)| found.0.0 > most) {
            best = Some(found);
        }
    }
    let default = plain(candidates[0]);
    match best {
        Some(((1, _), _)) | None if given.delimiter.is_none() => {
            // Records of several lengths are no table of one column, if the first of them has columns.
            let mut header = Record::default();
            let several = |delimiter: &(u8, Tail)| {
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

/// The number of fields of each record at the beginning, if it is the same, and how many are in quotes.
fn regular(sample: &[u8], is_all: bool, marks: &Marks, given: &Given) -> Option<(usize, usize)> {
    let (mut rest, mut record, mut fields, mut quoted) = (sample, Record::default(), None, 0);
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
        let in_quotes = record.quoted_fields(rest, marks);
        rest = &rest[record.bytes..];
        if is_blank {
            continue;
        }
        quoted += in_quotes;
        let expected = *fields.get_or_insert(record.len());
        let fits = record.len() == expected
            || record.len() == expected + 1 && empty_end
            || record.len() < expected && given.truncated
            || given.truncated && record.len() > 1 && expected > 1;
        if !fits {
            return None;
        }
    }
    fields.map(|fields| (fields, quoted))
}

/// Words that names of columns are not.
const RESERVED: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "column",
    "constraint",
    "create",
    "default",
    "deferrable",
    "desc",
    "describe",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "from",
    "group",
    "having",
    "in",
    "initially",
    "intersect",
    "into",
    "lambda",
    "lateral",
    "leading",
    "limit",
    "not",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "pivot",
    "pivot_longer",
    "pivot_wider",
    "placing",
    "primary",
    "qualify",
    "references",
    "returning",
    "select",
    "show",
    "some",
    "summarize",
    "symmetric",
    "table",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "unpivot",
    "using",
    "variadic",
    "when",
    "where",
    "window",
    "with",
];

/// `name` in small letters without accents, with digits and underscores, and with an underscore before what is no name.
fn plain_name(name: &str) -> String {
    let letters = without_accents(name.trim());
    let letters = letters.chars().map(|char| if char == ' ' { '_' } else { char.to_ascii_lowercase() });
    let name: String = letters.filter(|char| char.is_ascii_alphanumeric() || *char == '_').collect();
    match name.starts_with(|char: char| char.is_ascii_digit()) || RESERVED.contains(&name.as_str()) {
        true => format!("_{name}"),
        false => name,
    }
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
    fn what_stands_before_the_table_is_none_of_it() {
        for (text, names, has_header, delimiter) in [
            ("title line\na,b\n1,2\n3,4\n", &["a", "b"][..], true, b','),
            ("Report\n\na;b;c\n1;2;3\n", &["a", "b", "c"], true, b';'),
            ("Made 2024-01-01, by me\na,b,c\n1,2,3\n", &["a", "b", "c"], true, b','),
            ("x\nx,x\n\n1,2,3\n4,5,6\n", &["column0", "column1", "column2"], false, b','),
            ("\"two\nlines\"\na,b\n1,2\n", &["a", "b"], true, b','),
            // Nor is one a header of too few names, and what is among the rows.
            ("a,b\n1,2,3\n4,5,6\n", &["a", "b"], true, b','),
            ("a,b\n1,2\n3,4,5\n5,6\n7,8\n", &["a", "b"], true, b','),
            ("one\ntwo\nthree\n", &["one"], true, b','),
            (",,\n1,x,3\n", &["column0", "column1", "column2"], true, b','),
        ] {
            assert_eq!(shape(text), named(names, has_header, delimiter), "{text}");
        }
    }

    #[test]
    fn quotes_are_found() {
        let quote = |text: &str| of(text).marks.quote;
        assert_eq!(quote("a,b\n1,'x,y'\n2,'z'\n"), b'\'');
        assert_eq!(quote("a,b\n1,'x'\n"), b'\'');
        assert_eq!(quote("a,b\n1,it's\n"), b'"');
        assert_eq!(quote("1,\"x, y\"\n2,\"z, w\"\n"), b'"');
        assert_eq!(quote("a,b\n1,\"x\"y\n"), NO_QUOTE);
        let given = Given { quote: Some(b'"'), ..Given::default() };
        assert_eq!(look(b"a,b\n1,'x'\n", true, &given).0.marks.quote, b'"');
    }

    #[test]
    fn names_may_be_made_plain() {
        let names = ["A b", "select", "1x", "\u{fc} y!", "", "__x", "a--b"].map(plain_name);
        assert_eq!(names, ["a_b", "_select", "_1x", "u_y", "", "__x", "ab"]);
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
