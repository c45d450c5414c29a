//! Files of text, cut into pieces of whole records: what is behind a record's end can be read without what is before it.
//!
//! ```text
//! file ──Cutter──> piece, piece, ..        one lane at a time: bytes are read, and the last end of a record is looked for
//!        each piece ──PieceReader──> batches        by the lane that took it
//! ```
//!
//! Not here: where records end (`csv`, `json`), and who takes pieces (`text_scan`).

use std::io::{ErrorKind, Read};

use datafusion::{
    arrow::array::{ArrayRef, RecordBatch},
    error::Result,
};
use ogee_functions::Error;
use ogee_memory::MemoryError;

use crate::{
    read_through::Batches,
    text_memory::{Part, TextMemory},
};

/// Bytes of a piece, if a record ends among them.
pub(crate) const PIECE_BYTES: usize = 1 << 20;

/// Whole records of a file.
#[derive(Default)]
pub(crate) struct Piece {
    /// The text, up to `end`; what is behind it is memory to read into.
    pub(crate) bytes: Vec<u8>,
    pub(crate) end: usize,
    /// The number of the line that it begins in.
    pub(crate) line: u64,
    pub(crate) place: Place,
}

/// Where in its file a piece is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) is_first: bool,
    /// Nothing comes behind it.
    pub(crate) is_last: bool,
    /// What it begins with, unless the file begins with it.
    pub(crate) mode: Mode,
}

/// What comes next in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Records, one after the other.
    #[default]
    Records,
    /// Items of an array that is the file, behind its first.
    Items,
    /// The array is closed: nothing.
    Behind,
}

/// Where records end.
pub(crate) trait Ends: Send + 'static {
    /// The longest record that is read, and what is said of longer ones.
    const RECORD_BYTES_MAX: usize;
    const TOO_LONG: &'static str;

    /// What comes behind the records found so far.
    fn mode(&self) -> Mode {
        Mode::Records
    }

    /// Bytes of the records that end in `text`, which begins with one; 0 if none does. `is_first`: the file begins with it.
    fn whole(&mut self, text: &[u8], is_first: bool) -> usize;
}

/// Cuts one file.
pub(crate) struct Cutter<E> {
    input: Box<dyn Read + Send>,
    /// The file's name.
    name: String,
    ends: E,
    /// The beginning of a record whose end was not read.
    carry: Vec<u8>,
    /// The number of the line that it is in.
    line: u64,
    is_begun: bool,
    is_done: bool,
    memory: TextMemory,
}

impl<E: Ends> Cutter<E> {
    pub(crate) fn new(input: Box<dyn Read + Send>, name: String, ends: E, memory: TextMemory) -> Self {
        Self { input, name, ends, carry: Vec::new(), line: 1, is_begun: false, is_done: false, memory }
    }

    fn error(&self, what: impl std::fmt::Display) -> Error {
        Error::Source(format!("'{}', line {}: {what}", self.name, self.line))
    }

    fn too_long(&self, error: &MemoryError) -> Error {
        self.error(format!("no memory for the record that begins here: {error}"))
    }

    /// The next piece into `piece`, whose memory is used again, out of `memory`; whether there is one.
    pub(crate) fn next(&mut self, piece: &mut Piece, memory: &mut TextMemory) -> Result<bool> {
        if self.is_done {
            return Ok(false);
        }
        let (mut end, mode) = (0, self.ends.mode());
        loop {
            // First what was left, then as much again where that is long.
            let wanted = (2 * end.max(self.carry.len())).clamp(PIECE_BYTES, E::RECORD_BYTES_MAX);
            memory.grow(&mut piece.bytes, wanted).map_err(|error| self.too_long(&error))?;
            if end == 0 {
                end = self.carry.len();
                piece.bytes[..end].copy_from_slice(&self.carry);
                self.carry.clear();
            }
            let is_last = self.fill(&mut piece.bytes, &mut end)?;
            let is_first = !self.is_begun;
            let whole = if is_last { end } else { self.ends.whole(&piece.bytes[..end], is_first) };
            if whole == 0 && !is_last {
                if end >= E::RECORD_BYTES_MAX {
                    return Err(self.error(E::TOO_LONG).into());
                }
                continue;
            }
            let left = &piece.bytes[whole..end];
            self.memory.set(Part::Text, left.len()).map_err(|error| self.too_long(&error))?;
            self.carry.extend_from_slice(left);
            (piece.end, piece.line, piece.place) = (whole, self.line, Place { is_first, is_last, mode });
            self.line += lines(&piece.bytes[..whole]);
            (self.is_begun, self.is_done) = (true, is_last);
            return Ok(true);
        }
    }

    /// Reads until `bytes` are full; whether the file ends before.
    fn fill(&mut self, bytes: &mut [u8], end: &mut usize) -> Result<bool> {
        while *end < bytes.len() {
            match self.input.read(&mut bytes[*end..]) {
                Ok(0) => return Ok(true),
                Ok(read) => *end += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::Source(format!("cannot read '{}': {error}", self.name)).into()),
            }
        }
        Ok(false)
    }
}

/// Ends of lines in `text`.
pub(crate) fn lines(text: &[u8]) -> u64 {
    match memchr::memchr_iter(b'\n', text).count() {
        0 => memchr::memchr_iter(b'\r', text).count() as u64,
        lines => lines as u64,
    }
}

/// A file that is cut, whatever is in it.
pub(crate) trait Pieces: Send {
    /// As [`Cutter::next`].
    ///
    /// # Errors
    /// If the file cannot be read, or a record is too long.
    fn next(&mut self, piece: &mut Piece, memory: &mut TextMemory) -> Result<bool>;

    /// One who reads pieces of the file.
    ///
    /// # Errors
    /// If the file has not the columns that are wanted.
    fn reader(&self) -> Result<Box<dyn PieceReader>>;
}

/// Makes those who read pieces of a file.
type Readers = Box<dyn Fn() -> Result<Box<dyn PieceReader>> + Send>;

/// A file that is cut, and who reads it.
pub(crate) struct CutFile<E> {
    cutter: Cutter<E>,
    readers: Readers,
}

impl<E: Ends> CutFile<E> {
    /// The file of `cutter`, whose pieces are read by what `reader` makes.
    pub(crate) fn boxed<R: PieceReader + 'static>(
        cutter: Cutter<E>,
        reader: impl Fn() -> Result<R> + Send + 'static,
    ) -> Box<dyn Pieces> {
        Box::new(Self { cutter, readers: Box::new(move || Ok(Box::new(reader()?))) })
    }
}

impl<E: Ends> Pieces for CutFile<E> {
    fn next(&mut self, piece: &mut Piece, memory: &mut TextMemory) -> Result<bool> {
        self.cutter.next(piece, memory)
    }

    fn reader(&self) -> Result<Box<dyn PieceReader>> {
        (self.readers)()
    }
}

/// Reads pieces of one file, one after the other.
pub(crate) trait PieceReader: Send {
    /// Goes on with the text of `piece`, which is the reader's until it is given back.
    fn take(&mut self, piece: &mut Piece);

    /// Puts the memory of the text back into `piece`.
    fn give_back(&mut self, piece: &mut Piece);

    /// The next batch of the piece; `None` behind the last. Of its rows those that are chosen, if `choice` chooses any and the reader looks at it.
    ///
    /// # Errors
    /// What is wrong with a record, as far as it is looked at.
    fn next(&mut self, choice: Option<&mut dyn Choice>) -> Result<Option<Taken>>;
}

/// Rows of a piece.
pub(crate) struct Taken {
    pub(crate) batch: RecordBatch,
    /// Only those that were chosen.
    pub(crate) is_chosen: bool,
}

/// Chooses rows by some of their columns, before the others are read.
pub(crate) trait Choice {
    /// The columns, of those that are read.
    fn columns(&self) -> &[usize];

    /// Which of `rows` rows are wanted, in order, of which `arrays` are those columns; `None`: all are.
    ///
    /// # Errors
    /// Of evaluating what they are chosen by.
    fn rows(&mut self, arrays: &[ArrayRef], rows: usize) -> Result<Option<&[u32]>>;
}

/// The batches of a file, piece after piece.
pub(crate) struct InOrder {
    pieces: Box<dyn Pieces>,
    reader: Box<dyn PieceReader>,
    piece: Piece,
    has_piece: bool,
    memory: TextMemory,
}

impl InOrder {
    /// Those of the file that is cut into `pieces`, if anything is in it, which takes `memory`.
    ///
    /// # Errors
    /// As [`Pieces::reader`].
    pub(crate) fn new(pieces: Option<Box<dyn Pieces>>, memory: TextMemory) -> Result<Option<Self>> {
        let Some(pieces) = pieces else { return Ok(None) };
        let reader = pieces.reader()?;
        Ok(Some(Self { pieces, reader, piece: Piece::default(), has_piece: false, memory }))
    }
}

impl Batches for InOrder {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.has_piece {
                if let Some(taken) = self.reader.next(None)? {
                    return Ok(Some(taken.batch));
                }
                self.reader.give_back(&mut self.piece);
                self.has_piece = false;
            }
            if !self.pieces.next(&mut self.piece, &mut self.memory)? {
                return Ok(None);
            }
            self.reader.take(&mut self.piece);
            self.has_piece = true;
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::sync::Arc;

    use ogee_memory::{BufferManager, MemoryConfig};

    use super::*;

    struct Lines;

    impl Ends for Lines {
        const RECORD_BYTES_MAX: usize = 4 << 20;
        const TOO_LONG: &'static str = "too long";

        fn whole(&mut self, text: &[u8], _is_first: bool) -> usize {
            memchr::memrchr(b'\n', text).map_or(0, |at| at + 1)
        }
    }

    fn pieces(text: &str) -> Result<Vec<(String, u64, Place)>> {
        let config = MemoryConfig { limit: 64 << 20, counts_process: false, ..MemoryConfig::default() };
        let memory = BufferManager::new(config).unwrap();
        let of_reader = || TextMemory::new(&Arc::clone(&memory), "a reader");
        let input = Box::new(std::io::Cursor::new(text.as_bytes().to_vec()));
        let mut cutter = Cutter::new(input, "x".to_owned(), Lines, of_reader());
        let (mut piece, mut pieces, mut memory) = (Piece::default(), Vec::new(), of_reader());
        while cutter.next(&mut piece, &mut memory)? {
            let text = String::from_utf8(piece.bytes[..piece.end].to_vec()).unwrap();
            pieces.push((text, piece.line, piece.place));
        }
        Ok(pieces)
    }

    #[test]
    fn pieces_are_the_file_and_end_with_records() {
        let long = format!("{}\n", "x".repeat(3 << 20));
        for text in ["", "a", "a\n", "a\nb", &"line\n".repeat(1 << 20), &format!("a\n{long}b\n"), &long] {
            let pieces = pieces(text).unwrap();
            assert_eq!(pieces.iter().map(|(text, ..)| text.as_str()).collect::<String>(), text);
            let mut line = 1;
            for (nth, (text, begins, place)) in pieces.iter().enumerate() {
                assert_eq!((*begins, place.is_first, place.is_last), (line, nth == 0, nth + 1 == pieces.len()));
                assert!(text.ends_with('\n') || place.is_last);
                line += text.matches('\n').count() as u64;
            }
        }
        let error = pieces(&format!("a\n{}", "x".repeat(9 << 20))).unwrap_err();
        assert!(error.to_string().contains("'x', line 2: too long"), "{error}");
    }
}
