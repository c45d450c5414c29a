//! Compressed text files as their text.
//!
//! Not here: reading what they hold.

use std::io::Read;

use datafusion::{common::parsers::CompressionTypeVariant, error::Result, object_store::path::Path};
use ogee_functions::Error;

use crate::remote::without_query;

/// How a file of this name is compressed, as far as its name tells.
fn of_name(name: &str) -> CompressionTypeVariant {
    match name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).as_deref() {
        Some("gz") => CompressionTypeVariant::GZIP,
        Some("zst") => CompressionTypeVariant::ZSTD,
        Some("bz2") => CompressionTypeVariant::BZIP2,
        Some("xz") => CompressionTypeVariant::XZ,
        _ => CompressionTypeVariant::UNCOMPRESSED,
    }
}

/// Whether the file at `location` is compressed, where `compression` is said of it.
pub(crate) fn is_compressed(location: &Path, compression: CompressionTypeVariant) -> bool {
    compression != CompressionTypeVariant::UNCOMPRESSED
        || of_name(without_query(location.as_ref())) != CompressionTypeVariant::UNCOMPRESSED
}

/// What `file` holds, `name` being its name, which tells how it is compressed unless that is said.
pub(crate) fn decompressed(
    file: impl Read + Send + 'static,
    compression: CompressionTypeVariant,
    name: &str,
) -> Result<Box<dyn Read + Send>> {
    let compression = match compression {
        CompressionTypeVariant::UNCOMPRESSED => of_name(name),
        said => said,
    };
    Ok(match compression {
        CompressionTypeVariant::UNCOMPRESSED => Box::new(file),
        CompressionTypeVariant::GZIP => Box::new(flate2::read::MultiGzDecoder::new(file)),
        CompressionTypeVariant::BZIP2 => Box::new(bzip2::read::MultiBzDecoder::new(file)),
        CompressionTypeVariant::ZSTD => Box::new(zstd::stream::Decoder::new(file)?),
        other => {
            let why = format!("'{name}' is compressed with {other:?}, which is not supported; use gzip, zstd or bzip2");
            return Err(Error::Unsupported(why).into());
        }
    })
}
