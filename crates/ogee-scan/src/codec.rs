//! Decompression of pages into memory of the size that their headers say: a page that would become larger is an error, whatever its codec.
//!
//! The Parquet library trusts gzip and framed LZ4 to end where they should, so pages come out of it as they are in the file and are
//! decompressed here.
//!
//! Not here: which bytes of a page are compressed (`decode::cursor`, `pages`).

use std::io::Read;

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::read::MultiGzDecoder;
use lz4_flex::{block, frame::FrameDecoder};
use parking_lot::Mutex;
use parquet::{basic::Compression, errors::ParquetError};
use zstd::bulk::Decompressor;

/// The codec of a column chunk's pages.
pub(crate) enum Codec {
    Snappy(snap::raw::Decoder),
    Gzip,
    Brotli,
    Zstd(Box<Decompressor<'static>>),
    /// A block.
    Lz4Raw,
    /// Blocks as Hadoop frames them, or what older writers took for the same.
    Lz4,
}

fn wrong_size() -> ParquetError {
    ParquetError::General("a page does not have the size that its header says".into())
}

fn damaged(error: impl std::error::Error + Send + Sync + 'static) -> ParquetError {
    ParquetError::External(Box::new(error))
}

impl Codec {
    /// The codec called `compression`; `None` if nothing is compressed.
    ///
    /// # Errors
    /// If it is none that is known here.
    pub(crate) fn new(compression: Compression) -> Result<Option<Self>, ParquetError> {
        Ok(Some(match compression {
            Compression::UNCOMPRESSED => return Ok(None),
            Compression::SNAPPY => Self::Snappy(snap::raw::Decoder::new()),
            Compression::GZIP(_) => Self::Gzip,
            Compression::BROTLI(_) => Self::Brotli,
            Compression::ZSTD(_) => Self::Zstd(Box::new(Decompressor::new()?)),
            Compression::LZ4_RAW => Self::Lz4Raw,
            Compression::LZ4 => Self::Lz4,
            other => {
                return Err(ParquetError::NYI(format!(
                    "pages compressed with {other}; SNAPPY, GZIP, BROTLI, ZSTD, LZ4 and LZ4_RAW are read"
                )));
            }
        }))
    }

    /// Decompresses `from` to all of `to`.
    ///
    /// # Errors
    /// If `from` is damaged, or has fewer or more bytes in it.
    pub(crate) fn decompress(&mut self, from: &[u8], to: &mut [u8]) -> Result<(), ParquetError> {
        // Without values there may be nothing, not even the length.
        if to.is_empty() {
            return Ok(());
        }
        let bytes = match self {
            Self::Snappy(snappy) => {
                if snap::raw::decompress_len(from)? != to.len() {
                    return Err(wrong_size());
                }
                snappy.decompress(from, to)?
            }
            Self::Gzip => read_all(MultiGzDecoder::new(from), to)?,
            Self::Brotli => brotli(from, to)?,
            Self::Zstd(zstd) => zstd.decompress_to_buffer(from, to)?,
            Self::Lz4Raw => block::decompress_into(from, to).map_err(damaged)?,
            Self::Lz4 => match hadoop_blocks(from, to) {
                Some(bytes) => bytes,
                None => match read_all(FrameDecoder::new(from), to) {
                    Ok(bytes) => bytes,
                    Err(_) => block::decompress_into(from, to).map_err(damaged)?,
                },
            },
        };
        if bytes == to.len() { Ok(()) } else { Err(wrong_size()) }
    }
}

/// Reads `from` to its end, which must not come after that of `to`; how many bytes it had.
fn read_all(mut from: impl Read, to: &mut [u8]) -> Result<usize, ParquetError> {
    let mut read = 0;
    while read < to.len() {
        match from.read(&mut to[read..])? {
            0 => return Ok(read),
            more => read += more,
        }
    }
    match from.read(&mut [0])? {
        0 => Ok(read),
        _ => Err(wrong_size()),
    }
}

/// Decompresses the Brotli stream `from`, which must not be longer than `to`; how many bytes it had.
fn brotli(from: &[u8], to: &mut [u8]) -> Result<usize, ParquetError> {
    // Its window is memory that nobody granted: 4 MiB as files are written, and up to 16 MiB, of which there is one at a time.
    static LARGE_WINDOW: Mutex<()> = Mutex::new(());
    let window_bits = match from.first() {
        Some(first) if first & 1 == 1 => 17 + (first >> 1 & 7),
        _ => 16,
    };
    let _one = (window_bits > 22).then(|| LARGE_WINDOW.lock());
    let alloc = StandardAlloc::default;
    let mut state = BrotliState::new_strict(alloc(), alloc(), alloc());
    let (mut left, mut read, mut room, mut written, mut total) = (from.len(), 0, to.len(), 0, 0);
    match BrotliDecompressStream(&mut left, &mut read, from, &mut room, &mut written, to, &mut total, &mut state) {
        BrotliResult::ResultSuccess if left == 0 => Ok(written),
        BrotliResult::ResultSuccess | BrotliResult::NeedsMoreOutput => Err(wrong_size()),
        BrotliResult::NeedsMoreInput => Err(ParquetError::EOF("a page's Brotli stream does not end".into())),
        BrotliResult::ResultFailure => Err(ParquetError::General("a page is no Brotli stream".into())),
    }
}

/// Blocks one after the other, each behind its sizes, uncompressed and compressed; how many bytes they had. `None` if that is not what `from` is.
fn hadoop_blocks(mut from: &[u8], to: &mut [u8]) -> Option<usize> {
    let mut written = 0usize;
    while !from.is_empty() {
        let (sizes, rest) = from.split_first_chunk::<8>()?;
        let size = |at: usize| u32::from_be_bytes([sizes[at], sizes[at + 1], sizes[at + 2], sizes[at + 3]]) as usize;
        let (uncompressed, compressed) = (size(0), size(4));
        let (block, rest) = rest.split_at_checked(compressed)?;
        let room = to.get_mut(written..written.checked_add(uncompressed)?)?;
        if block::decompress_into(block, room).ok()? != uncompressed {
            return None;
        }
        written += uncompressed;
        from = rest;
    }
    Some(written)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::io::Write;

    use parquet::basic::{BrotliLevel, GzipLevel, ZstdLevel};

    use super::*;

    /// `bytes` as each codec has them, in each form.
    fn compressed(bytes: &[u8]) -> Vec<(Compression, Vec<u8>)> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(bytes).unwrap();
        let mut frame = lz4_flex::frame::FrameEncoder::new(Vec::new());
        frame.write_all(bytes).unwrap();
        let raw = block::compress(bytes);
        let brotli = |window_bits| {
            let mut stream = brotli::CompressorWriter::new(Vec::new(), 4096, 5, window_bits);
            stream.write_all(bytes).unwrap();
            stream.into_inner()
        };
        let half = bytes.len() / 2;
        let hadoop = [&bytes[..half], &bytes[half..]].map(|part| {
            let block = block::compress(part);
            [&(part.len() as u32).to_be_bytes()[..], &(block.len() as u32).to_be_bytes(), &block].concat()
        });
        vec![
            (Compression::SNAPPY, snap::raw::Encoder::new().compress_vec(bytes).unwrap()),
            (Compression::GZIP(GzipLevel::default()), gzip.finish().unwrap()),
            (Compression::BROTLI(BrotliLevel::default()), brotli(22)),
            (Compression::BROTLI(BrotliLevel::default()), brotli(24)),
            (Compression::ZSTD(ZstdLevel::default()), zstd::bulk::compress(bytes, 3).unwrap()),
            (Compression::LZ4_RAW, raw.clone()),
            (Compression::LZ4, hadoop.concat()),
            (Compression::LZ4, frame.finish().unwrap()),
            (Compression::LZ4, raw),
        ]
    }

    #[test]
    fn pages_have_the_size_that_was_said() {
        let bytes: Vec<u8> = (0..100_000u32).flat_map(|n| (n % 1000).to_le_bytes()).collect();
        for (compression, from) in compressed(&bytes) {
            let mut codec = Codec::new(compression).unwrap().unwrap();
            let mut to = vec![0; bytes.len()];
            codec.decompress(&from, &mut to).unwrap();
            assert!(to == bytes, "{compression}");
            for size in [1, bytes.len() - 1, bytes.len() + 1, 2 * bytes.len()] {
                let result = codec.decompress(&from, &mut vec![0; size]);
                assert!(result.is_err(), "{compression}: {size} bytes");
            }
            for end in [0, 1, 7, 8, from.len() / 2, from.len() * 3 / 4] {
                assert!(codec.decompress(&from[..end], &mut to).is_err(), "{compression} cut off at {end}");
            }
            codec.decompress(&[], &mut []).unwrap();
        }
        assert!(Codec::new(Compression::UNCOMPRESSED).unwrap().is_none());
        assert!(Codec::new(Compression::LZO).is_err());
    }
}
