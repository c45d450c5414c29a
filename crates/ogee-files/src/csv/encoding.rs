//! Text in other encodings as UTF-8: `read_csv(.., encoding = 'latin-1')`.
//!
//! Latin-1 is what Unicode begins with, byte for byte; other names are those that web pages have for encodings.
//!
//! Not here: which encoding a file has, which is said.

use std::io::{self, Read};

use datafusion::error::Result;
use encoding_rs::{CoderResult, Decoder, Encoding, UTF_8, UTF_16BE, UTF_16LE};
use ogee_functions::Error;

/// Bytes that are read at a time.
const BYTES: usize = 64 << 10;

/// How bytes become characters.
enum Coding {
    /// Each byte is a character.
    Latin1,
    /// What `Encoding` knows; of UTF-16 without a mark the first byte is the lower one.
    Known(Box<Decoder>),
}

/// `input`, which is text in `encoding`, in UTF-8.
///
/// # Errors
/// If there is no such encoding.
pub(super) fn decoded(input: Box<dyn Read + Send>, encoding: &str) -> Result<Box<dyn Read + Send>> {
    let known = |encoding: &'static Encoding| Coding::Known(Box::new(encoding.new_decoder_with_bom_removal()));
    let coding = match encoding.to_ascii_lowercase().as_str() {
        "utf-8" | "utf8" => return Ok(input),
        "latin-1" | "latin1" | "latin_1" | "iso-8859-1" | "iso_8859_1" | "iso8859-1" => Coding::Latin1,
        "utf-16" | "utf16" => Coding::Known(Box::new(UTF_16LE.new_decoder())),
        "utf-16-le" | "utf-16le" | "utf-16_le" => known(UTF_16LE),
        "utf-16-be" | "utf-16be" | "utf-16_be" => known(UTF_16BE),
        name => match Encoding::for_label(name.as_bytes()).filter(|encoding| *encoding != UTF_8) {
            Some(encoding) => known(encoding),
            None => {
                let why =
                    format!("the encoding '{encoding}' of CSV files is not known; use utf-8, utf-16 or latin-1, say");
                return Err(Error::Plan(why).into());
            }
        },
    };
    Ok(Box::new(Decoded { input, coding, raw: Vec::new(), text: Vec::new(), at: 0, is_done: false }))
}

struct Decoded {
    input: Box<dyn Read + Send>,
    coding: Coding,
    raw: Vec<u8>,
    /// In UTF-8, of which what is before `at` was given.
    text: Vec<u8>,
    at: usize,
    is_done: bool,
}

impl Decoded {
    /// Reads on.
    fn fill(&mut self) -> io::Result<()> {
        self.raw.resize(BYTES, 0);
        let read = self.input.read(&mut self.raw)?;
        let raw = &self.raw[..read];
        self.is_done = read == 0;
        (self.at, self.text) = (0, std::mem::take(&mut self.text));
        self.text.clear();
        match &mut self.coding {
            Coding::Latin1 => {
                let mut text = String::with_capacity(2 * read);
                text.extend(raw.iter().map(|byte| char::from(*byte)));
                self.text = text.into_bytes();
            }
            Coding::Known(decoder) => {
                let most = decoder.max_utf8_buffer_length(read).unwrap_or(4 * BYTES);
                self.text.resize(most, 0);
                let (result, _, written, is_wrong) = decoder.decode_to_utf8(raw, &mut self.text, self.is_done);
                if is_wrong {
                    let why = format!("its text is not in the encoding {}", decoder.encoding().name());
                    return Err(io::Error::new(io::ErrorKind::InvalidData, why));
                }
                debug_assert!(result == CoderResult::InputEmpty);
                self.text.truncate(written);
            }
        }
        Ok(())
    }
}

impl Read for Decoded {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at == self.text.len() {
            if self.is_done {
                return Ok(0);
            }
            self.fill()?;
        }
        let bytes = into.len().min(self.text.len() - self.at);
        into[..bytes].copy_from_slice(&self.text[self.at..self.at + bytes]);
        self.at += bytes;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn text(bytes: &[u8], encoding: &str) -> io::Result<String> {
        let mut text = String::new();
        decoded(Box::new(io::Cursor::new(bytes.to_vec())), encoding).unwrap().read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn encodings_are_read() {
        assert_eq!(text(b"caf\xe9 \x80", "latin-1").unwrap(), "caf\u{e9} \u{80}");
        assert_eq!(text(b"caf\xe9 \x80", "windows-1252").unwrap(), "caf\u{e9} \u{20ac}");
        assert_eq!(text(b"\xff\xfea\0\xe9\0", "UTF-16").unwrap(), "a\u{e9}");
        assert_eq!(text(b"\xfe\xff\0a\0\xe9", "utf-16").unwrap(), "a\u{e9}");
        assert_eq!(text(b"a\0b\0", "utf-16-le").unwrap(), "ab");
        assert!(text(b"a\0b", "utf-16-le").is_err());
        let long = "\u{e9}".repeat(100_000);
        let bytes: Vec<u8> = long.encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(text(&bytes, "utf-16").unwrap(), long);
        assert!(decoded(Box::new(io::empty()), "klingon").is_err());
    }
}
