//! Arrow as a format of files, in DataFusion's terms.
//!
//! Not here: reading (`source`).

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    catalog::Session,
    common::{GetExt, parsers::CompressionTypeVariant},
    datasource::file_format::{
        FileFormat, FileFormatFactory,
        arrow::{ArrowFormat as ArrowWriter, ArrowFormatFactory},
    },
    error::Result,
};
use ogee_memory::BufferManager;

use super::source::Reading;
use crate::{
    read_through::{Format, Writing},
    text_sink::RowText,
};

/// Makes formats of Arrow files, whose readers reserve in the pool.
#[derive(Debug)]
pub struct ArrowFormats(pub Arc<BufferManager>);

impl FileFormatFactory for ArrowFormats {
    fn create(&self, _state: &dyn Session, _options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        Ok(FileFormatFactory::default(self))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(Format { reading: Reading { memory: Arc::clone(&self.0) }, writer: ArrowWriter })
    }
}

impl Writing for ArrowWriter {
    fn format(&self) -> &dyn FileFormat {
        self
    }

    fn rows(&self, _state: &dyn Session) -> Result<Option<(Arc<dyn RowText>, CompressionTypeVariant)>> {
        Ok(None)
    }
}

impl GetExt for ArrowFormats {
    fn get_ext(&self) -> String {
        ArrowFormatFactory::new().get_ext()
    }
}
