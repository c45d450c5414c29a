//! What was found out of a file, for people to see.
//!
//! Not here: finding it out (`sniff`).

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::DataType,
    error::Result,
    object_store::{ObjectMeta, ObjectStore},
};
use ogee_functions::times::formats::MomentFormat;

use super::{
    format::Reading,
    records::{NO_DELIMITER, NO_QUOTE},
    values::{Kind, Order, SEPARATORS},
};

/// What a file looks like.
#[derive(Debug)]
pub(crate) struct Sniffed {
    pub(crate) delimiter: String,
    /// Empty where there are none, and so below.
    pub(crate) quote: String,
    pub(crate) escape: String,
    pub(crate) comment: String,
    /// As it is written in a text of C.
    pub(crate) new_line: &'static str,
    pub(crate) skipped_lines: usize,
    pub(crate) has_header: bool,
    pub(crate) columns: Vec<(String, DataType)>,
    pub(crate) date_format: Option<String>,
    pub(crate) timestamp_format: Option<String>,
}

impl Reading {
    /// What `file` looks like.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) async fn sniffed(&self, store: &Arc<dyn ObjectStore>, file: &ObjectMeta) -> Result<Sniffed> {
        let look = self.look(store, file, false).await?;
        let mut beginning = Vec::new();
        std::io::Read::read_to_end(
            &mut std::io::Read::take(self.input(store, file).await?, BEGINNING),
            &mut beginning,
        )?;
        let mark = |byte: u8| String::from_utf8_lossy(&[byte]).into_owned();
        let mut delimiter = vec![look.marks.delimiter];
        delimiter.extend_from_slice(look.marks.tail.bytes());
        if delimiter == [NO_DELIMITER] {
            delimiter.clear();
        }
        let has_quotes = look.marks.quote != NO_QUOTE && beginning.contains(&look.marks.quote);
        let is_doubled = has_quotes && beginning.windows(2).any(|pair| pair == [look.marks.quote; 2]);
        let escape = look.marks.escape.or(is_doubled.then_some(look.marks.quote));
        let end = memchr::memchr2(b'\n', b'\r', &beginning);
        let new_line = match end.map(|at| (beginning[at], beginning.get(at + 1))) {
            Some((b'\r', Some(b'\n'))) => "\\r\\n",
            Some((b'\r', _)) => "\\r",
            _ => "\\n",
        };
        let kinds: Vec<Kind> = look.kinds.iter().map(|kinds| kinds.kind()).collect();
        let separators = look.examples.iter().map(|example| {
            let found = example.iter().flatten().skip(1).find(|byte| SEPARATORS.contains(byte));
            found.map_or('-', |byte| char::from(*byte))
        });
        let found: Vec<(Kind, char)> = kinds.iter().copied().zip(separators.chain(std::iter::repeat('-'))).collect();
        let date = found.iter().find_map(|(kind, separator)| match kind {
            Kind::Date(order) => Some(order.format(*separator)),
            _ => None,
        });
        let timestamp = found.iter().find_map(|(kind, separator)| match kind {
            Kind::Timestamp(order, _) if *order != Order::YearMonthDay => {
                Some(format!("{} %H:%M:%S", order.format(*separator)))
            }
            _ => None,
        });
        let said = |format: &Option<MomentFormat>| format.as_ref().map(|format| format.text().to_owned());
        let skipped = beginning.get(..look.skip.min(beginning.len())).unwrap_or_default();
        Ok(Sniffed {
            delimiter: String::from_utf8_lossy(&delimiter).into_owned(),
            quote: if has_quotes { mark(look.marks.quote) } else { String::new() },
            escape: escape.map(mark).unwrap_or_default(),
            comment: self.given.comment.map(mark).unwrap_or_default(),
            new_line,
            skipped_lines: memchr::memchr_iter(b'\n', skipped).count(),
            has_header: look.has_header,
            columns: look.names.iter().cloned().zip(kinds.iter().map(|kind| kind.data_type())).collect(),
            date_format: said(&self.given.manner.date).or(date),
            timestamp_format: said(&self.given.manner.timestamp).or(timestamp),
        })
    }
}

/// Bytes in which marks are looked for.
const BEGINNING: u64 = 1 << 20;
