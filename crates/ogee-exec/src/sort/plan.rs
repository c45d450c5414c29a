//! A specification bound to a row layout: `[hash | columns of the input | strings that are only keys | normalized key]`.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, SchemaRef, SortOptions};
use ogee_row::{NestedCodec, RowLayout, RowLayoutBuilder, RowStage, gather_column};
use ogee_vector::{Chunk, HashSeed, PhysicalType, hash_column};

use super::{SortKey, key::ENTRY_PREFIX, key::KeyLayout};
use crate::{ExecError, Expr};

/// A sort, bound to a row layout.
pub(crate) struct SortPlan {
    pub(crate) layout: Arc<RowLayout>,
    pub(crate) keys: KeyLayout,
    /// Columns that come out: those that go in.
    pub(crate) schema: SchemaRef,
    exprs: Vec<Expr>,
    /// What turns nested keys into ordered bytes.
    key_codecs: Vec<Option<NestedCodec>>,
    codecs: Vec<Option<NestedCodec>>,
    /// Keys whose strings are in no column of the input, with their columns in the row.
    extra: Vec<(usize, usize)>,
    /// What rows are first grouped by, in any order: by its hash.
    hashed: Vec<(Expr, Option<NestedCodec>)>,
}

/// What a lane computes for each chunk, reused.
#[derive(Default)]
pub(crate) struct KeyScratch {
    columns: Vec<ArrayRef>,
    hashes: Vec<u64>,
    stored: Vec<u32>,
    /// The keys themselves, if they were asked for before their rows are staged.
    keys: Vec<u8>,
}

impl SortPlan {
    /// A plan for rows of `schema` by `keys`; with `hashed` expressions (and their types), rows come by the hash of those first.
    pub(crate) fn new(schema: SchemaRef, keys: &[SortKey], hashed: Vec<(Expr, DataType)>) -> Result<Self, ExecError> {
        let mut builder = RowLayoutBuilder::default();
        let mut codecs = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            builder.payload(field.data_type().clone(), true);
            codecs.push(NestedCodec::of(field.data_type())?);
        }
        let mut extra = Vec::new();
        let mut views = vec![usize::MAX; keys.len()];
        let mut key_codecs = Vec::with_capacity(keys.len());
        for (index, key) in keys.iter().enumerate() {
            let physical = PhysicalType::of(&key.data_type)?;
            let options = SortOptions { descending: key.descending, nulls_first: key.nulls_first };
            key_codecs.push(match physical {
                PhysicalType::Nested => Some(NestedCodec::ordered(&key.data_type, options)?),
                _ => None,
            });
            match &key.expr {
                Expr::Column(column) if physical == PhysicalType::View => views[index] = *column,
                _ if physical.has_heap() => {
                    let stored = if physical == PhysicalType::View { &key.data_type } else { &DataType::BinaryView };
                    views[index] = builder.payload(stored.clone(), true);
                    extra.push((index, views[index]));
                }
                _ => {}
            }
        }
        let hashed = hashed
            .into_iter()
            .map(|(expr, data_type)| Ok((expr, NestedCodec::of(&data_type)?)))
            .collect::<Result<Vec<_>, ExecError>>()?;
        let mut keys_layout = KeyLayout::new(keys, !hashed.is_empty(), |key| views[key]);
        builder.state(keys_layout.len().max(ENTRY_PREFIX));
        let layout = builder.build()?;
        keys_layout.bind(&layout);
        Ok(Self {
            layout,
            keys: keys_layout,
            schema,
            exprs: keys.iter().map(|key| key.expr.clone()).collect(),
            key_codecs,
            codecs,
            extra,
            hashed,
        })
    }

    /// Computes the keys of `chunk`.
    pub(crate) fn evaluate(&self, chunk: &Chunk, seed: HashSeed, scratch: &mut KeyScratch) -> Result<(), ExecError> {
        scratch.columns.clear();
        for (expr, codec) in self.exprs.iter().zip(&self.key_codecs) {
            let array = expr.evaluate(chunk)?.flatten()?;
            scratch.columns.push(NestedCodec::encoded(array, codec.as_ref())?);
        }
        scratch.stored.clear();
        if !self.hashed.is_empty() {
            scratch.hashes.clear();
            scratch.hashes.resize(chunk.len(), 0);
            for (index, (expr, codec)) in self.hashed.iter().enumerate() {
                let mut column = expr.evaluate(chunk)?;
                if let Some(codec) = codec {
                    column = ogee_vector::Column::flat(codec.encode(&column.flatten()?)?);
                }
                hash_column(column.as_ref(), seed, index == 0, &mut scratch.hashes)?;
            }
            let stored = scratch.hashes.iter().map(|&hash| ogee_row::RadixBits::stored_hash(hash));
            scratch.stored.extend(stored);
        }
        Ok(())
    }

    /// The rows of the chunk whose keys were evaluated into `scratch` that may come at or before prefix `last`, into `rows`.
    pub(crate) fn select(&self, rows: usize, last: u128, scratch: &mut KeyScratch, selected: &mut Vec<u32>) {
        let stride = self.keys.len().max(ENTRY_PREFIX);
        scratch.keys.clear();
        scratch.keys.resize(rows * stride, 0);
        // SAFETY: there is room for that many keys, zeroed.
        unsafe { self.keys.write(&scratch.stored, &scratch.columns, rows, scratch.keys.as_mut_ptr(), stride) };
        selected.clear();
        selected.extend((0..rows as u32).filter(|&row| {
            // SAFETY: each key has at least as many bytes as a prefix.
            unsafe { super::key::prefix_at(scratch.keys.as_ptr().add(row as usize * stride)) <= last }
        }));
    }

    /// Keeps only `rows` of what was evaluated.
    pub(crate) fn narrow(&self, rows: &[u32], scratch: &mut KeyScratch) -> Result<(), ExecError> {
        for column in &mut scratch.columns {
            *column = ogee_vector::gather_array(column, rows)?;
        }
        if !scratch.stored.is_empty() {
            scratch.stored = rows.iter().map(|&row| scratch.stored[row as usize]).collect();
        }
        Ok(())
    }

    /// Stages the rows of `chunk`, whose keys were evaluated into `scratch`. What comes back must outlive the staged rows' use: their long
    /// strings point into it.
    pub(crate) fn stage(
        &self,
        chunk: &Chunk,
        scratch: &KeyScratch,
        stage: &mut RowStage,
    ) -> Result<Vec<ArrayRef>, ExecError> {
        let rows = chunk.len();
        stage.reset(&self.layout, rows);
        stage.write_stored_hashes(scratch.stored.iter().copied());
        let mut held = Vec::with_capacity(self.codecs.len());
        for (index, codec) in self.codecs.iter().enumerate() {
            let array = NestedCodec::encoded(chunk.column(index).flatten()?, codec.as_ref())?;
            stage.write_column(&self.layout, index, &array, None);
            held.push(array);
        }
        for &(key, column) in &self.extra {
            stage.write_column(&self.layout, column, &scratch.columns[key], None);
            held.push(Arc::clone(&scratch.columns[key]));
        }
        if rows > 0 {
            // SAFETY: staged rows lie side by side, were zeroed, and have room for the key where the state is.
            unsafe {
                let target = stage.row_mut(0).add(self.layout.state_offset());
                self.keys.write(&scratch.stored, &scratch.columns, rows, target, self.layout.width());
            }
        }
        Ok(held)
    }

    /// The columns of the input of `rows`.
    ///
    /// # Safety
    /// `rows` must point to rows of the layout on pinned pages, their long strings rebased.
    pub(crate) unsafe fn gather(&self, rows: &[*const u8]) -> Result<Chunk, ExecError> {
        let columns = (0..self.codecs.len())
            // SAFETY: the caller vouches for the rows.
            .map(|column| unsafe { gather_column(&self.layout, column, rows) })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Chunk::new(columns, rows.len()))
    }
}
