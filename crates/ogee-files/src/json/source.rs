//! Scans of JSON files.
//!
//! Not here: values and arrays.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use async_trait::async_trait;
use datafusion::{
    arrow::datatypes::{DataType, SchemaRef},
    common::parsers::CompressionTypeVariant,
    error::Result,
    object_store::{ObjectMeta, ObjectStore},
};

use super::{
    build::{Builder, Places},
    ends::ValueEnds,
    format::Reading,
    reader::{Column, Reader, Scratch, Values},
    shape::Shape,
};
use crate::{
    pieces::{CutFile, Cutter, InOrder, Pieces},
    read_through::{InPieces, ReadThrough, Scan, shown, text},
    text_memory::text_block_bytes,
};

/// Values within one of `data_type` that have arrays of their own.
fn leaves(data_type: &DataType) -> usize {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| leaves(field.data_type())).sum(),
        DataType::List(field) | DataType::Map(field, _) => leaves(field.data_type()),
        _ => 1,
    }
}

impl Reading {
    /// The columns that the files have, those that are read in the order in which they are wanted.
    fn wanted(&self, scan: &Scan) -> (Vec<Column>, bool, bool) {
        let schema = scan.file_schema();
        let found = self.found.read();
        let shapes: HashMap<&str, &Shape> =
            found.iter().flat_map(|found| &found.columns).map(|(name, shape)| (name.as_str(), shape)).collect();
        let read: HashSet<usize> = scan.columns().iter().copied().collect();
        let block = text_block_bytes(read.iter().map(|&index| leaves(schema.field(index).data_type())).sum());
        let builder = |index: usize| {
            let field = schema.field(index);
            match shapes.get(field.name().as_str()).filter(|shape| shape.data_type() == *field.data_type()) {
                Some(shape) => Builder::of(shape, block),
                None => Builder::declared(field, block),
            }
        };
        let mut columns: Vec<Column> = schema
            .fields()
            .iter()
            .enumerate()
            .map(|(index, field)| Column::new(field.name().clone(), read.contains(&index).then(|| builder(index))))
            .collect();
        // A column that a directory names has another's value; the file's is passed over.
        if let Some(found) = found.as_ref() {
            let own: HashSet<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            let others = found.columns.iter().filter(|(name, _)| !own.contains(name.as_str()));
            columns.extend(others.map(|(name, _)| Column::new(name.clone(), None)));
        }
        let is_whole = found.as_ref().map_or(self.manner.is_whole, |found| found.is_whole);
        (columns, found.is_none(), is_whole)
    }
}

impl Reading {
    /// A reader of what `scan` wants of a file of this name.
    fn reader(&self, scan: &Scan, name: String) -> Result<Reader> {
        let (columns, is_declared, is_whole) = self.wanted(scan);
        Ok(Reader {
            values: Values::new(std::io::empty(), name, self.manner.layout, self.memory()),
            places: Places::of(columns.iter().map(|column| &column.name)),
            columns,
            is_declared,
            is_whole,
            schema: scan.batch_schema()?,
            batch_rows: scan.batch_rows,
            scratch: Scratch::default(),
        })
    }
}

#[async_trait]
impl ReadThrough for Reading {
    const NAME: &'static str = "json";
    type Reader = InOrder;

    async fn schema(&self, store: &Arc<dyn ObjectStore>, files: &[ObjectMeta]) -> Result<SchemaRef> {
        self.find(store, files).await
    }

    fn compression(&self) -> CompressionTypeVariant {
        self.compression
    }

    async fn open(&self, scan: &Scan, store: &Arc<dyn ObjectStore>, file: &ObjectMeta) -> Result<Option<InOrder>> {
        InOrder::new(self.pieces(scan, store, file).await?, self.memory())
    }
}

#[async_trait]
impl InPieces for Reading {
    async fn pieces(
        &self,
        scan: &Scan,
        store: &Arc<dyn ObjectStore>,
        file: &ObjectMeta,
    ) -> Result<Option<Box<dyn Pieces>>> {
        let (input, name) = (text(store, &file.location, self.compression).await?, shown(&file.location));
        let cutter = Cutter::new(input, name.clone(), ValueEnds::new(self.manner.layout), self.memory());
        let (scan, reading) = (scan.clone(), self.clone());
        Ok(Some(CutFile::boxed(cutter, move || reading.reader(&scan, name.clone()))))
    }
}
