//! One side of a join: its rows.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, SchemaRef};
use ogee_row::{HeapBuffers, NestedCodec, RowLayout, RowLayoutBuilder, RowStage, gather_column_from};
use ogee_vector::{Chunk, Column, HashSeed, hash_column};

use crate::{ExecError, Expr};

/// How rows of one side are made of chunks, and columns of rows.
pub(crate) struct Side {
    pub(crate) layout: Arc<RowLayout>,
    keys: Vec<(Expr, Option<NestedCodec>)>,
    /// The columns that are kept, by their number in the input.
    kept: Vec<usize>,
    /// The layout's column for each of them.
    slots: Vec<usize>,
    /// Of those that are payload.
    codecs: Vec<Option<NestedCodec>>,
    schema: SchemaRef,
}

/// The keys of a chunk.
#[derive(Default)]
pub(crate) struct Keys {
    /// Nested values as the bytes of their encoding.
    pub(crate) columns: Vec<Column>,
    pub(crate) hashes: Vec<u64>,
}

impl Side {
    /// Rows of `keys`, the columns `kept` of `schema` and `state_bytes` of state.
    pub(crate) fn new<'a>(
        schema: &SchemaRef,
        keys: impl Iterator<Item = (&'a Expr, &'a DataType)>,
        nullable: bool,
        kept: Vec<usize>,
        state_bytes: usize,
    ) -> Result<Self, ExecError> {
        let mut layout = RowLayoutBuilder::default();
        let mut bound = Vec::new();
        // Columns that are keys need not be kept twice. Floats do: zeroes and NaNs of keys are made alike.
        let mut as_keys = Vec::new();
        for (expr, data_type) in keys {
            let slot = layout.key(data_type.clone(), nullable);
            if let Expr::Column(column) = expr
                && !data_type.is_floating()
                && schema.field(*column).data_type() == data_type
            {
                as_keys.push((*column, slot));
            }
            bound.push((expr.clone(), NestedCodec::of(data_type)?));
        }
        let mut slots = Vec::with_capacity(kept.len());
        let mut codecs = Vec::with_capacity(kept.len());
        for &column in &kept {
            let data_type = schema.field(column).data_type();
            match as_keys.iter().find(|(key, _)| *key == column) {
                Some((_, slot)) => slots.push(*slot),
                None => slots.push(layout.payload(data_type.clone(), true)),
            }
            codecs.push(NestedCodec::of(data_type)?);
        }
        layout.state(state_bytes);
        Ok(Self { layout: layout.build()?, keys: bound, kept, slots, codecs, schema: Arc::clone(schema) })
    }

    /// Whether a key is what may grow.
    pub(crate) fn may_grow(&self) -> bool {
        self.keys.iter().any(|(expr, _)| expr.may_grow())
    }

    /// Evaluates the keys of `chunk` and hashes them.
    pub(crate) fn evaluate(&self, chunk: &Chunk, seed: HashSeed, keys: &mut Keys) -> Result<(), ExecError> {
        keys.columns.clear();
        for (expr, codec) in &self.keys {
            let column = expr.evaluate(chunk)?;
            keys.columns.push(match codec {
                Some(_) => Column::flat(NestedCodec::encoded(column.flatten()?, codec.as_ref())?),
                None => column,
            });
        }
        keys.hashes.clear();
        keys.hashes.resize(chunk.len(), seed.seed);
        for (index, column) in keys.columns.iter().enumerate() {
            hash_column(column.as_ref(), seed, index == 0, &mut keys.hashes)?;
        }
        Ok(())
    }

    /// Writes rows of `chunk`, keys and columns, to `stage`. What comes back, `chunk` and `keys` must outlive the staged rows' use: their long
    /// strings point into it.
    pub(crate) fn stage(&self, chunk: &Chunk, keys: &Keys, stage: &mut RowStage) -> Result<Vec<ArrayRef>, ExecError> {
        stage.reset(&self.layout, chunk.len());
        stage.write_hashes(&keys.hashes);
        for (index, column) in keys.columns.iter().enumerate() {
            stage.write_column(&self.layout, index, &column.flatten()?, None);
        }
        let mut held = Vec::with_capacity(self.kept.len());
        for ((&column, &slot), codec) in self.kept.iter().zip(&self.slots).zip(&self.codecs) {
            if slot >= self.layout.num_keys() {
                let array = NestedCodec::encoded(chunk.column(column).flatten()?, codec.as_ref())?;
                stage.write_column(&self.layout, slot, &array, None);
                held.push(array);
            }
        }
        Ok(held)
    }

    /// Column `column` of the input, out of `rows`. Strings that are on pages of `heap` stay there.
    ///
    /// # Safety
    /// `rows` are rows of the layout on pinned pages.
    pub(crate) unsafe fn gather(
        &self,
        column: usize,
        rows: &[*const u8],
        heap: Option<&HeapBuffers>,
    ) -> Result<ArrayRef, ExecError> {
        let slot = self.slots[self.position(column)];
        // SAFETY: the caller vouches for the rows.
        Ok(unsafe { gather_column_from(&self.layout, slot, rows, heap)? })
    }

    /// The kept columns of `rows`, in the order of [`Self::position`].
    ///
    /// # Safety
    /// As [`Self::gather`].
    pub(crate) unsafe fn gather_kept(
        &self,
        rows: &[*const u8],
        heap: Option<&HeapBuffers>,
    ) -> Result<Chunk, ExecError> {
        // SAFETY: the caller vouches for the rows.
        let column = |&slot| unsafe { gather_column_from(&self.layout, slot, rows, heap) };
        Ok(Chunk::new(self.slots.iter().map(column).collect::<Result<_, _>>()?, rows.len()))
    }

    /// Where column `column` of the input is among those that are kept.
    pub(crate) fn position(&self, column: usize) -> usize {
        self.kept.binary_search(&column).expect("columns that are used are kept")
    }

    /// Type of column `column` of the input.
    pub(crate) fn data_type(&self, column: usize) -> &DataType {
        self.schema.field(column).data_type()
    }
}

impl Keys {
    /// Those of rows `rows` of the chunk.
    pub(crate) fn select(&self, rows: &[u32]) -> Self {
        let columns = Chunk::from_columns(self.columns.clone(), self.hashes.len()).select(rows);
        Self {
            columns: (0..columns.num_columns()).map(|column| columns.to_column(column)).collect(),
            hashes: rows.iter().map(|&row| self.hashes[row as usize]).collect(),
        }
    }

    /// The rows that have a NULL among their keys are not set; `None` if there are no such rows.
    pub(crate) fn valid(&self) -> Option<NullBuffer> {
        let mut all: Option<NullBuffer> = None;
        for column in &self.columns {
            let Some(nulls) = column.array.logical_nulls().filter(|nulls| nulls.null_count() > 0) else { continue };
            let nulls = match &column.selection {
                None => nulls,
                Some(selection) => {
                    let positions = selection.positions();
                    NullBuffer::new(arrow_buffer::BooleanBuffer::collect_bool(positions.len(), |row| {
                        nulls.is_valid(positions[row] as usize)
                    }))
                }
            };
            all = NullBuffer::union(all.as_ref(), Some(&nulls));
        }
        all.filter(|nulls| nulls.null_count() > 0)
    }
}
