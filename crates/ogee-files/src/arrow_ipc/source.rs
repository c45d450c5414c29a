//! Scans of Arrow files.
//!
//! Not here: messages and batches.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use datafusion::{
    arrow::{
        array::RecordBatch,
        datatypes::{Schema, SchemaRef},
    },
    error::Result,
    object_store::{ObjectMeta, ObjectStore},
};
use ogee_memory::BufferManager;

use super::reader::{self, Reader};
use crate::read_through::{BATCH_ROWS, Batches, ReadThrough, Scan};

/// How the files of a table are read: a batch as a whole, whose memory is reserved.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) memory: Arc<BufferManager>,
}

/// Where a file is on this machine.
fn path_of(file: &ObjectMeta) -> PathBuf {
    Path::new("/").join(file.location.as_ref())
}

#[async_trait]
impl ReadThrough for Reading {
    const NAME: &'static str = "arrow";
    type Reader = Pieces;

    async fn schema(&self, _store: &Arc<dyn ObjectStore>, files: &[ObjectMeta]) -> Result<SchemaRef> {
        let schema = |file| reader::schema(&path_of(file), &self.memory);
        let schemas = files.iter().map(schema).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(Schema::try_merge(schemas)?))
    }

    async fn open(
        &self,
        scan: &Scan,
        _store: &Arc<dyn ObjectStore>,
        file: &ObjectMeta,
    ) -> Result<Option<Self::Reader>> {
        let reader = Reader::open(&path_of(file), &self.memory, scan.columns().to_vec())?;
        Ok(Some(Pieces { reader, batch: None }))
    }
}

/// The batches of a file, of which some have more rows than are handed on at once.
pub(super) struct Pieces {
    reader: Reader,
    /// What is left of the last one.
    batch: Option<RecordBatch>,
}

impl Batches for Pieces {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let Some(batch) = self.batch.take().map_or_else(|| self.reader.batch(), |left| Ok(Some(left)))? else {
            return Ok(None);
        };
        if batch.num_rows() <= BATCH_ROWS {
            return Ok(Some(batch));
        }
        self.batch = Some(batch.slice(BATCH_ROWS, batch.num_rows() - BATCH_ROWS));
        Ok(Some(batch.slice(0, BATCH_ROWS)))
    }
}
