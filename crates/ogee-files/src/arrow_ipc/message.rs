//! A message of a file: what it says of its body, checked, and the body decompressed.
//!
//! The library allocates what a compressed buffer says that it becomes, and takes whatever it becomes. Here both are known before anything
//! is allocated, and the library is given a message of the same columns that are not compressed.
//!
//! Not here: places of messages in the file.

use std::io::Read;

use datafusion::arrow::{
    buffer::{Buffer, MutableBuffer},
    ipc::{self, CompressionType, FieldNode, MessageHeader},
};
use flatbuffers::FlatBufferBuilder;

/// Where buffers begin, in memory.
const ALIGNMENT: usize = 64;

/// In front of a compressed buffer: its length when it is not.
const PREFIX: usize = 8;

/// Rows of a batch, at most: arrays of nothing take no bytes, however many rows they say they have.
const ROWS_MAX: i64 = i32::MAX as i64;

/// Bytes that one of a compressed buffer becomes, at most: a byte of LZ4 adds 255 to a length, and a block of Zstandard, of 128 KiB at most, has four.
const LZ4_BECOMES_MAX: usize = 255;
const ZSTD_BECOMES_MAX: usize = (128 << 10) / 4;

/// What is wrong with a message.
pub(super) type Checked<T> = Result<T, String>;

/// A message as the library takes it: its description, from where a body begins that is aligned, and the body.
pub(super) struct Message {
    bytes: Buffer,
    description: usize,
}

/// A buffer of a message, as the body has it.
struct Part {
    offset: usize,
    len: usize,
    /// Bytes of it, not compressed.
    becomes: usize,
    is_compressed: bool,
}

/// Bytes that a description takes in front of a body.
fn padded(description: usize) -> usize {
    description.next_multiple_of(ALIGNMENT)
}

/// Bytes of memory for a message of so many bytes.
pub(super) fn message_bytes(description: usize, body: usize) -> usize {
    padded(description).saturating_add(body)
}

/// What a description says, of which the length in front is a part.
pub(super) fn parsed(description: &[u8]) -> Checked<ipc::Message<'_>> {
    let skip = if description.starts_with(&[255; 4]) { 8 } else { 4 };
    let rest = description.get(skip..).ok_or("a message without a description")?;
    ipc::root_as_message(rest).map_err(|error| format!("a description that is not understood: {error}"))
}

impl Message {
    /// Reads a message of `description` bytes, which `read` gives, and so many of a body behind them.
    pub(super) fn read(
        description: usize,
        body: usize,
        read: impl FnOnce(&mut [u8]) -> std::io::Result<()>,
    ) -> std::io::Result<Self> {
        let front = padded(description) - description;
        let mut bytes = MutableBuffer::from_len_zeroed(front + description + body);
        read(&mut bytes.as_slice_mut()[front..])?;
        Ok(Self { bytes: Buffer::from(bytes).slice(front), description })
    }

    pub(super) fn kind(&self) -> Checked<MessageHeader> {
        Ok(parsed(&self.bytes[..self.description])?.header_type())
    }

    /// The message and its place in itself, for the library.
    pub(super) fn whole(&self) -> Checked<(ipc::Block, &Buffer)> {
        let description = i32::try_from(self.description).map_err(|_| "a description of more than 2 GiB")?;
        Ok((ipc::Block::new(0, description, (self.bytes.len() - self.description) as i64), &self.bytes))
    }

    fn body(&self) -> &[u8] {
        &self.bytes[self.description..]
    }

    /// The buffers of a batch, in their order, all of which are in the body.
    fn parts(&self, batch: &ipc::RecordBatch<'_>) -> Checked<Vec<Part>> {
        if !(0..=ROWS_MAX).contains(&batch.length()) {
            return Err(format!("a batch of {} rows", batch.length()));
        }
        let is_sensible = |node: &FieldNode| node.length() >= 0 && (0..=node.length()).contains(&node.null_count());
        if !batch.nodes().into_iter().flatten().all(is_sensible) {
            return Err("a column of a negative number of values".to_owned());
        }
        let body = self.body();
        let is_compressed = batch.compression().is_some();
        let most = match batch.compression().map(|compression| compression.codec()) {
            Some(CompressionType::LZ4_FRAME) => LZ4_BECOMES_MAX,
            _ => ZSTD_BECOMES_MAX,
        };
        let part = |buffer: &ipc::Buffer| {
            let (offset, len) = usize::try_from(buffer.offset())
                .ok()
                .zip(usize::try_from(buffer.length()).ok())
                .filter(|(offset, len)| offset.checked_add(*len).is_some_and(|end| end <= body.len()))
                .ok_or("a buffer that is not in its message")?;
            if !is_compressed || len == 0 {
                return Ok(Part { offset, len, becomes: len, is_compressed: false });
            }
            let prefix = body[offset..offset + len].first_chunk::<PREFIX>();
            let (offset, rest) = (offset + PREFIX, len.saturating_sub(PREFIX));
            match i64::from_le_bytes(*prefix.ok_or("a compressed buffer without a length")?) {
                -1 => Ok(Part { offset, len: rest, becomes: rest, is_compressed: false }),
                becomes => {
                    let becomes = usize::try_from(becomes).map_err(|_| "a buffer of a negative length")?;
                    // Not worth the memory.
                    if becomes > rest.saturating_mul(most) {
                        return Err("a compressed buffer that does not become what it says".to_owned());
                    }
                    Ok(Part { offset, len: rest, becomes, is_compressed: true })
                }
            }
        };
        batch.buffers().into_iter().flatten().map(part).collect()
    }

    /// The same message without compression, `None` if it has none. `reserve` is asked for the memory of its body first.
    pub(super) fn decompressed<E: From<String>>(
        &self,
        reserve: impl FnOnce(usize) -> Result<(), E>,
    ) -> Result<Option<Self>, E> {
        let message = parsed(&self.bytes[..self.description])?;
        let dictionary = message.header_as_dictionary_batch();
        let batch = match dictionary {
            Some(dictionary) => dictionary.data(),
            None => message.header_as_record_batch(),
        };
        let batch = batch.ok_or_else(|| "a message that is no batch".to_owned())?;
        let parts = self.parts(&batch)?;
        let Some(compression) = batch.compression() else {
            // Buffers that are not aligned are copied.
            let copied = parts.iter().filter(|part| part.offset % ALIGNMENT != 0).map(|part| part.len);
            reserve(copied.fold(0, usize::saturating_add))?;
            return Ok(None);
        };
        let body = parts.iter().fold(0, |sum: usize, part| sum.saturating_add(part.becomes).saturating_add(ALIGNMENT));
        reserve(body)?;
        let mut fbb = FlatBufferBuilder::new();
        let nodes: Vec<FieldNode> = batch.nodes().into_iter().flatten().copied().collect();
        let nodes = fbb.create_vector(&nodes);
        let mut places = Vec::with_capacity(parts.len());
        let mut end = 0;
        for part in &parts {
            places.push(ipc::Buffer::new(end as i64, part.becomes as i64));
            end += part.becomes.next_multiple_of(ALIGNMENT);
        }
        let places = fbb.create_vector(&places);
        let counts: Option<Vec<i64>> = batch.variadicBufferCounts().map(|counts| counts.iter().collect());
        let counts = counts.map(|counts| fbb.create_vector(&counts));
        let mut plain = ipc::RecordBatchBuilder::new(&mut fbb);
        plain.add_length(batch.length());
        plain.add_nodes(nodes);
        plain.add_buffers(places);
        counts.into_iter().for_each(|counts| plain.add_variadicBufferCounts(counts));
        let mut header = plain.finish().as_union_value();
        if let Some(dictionary) = dictionary {
            let data = flatbuffers::WIPOffset::new(header.value());
            let mut plain = ipc::DictionaryBatchBuilder::new(&mut fbb);
            plain.add_id(dictionary.id());
            plain.add_data(data);
            plain.add_isDelta(dictionary.isDelta());
            header = plain.finish().as_union_value();
        }
        let mut plain = ipc::MessageBuilder::new(&mut fbb);
        plain.add_version(message.version());
        plain.add_header_type(message.header_type());
        plain.add_header(header);
        plain.add_bodyLength(end as i64);
        let root = plain.finish();
        fbb.finish(root, None);
        let described = fbb.finished_data();
        let description = padded(PREFIX + described.len());
        let mut bytes = MutableBuffer::from_len_zeroed(description + end);
        let (front, mut rest) = bytes.as_slice_mut().split_at_mut(description);
        front[..4].fill(255);
        front[4..PREFIX].copy_from_slice(&((description - PREFIX) as u32).to_le_bytes());
        front[PREFIX..PREFIX + described.len()].copy_from_slice(described);
        for part in &parts {
            let (place, behind) = rest.split_at_mut(part.becomes.next_multiple_of(ALIGNMENT));
            rest = behind;
            let (place, bytes) = (&mut place[..part.becomes], &self.body()[part.offset..part.offset + part.len]);
            match part.is_compressed {
                true => decompress(compression.codec(), bytes, place)?,
                false => place.copy_from_slice(bytes),
            }
        }
        Ok(Some(Self { bytes: bytes.into(), description }))
    }
}

/// Decompresses `bytes`, which must become exactly what fits into `place`.
fn decompress(codec: CompressionType, bytes: &[u8], place: &mut [u8]) -> Checked<()> {
    let wrong = || "a compressed buffer that does not become what it says".to_owned();
    match codec {
        CompressionType::LZ4_FRAME => {
            let mut decoder = lz4_flex::frame::FrameDecoder::new(bytes);
            decoder.read_exact(place).map_err(|_| wrong())?;
            match decoder.read(&mut [0]) {
                Ok(0) => Ok(()),
                _ => Err(wrong()),
            }
        }
        CompressionType::ZSTD => match zstd::bulk::decompress_to_buffer(bytes, place) {
            Ok(len) if len == place.len() => Ok(()),
            _ => Err(wrong()),
        },
        other => Err(format!("a compression that is not known: {other:?}")),
    }
}
