//! Scans of CSV files.
//!
//! Not here: records and values.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use async_trait::async_trait;
use datafusion::{
    arrow::datatypes::{DataType, SchemaRef, TimeUnit},
    common::parsers::CompressionTypeVariant,
    error::Result,
    object_store::{ObjectMeta, ObjectStore},
};
use ogee_functions::{Error, marks::has_mark};

use super::{
    columns::{Column, MISSING},
    ends::RecordEnds,
    format::{Reading, missing},
    reader::{Plan, Reader},
    sniff::Look,
    values::Kind,
};
use crate::{
    pieces::{CutFile, Cutter, InOrder, Pieces},
    read_through::{InPieces, ReadThrough, Scan, shown},
    spelling::folded,
};

impl Reading {
    /// How a file of this name is read that looks like `look`.
    fn plan(&self, scan: &Scan, look: Arc<Look>, name: String) -> Result<Plan> {
        let columns = self.columns(scan, &look, &name)?;
        let schema = scan.batch_schema()?;
        let (given, zone, memory) = (self.given.clone(), self.zone, Arc::clone(&self.manager));
        Ok(Plan { name, look, columns, schema, batch_rows: scan.batch_rows, given, zone, manager: memory })
    }

    /// Where the columns that are read come from in a file that looks like `look`.
    fn columns(&self, scan: &Scan, look: &Look, file: &str) -> Result<Vec<Column>> {
        let schema = scan.file_schema();
        let found = self.found.read();
        // Files of one table may spell the names of its columns in different ways.
        let places: HashMap<Cow<'_, str>, usize> =
            look.names.iter().enumerate().map(|(index, name)| (folded(name), index)).collect();
        let by_name = |name: &str| places.get(&folded(name)).copied();
        let kinds: HashMap<&str, Kind> = found.iter().flatten().map(|(name, kind)| (name.as_str(), *kind)).collect();
        // A declared table may name the columns otherwise than the file does.
        let by_position = found.is_none()
            && (self.given.by_place
                || !look.has_header
                || !schema.fields().iter().all(|field| by_name(field.name()).is_some()));
        if by_position && look.names.len() != schema.fields().len() && !self.given.truncated {
            return Err(Error::Source(format!(
                "'{file}' has {} columns, and its table is declared with {}",
                look.names.len(),
                schema.fields().len()
            ))
            .into());
        }
        let column = |&column: &usize| {
            let field = schema.field(column);
            let index = if by_position { Some(column) } else { by_name(field.name()) };
            let index = match index {
                Some(index) => index,
                None if self.given.is_union => MISSING,
                None => return Err(missing(field.name(), file, None).into()),
            };
            let found = kinds.get(field.name().as_str()).copied();
            let manner = &self.given.manner;
            let kind = match (found, field.data_type()) {
                (Some(kind), _) => kind,
                (None, DataType::Date32) if manner.date.is_some() => Kind::FormattedDate,
                (None, DataType::Timestamp(TimeUnit::Microsecond, None)) if manner.timestamp.is_some() => {
                    Kind::FormattedTimestamp
                }
                // As the file looks, where other columns were given.
                (None, of_table) => {
                    let of_file = look.kinds.get(index).map(|kinds| kinds.kind());
                    of_file.filter(|kind| kind.data_type() == *of_table).unwrap_or(Kind::Text)
                }
            };
            let is_plain = kind.data_type() == *field.data_type() && !has_mark(field);
            Ok(Column {
                index,
                name: field.name().clone(),
                kind: is_plain.then_some(kind),
                is_found: found.is_some() && is_plain,
                field: Arc::new(field.clone()),
                is_never_null: self.given.is_never_null(field.name()),
            })
        };
        scan.columns().iter().map(column).collect()
    }
}

#[async_trait]
impl ReadThrough for Reading {
    const NAME: &'static str = "csv";
    type Reader = InOrder;

    async fn schema(&self, store: &Arc<dyn ObjectStore>, files: &[ObjectMeta]) -> Result<SchemaRef> {
        self.find(store, files).await
    }

    fn compression(&self) -> CompressionTypeVariant {
        self.compression
    }

    fn check(&self) -> Result<()> {
        if self.has_null_regex {
            let why = "null_regex is not supported for reading; compare with nullif";
            return Err(Error::Unsupported(why.to_owned()).into());
        }
        Ok(())
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
        let name = shown(&file.location);
        let look = self.look(store, file, true).await?;
        if look.is_empty {
            return Ok(None);
        }
        let ends = RecordEnds::new(&look, &self.given);
        let plan = self.plan(scan, look, name.clone())?;
        let input = self.input(store, file).await?;
        let (cutter, reading) = (Cutter::new(input, name, ends, self.memory()), self.clone());
        Ok(Some(CutFile::boxed(cutter, move || Ok(Reader::new(plan.clone(), reading.memory())))))
    }
}
