//! Scans of JSON files.
//!
//! Not here: values and arrays.

use std::{
    collections::{HashMap, HashSet},
    io::Read,
    sync::Arc,
};

use async_trait::async_trait;
use datafusion::{
    arrow::{
        array::RecordBatch,
        datatypes::{DataType, SchemaRef},
    },
    common::parsers::CompressionTypeVariant,
    error::Result,
    object_store::{ObjectMeta, ObjectStore},
};

use super::{
    build::{Builder, Places},
    format::Reading,
    reader::{Column, Reader, Values},
    shape::Shape,
};
use crate::{
    read_through::{Batches, ReadThrough, Scan, shown, text},
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
                None => Builder::declared(field.data_type(), block),
            }
        };
        let mut columns: Vec<Column> = schema
            .fields()
            .iter()
            .enumerate()
            .map(|(index, field)| Column {
                name: field.name().clone(),
                builder: read.contains(&index).then(|| builder(index)),
            })
            .collect();
        // A column that a directory names has another's value; the file's is passed over.
        if let Some(found) = found.as_ref() {
            let own: HashSet<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            let others = found.columns.iter().filter(|(name, _)| !own.contains(name.as_str()));
            columns.extend(others.map(|(name, _)| Column { name: name.clone(), builder: None }));
        }
        let is_whole = found.as_ref().is_some_and(|found| found.is_whole);
        (columns, found.is_none(), is_whole)
    }
}

#[async_trait]
impl ReadThrough for Reading {
    const NAME: &'static str = "json";
    type Reader = Reader<Box<dyn Read + Send>>;

    async fn schema(&self, store: &Arc<dyn ObjectStore>, files: &[ObjectMeta]) -> Result<SchemaRef> {
        self.find(store, files).await
    }

    fn compression(&self) -> CompressionTypeVariant {
        self.compression
    }

    async fn open(&self, scan: &Scan, store: &Arc<dyn ObjectStore>, file: &ObjectMeta) -> Result<Option<Self::Reader>> {
        let input = text(store, &file.location, self.compression).await?;
        let (columns, is_declared, is_whole) = self.wanted(scan);
        Ok(Some(Reader {
            values: Values::new(input, shown(&file.location), self.memory()),
            places: Places::of(columns.iter().map(|column| &column.name)),
            columns,
            is_declared,
            is_whole,
            schema: scan.batch_schema()?,
            batch_rows: scan.batch_rows,
        }))
    }
}

impl Batches for Reader<Box<dyn Read + Send>> {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.batch()
    }
}
