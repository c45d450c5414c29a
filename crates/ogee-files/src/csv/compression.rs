//! Compressed text files as their text.
//!
//! Not here: which files are compressed, which their names tell.

use std::io::Read;

use datafusion::{common::parsers::CompressionTypeVariant, error::Result};
use ogee_functions::Error;

/// What `file` holds, `name` being its name.
pub(crate) fn decompressed(
    file: impl Read + Send + 'static,
    compression: CompressionTypeVariant,
    name: &str,
) -> Result<Box<dyn Read + Send>> {
    Ok(match compression {
        CompressionTypeVariant::UNCOMPRESSED => Box::new(file),
        CompressionTypeVariant::GZIP => Box::new(flate2::read::MultiGzDecoder::new(file)),
        CompressionTypeVariant::ZSTD => Box::new(zstd::stream::Decoder::new(file)?),
        other => {
            let why = format!("'{name}' is compressed with {other:?}, which is not supported; use gzip or zstd");
            return Err(Error::Unsupported(why).into());
        }
    })
}
