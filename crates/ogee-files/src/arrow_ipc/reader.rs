//! From the messages of a file to batches of columns.
//!
//! Not here: which columns are wanted, what is in a message.

use std::{fs::File, path::Path, sync::Arc};

use datafusion::{
    arrow::{
        array::RecordBatch,
        datatypes::Schema,
        ipc::{self, Endianness, MessageHeader, MetadataVersion, convert::fb_to_schema, reader::FileDecoder},
    },
    error::{DataFusionError, Result},
};
use ogee_functions::Error;
use ogee_memory::{BufferManager, MemoryError, Reservation, format_bytes};

use super::message::{Message, message_bytes, parsed};

/// What files begin and end with; streams do not.
const MAGIC: &[u8; 6] = b"ARROW1";

/// Behind the footer of a file: four bytes of its length, and the magic.
const TAIL: u64 = 10;

/// In front of a message: a mark, which old streams do not have, and the length of its description.
const MARK: [u8; 4] = [255; 4];

/// Bytes of memory for each byte of a description, at most.
const DESCRIBED: usize = 8;

/// The bytes of a file, and what errors call it.
struct Input {
    file: File,
    len: u64,
    name: String,
    memory: Arc<BufferManager>,
}

/// Where a file's messages are.
enum Place {
    /// The footer tells: batches that are left, the next one last.
    File(Vec<ipc::Block>),
    /// One after the other, the next one here.
    Stream(u64),
}

/// What a file says of itself; of its columns, as much as was asked for.
struct Described<T> {
    columns: T,
    version: MetadataVersion,
    place: Place,
    dictionaries: Vec<ipc::Block>,
}

/// Reads one file or stream.
pub(super) struct Reader {
    input: Input,
    decoder: FileDecoder,
    place: Place,
    /// Messages that were read.
    messages: usize,
    /// Covers dictionaries, which stay, and the batch that was read last.
    dictionaries: usize,
    reservation: Reservation,
}

impl Input {
    fn open(path: &Path, memory: &Arc<BufferManager>) -> Result<Self> {
        let name = path.display().to_string();
        let failed = |error: std::io::Error| Error::Source(format!("cannot read '{name}': {error}"));
        let file = File::open(path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        Ok(Self { file, len, name, memory: Arc::clone(memory) })
    }

    fn damaged(&self, what: impl std::fmt::Display) -> Error {
        Error::Source(format!("'{}' cannot be read as Arrow: {what}; it may be truncated or damaged", self.name))
    }

    fn read(&self, at: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match rustix::io::pread(&self.file, &mut bytes[done..], at + done as u64) {
                Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                Ok(more) => done += more,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// `len` bytes at `at`, with memory for what they describe.
    fn description(&self, at: u64, len: usize) -> Result<(Vec<u8>, Reservation)> {
        if at.checked_add(len as u64).is_none_or(|end| end > self.len) {
            return Err(self.damaged("a description that is longer than the file").into());
        }
        let reservation = self.memory.reserve("Arrow reader", DESCRIBED.saturating_mul(len)).map_err(Error::from)?;
        let mut bytes = vec![0; len];
        self.read(at, &mut bytes).map_err(|error| self.damaged(error))?;
        Ok((bytes, reservation))
    }

    /// `look` is shown how the columns are described.
    fn described<T>(&self, look: impl FnOnce(ipc::Schema<'_>) -> Result<T>) -> Result<Described<T>> {
        let mut front = [0; MAGIC.len()];
        let is_file = self.len >= front.len() as u64 && {
            self.read(0, &mut front).map_err(|error| self.damaged(error))?;
            front == *MAGIC
        };
        // The library gives up at types that it does not know.
        ogee_scan::caught(|| if is_file { self.footer(look) } else { self.first_message(look) }).map_err(|error| {
            match Error::from(error) {
                Error::Source(message) if message.contains(&self.name) => Error::Source(message),
                Error::Memory(error) => Error::Memory(error),
                other => self.damaged(other),
            }
            .into()
        })
    }

    fn footer<T>(&self, look: impl FnOnce(ipc::Schema<'_>) -> Result<T>) -> Result<Described<T>> {
        let tail = self.len.checked_sub(TAIL).ok_or_else(|| self.damaged("it ends within its first bytes"))?;
        let mut bytes = [0; TAIL as usize];
        self.read(tail, &mut bytes).map_err(|error| self.damaged(error))?;
        let [a, b, c, d, magic @ ..] = bytes;
        if magic != *MAGIC {
            return Err(self.damaged("it does not end as Arrow files do").into());
        }
        let len = i32::from_le_bytes([a, b, c, d]);
        let len = usize::try_from(len).map_err(|_| self.damaged("a footer of a negative length"))?;
        let at = tail.checked_sub(len as u64).ok_or_else(|| self.damaged("its footer is longer than the file"))?;
        let (footer, _memory) = self.description(at, len)?;
        let footer = ipc::root_as_footer(&footer).map_err(|error| self.damaged(error))?;
        let schema = footer.schema().ok_or_else(|| self.damaged("a footer without columns"))?;
        let blocks = |blocks: Option<flatbuffers::Vector<'_, ipc::Block>>| {
            blocks.into_iter().flatten().copied().collect::<Vec<_>>()
        };
        let mut batches = blocks(footer.recordBatches());
        batches.reverse();
        Ok(Described {
            columns: look(schema)?,
            version: footer.version(),
            place: Place::File(batches),
            dictionaries: blocks(footer.dictionaries()),
        })
    }

    fn first_message<T>(&self, look: impl FnOnce(ipc::Schema<'_>) -> Result<T>) -> Result<Described<T>> {
        let (at, len) = self.next_description(0)?.ok_or_else(|| self.damaged("it has no columns"))?;
        let (bytes, _memory) = self.description(at, len)?;
        let message = parsed(&bytes).map_err(|error| self.damaged(error))?;
        let schema = message.header_as_schema().ok_or_else(|| self.damaged("it does not begin with its columns"))?;
        let columns = look(schema)?;
        let body = u64::try_from(message.bodyLength()).map_err(|_| self.damaged("a body of a negative length"))?;
        let next = (at + len as u64).checked_add(body).ok_or_else(|| self.damaged("a body longer than the file"))?;
        Ok(Described { columns, version: message.version(), place: Place::Stream(next), dictionaries: Vec::new() })
    }

    fn schema(&self, schema: ipc::Schema<'_>) -> Result<Schema> {
        if schema.endianness() == Endianness::Big {
            let what =
                "has numbers that begin with their highest byte, which is not supported; write it on another machine";
            return Err(Error::Unsupported(format!("'{}' {what}", self.name)).into());
        }
        Ok(fb_to_schema(schema))
    }

    /// Where the message at `at` of a stream begins, and the bytes of its description with the length in front; `None` at the end.
    fn next_description(&self, at: u64) -> Result<Option<(u64, usize)>> {
        let left = self.len.saturating_sub(at);
        if left == 0 {
            return Ok(None);
        }
        let mut word = [0; 4];
        let mut read = |at| self.read(at, &mut word).map(|()| word).map_err(|error| self.damaged(error));
        let (front, len) = match read(at)? {
            MARK => (8, read(at + 4)?),
            word => (4, word),
        };
        match i32::from_le_bytes(len) {
            0 => Ok(None),
            len => {
                let len = usize::try_from(len).map_err(|_| self.damaged("a description of a negative length"))?;
                Ok(Some((at, front + len)))
            }
        }
    }

    /// Reads a message, and decompresses it. `held` is the memory of what was read before, and becomes its own.
    fn message(
        &self,
        at: u64,
        description: usize,
        body: usize,
        held: usize,
        memory: &mut Reservation,
    ) -> Result<Message> {
        let too_large = |error: MemoryError| {
            let bytes = format_bytes(message_bytes(description, body));
            let what = format!("a batch of {bytes} has to be read as a whole: {error}");
            Error::Engine {
                code: error.code(),
                message: format!("'{}': {what}; write the file with fewer rows in a batch", self.name),
            }
        };
        let end = at.checked_add(description as u64).and_then(|end| end.checked_add(body as u64));
        if end.is_none_or(|end| end > self.len) {
            return Err(self.damaged("a batch that goes on behind the end of the file").into());
        }
        let own = message_bytes(description, body);
        memory.resize(held.saturating_add(own)).map_err(too_large)?;
        let message =
            Message::read(description, body, |bytes| self.read(at, bytes)).map_err(|error| self.damaged(error))?;
        if !matches!(
            message.kind().map_err(|what| self.damaged(what))?,
            MessageHeader::RecordBatch | MessageHeader::DictionaryBatch
        ) {
            return Ok(message);
        }
        let plain = message.decompressed(|more| {
            memory.resize(held.saturating_add(own).saturating_add(more)).map_err(|error| Wrong::Error(too_large(error)))
        });
        match plain {
            Ok(plain) => Ok(plain.unwrap_or(message)),
            Err(Wrong::Message(what)) => Err(self.damaged(what).into()),
            Err(Wrong::Error(error)) => Err(error.into()),
        }
    }
}

enum Wrong {
    Message(String),
    Error(Error),
}

impl From<String> for Wrong {
    fn from(what: String) -> Self {
        Self::Message(what)
    }
}

/// What `look` finds in the description of the columns of the file at `path`.
pub(crate) fn look_at_columns<T>(
    path: &Path,
    memory: &Arc<BufferManager>,
    look: impl FnOnce(ipc::Schema<'_>) -> T,
) -> Result<T> {
    Ok(Input::open(path, memory)?.described(|schema| Ok(look(schema)))?.columns)
}

/// The columns of the file at `path`.
pub(super) fn schema(path: &Path, memory: &Arc<BufferManager>) -> Result<Schema> {
    let input = Input::open(path, memory)?;
    Ok(input.described(|schema| input.schema(schema))?.columns)
}

impl Reader {
    /// Opens the file at `path`, of which columns `projection` are wanted.
    pub(super) fn open(path: &Path, memory: &Arc<BufferManager>, projection: Vec<usize>) -> Result<Self> {
        let input = Input::open(path, memory)?;
        let Described { columns, version, place, dictionaries } = input.described(|schema| input.schema(schema))?;
        let decoder = FileDecoder::new(Arc::new(columns), version).with_projection(projection);
        let reservation = memory.reserve("Arrow reader", 0).map_err(Error::from)?;
        let mut reader = Self { input, decoder, place, messages: 0, dictionaries: 0, reservation };
        for block in dictionaries {
            let message = reader.read(&block)?;
            reader.keep(&message)?;
        }
        Ok(reader)
    }

    fn read(&mut self, block: &ipc::Block) -> Result<Message> {
        let place = u64::try_from(block.offset()).ok();
        let sizes = usize::try_from(block.metaDataLength()).ok().zip(usize::try_from(block.bodyLength()).ok());
        let (at, (description, body)) =
            place.zip(sizes).ok_or_else(|| self.input.damaged("a batch of a negative place or length"))?;
        self.messages += 1;
        self.input.message(at, description, body, self.dictionaries, &mut self.reservation)
    }

    /// Keeps a dictionary.
    fn keep(&mut self, message: &Message) -> Result<()> {
        let (block, bytes) = message.whole().map_err(|what| self.input.damaged(what))?;
        ogee_scan::caught(|| Ok::<_, DataFusionError>(self.decoder.read_dictionary(&block, bytes)?))
            .map_err(|error| self.input.damaged(Error::from(error)))?;
        self.dictionaries = self.reservation.bytes();
        Ok(())
    }

    /// The next batch of the file.
    pub(super) fn batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let message = match &mut self.place {
                Place::File(blocks) => {
                    let Some(block) = blocks.pop() else { return Ok(None) };
                    self.read(&block)?
                }
                Place::Stream(at) => {
                    let Some((begin, description)) = self.input.next_description(*at)? else { return Ok(None) };
                    let (bytes, _memory) = self.input.description(begin, description)?;
                    let body = parsed(&bytes).map_err(|what| self.input.damaged(what))?.bodyLength();
                    let body = usize::try_from(body).map_err(|_| self.input.damaged("a body of a negative length"))?;
                    drop(bytes);
                    *at = begin.saturating_add(description as u64).saturating_add(body as u64);
                    self.messages += 1;
                    self.input.message(begin, description, body, self.dictionaries, &mut self.reservation)?
                }
            };
            match message.kind().map_err(|what| self.input.damaged(what))? {
                MessageHeader::DictionaryBatch => self.keep(&message)?,
                MessageHeader::RecordBatch => {
                    let (block, bytes) = message.whole().map_err(|what| self.input.damaged(what))?;
                    let batch =
                        ogee_scan::caught(|| Ok::<_, DataFusionError>(self.decoder.read_record_batch(&block, bytes)?));
                    let number = self.messages;
                    return batch.map_err(|error| {
                        self.input.damaged(format_args!("message {number}: {}", Error::from(error))).into()
                    });
                }
                _ => return Err(self.input.damaged("a message that is no batch").into()),
            }
        }
    }
}
