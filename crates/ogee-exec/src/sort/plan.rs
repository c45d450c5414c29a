//! A specification bound to a row layout: `[hash | columns of the input | strings that are only keys | normalized key]`.
//!
//! Columns and keys are as narrow as their [`Forms`] say. A column that comes back from the normalized key is not kept beside it.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{ArrowError, DataType, SchemaRef, SortOptions};
use ogee_row::{CodeCache, Misfit, Narrowing, NestedCodec, RowLayout, RowLayoutBuilder, RowStage, gather_column};
use ogee_vector::{Chunk, Column, HashSeed, PhysicalType, hash_column};

use super::{SortKey, key::ENTRY_PREFIX, key::KeyLayout};
use crate::{ExecError, Expr};

/// How the values of keys, and of columns of the input, are stored.
#[derive(Clone)]
pub(crate) struct Forms {
    pub(super) keys: Vec<Narrowing>,
    pub(super) columns: Vec<Narrowing>,
}

impl Forms {
    /// Values of `keys` and of columns of `schema` as they are.
    pub(super) fn plain(schema: &SchemaRef, keys: &[SortKey]) -> Self {
        let columns = schema.fields().iter().map(|field| Narrowing::plain(field.data_type().clone()));
        let keys = keys.iter().map(|key| Narrowing::plain(key.data_type.clone()));
        Self { keys: keys.collect(), columns: columns.collect() }
    }
}

/// A form that may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guess {
    Key(usize),
    Column(usize),
}

/// Values that do not fit their form.
pub(crate) type Misfits = Vec<(Guess, Misfit)>;

/// Where a column of the input is.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// A column of the row.
    Row(usize),
    /// A key.
    Key(usize),
}

/// What a lane keeps of dictionaries.
#[derive(Default)]
pub(crate) struct Codes {
    /// By column; those without a dictionary share one.
    caches: Vec<(Option<usize>, CodeCache)>,
}

impl Codes {
    fn of(&mut self, column: usize, form: &Narrowing) -> &mut CodeCache {
        let of = form.dictionary().map(|_| column);
        let at = self.caches.iter().position(|(known, _)| *known == of).unwrap_or_else(|| {
            self.caches.push((of, CodeCache::default()));
            self.caches.len() - 1
        });
        &mut self.caches[at].1
    }
}

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
    forms: Forms,
    /// Where each column of the input is.
    places: Vec<Place>,
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
    codes: Codes,
}

/// The values of column `index` as rows keep them, or why one does not fit.
fn stored(
    column: &Column,
    index: usize,
    codec: Option<&NestedCodec>,
    form: &Narrowing,
    codes: &mut Codes,
) -> Result<Result<ArrayRef, Misfit>, ExecError> {
    if form.is_plain() {
        return Ok(Ok(NestedCodec::encoded(column.flatten()?, codec)?));
    }
    Ok(form.narrow(column.as_ref(), codes.of(index, form))?)
}

impl SortPlan {
    /// A plan for rows of `schema` by `keys`, with room for every value; with `hashed` expressions (and their types), rows come by the hash of
    /// those first.
    pub(crate) fn new(schema: SchemaRef, keys: &[SortKey], hashed: Vec<(Expr, DataType)>) -> Result<Self, ExecError> {
        let forms = Forms::plain(&schema, keys);
        Self::with_forms(schema, keys, hashed, forms)
    }

    /// The same, with room for values that have these `forms`.
    pub(super) fn with_forms(
        schema: SchemaRef,
        keys: &[SortKey],
        hashed: Vec<(Expr, DataType)>,
        forms: Forms,
    ) -> Result<Self, ExecError> {
        let hashed = hashed
            .into_iter()
            .map(|(expr, data_type)| Ok((expr, NestedCodec::of(&data_type)?)))
            .collect::<Result<Vec<_>, ExecError>>()?;
        let mut views = vec![usize::MAX; keys.len()];
        // Which keys give their values back does not depend on where strings are.
        let key_forms = KeyLayout::new(keys, &forms.keys, !hashed.is_empty(), |key| views[key]);
        let is_column = |key: usize, column: usize| {
            matches!(keys[key].expr, Expr::Column(of) if of == column)
                && keys[key].data_type == *schema.field(column).data_type()
        };
        let mut builder = RowLayoutBuilder::default();
        let mut codecs = Vec::with_capacity(schema.fields().len());
        let mut places = Vec::with_capacity(schema.fields().len());
        for (column, field) in schema.fields().iter().enumerate() {
            let key = (0..keys.len()).find(|&key| is_column(key, column) && key_forms.is_exact(key));
            places.push(match key {
                Some(key) => Place::Key(key),
                None => {
                    let form = &forms.columns[column];
                    Place::Row(builder.payload(form.stored_type(), form.nullable()))
                }
            });
            codecs.push(NestedCodec::of(field.data_type())?);
        }
        let mut extra = Vec::new();
        let mut key_codecs = Vec::with_capacity(keys.len());
        for (index, key) in keys.iter().enumerate() {
            let physical = PhysicalType::of(&key.data_type)?;
            // A NULL in a list or struct is greatest, wherever NULLs as a whole go.
            let options = SortOptions { descending: key.descending, nulls_first: key.descending };
            key_codecs.push(match physical {
                PhysicalType::Nested => Some(NestedCodec::ordered(&key.data_type, options)?),
                _ => None,
            });
            match &key.expr {
                Expr::Column(column) if physical == PhysicalType::View => {
                    let Place::Row(in_row) = places[*column] else { unreachable!("a string does not come back") };
                    views[index] = in_row;
                }
                _ if physical.has_heap() => {
                    let stored = if physical == PhysicalType::View { &key.data_type } else { &DataType::BinaryView };
                    views[index] = builder.payload(stored.clone(), true);
                    extra.push((index, views[index]));
                }
                _ => {}
            }
        }
        let mut keys_layout = KeyLayout::new(keys, &forms.keys, !hashed.is_empty(), |key| views[key]);
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
            forms,
            places,
            extra,
            hashed,
        })
    }

    /// How values are stored.
    pub(super) fn forms(&self) -> &Forms {
        &self.forms
    }

    /// Whether a key, or what rows are grouped by first, is what may grow.
    pub(crate) fn may_grow(&self) -> bool {
        self.exprs.iter().chain(self.hashed.iter().map(|(expr, _)| expr)).any(Expr::may_grow)
    }

    /// Computes the keys of `chunk`, with a plan that has room for every value.
    pub(crate) fn evaluate(&self, chunk: &Chunk, seed: HashSeed, scratch: &mut KeyScratch) -> Result<(), ExecError> {
        self.try_evaluate(chunk, seed, scratch)?.expect("every value fits");
        Ok(())
    }

    /// Computes the keys of `chunk`, or says which do not fit.
    pub(super) fn try_evaluate(
        &self,
        chunk: &Chunk,
        seed: HashSeed,
        scratch: &mut KeyScratch,
    ) -> Result<Result<(), Misfits>, ExecError> {
        scratch.columns.clear();
        let mut misfits = Vec::new();
        for (index, (expr, codec)) in self.exprs.iter().zip(&self.key_codecs).enumerate() {
            let column = expr.evaluate(chunk)?;
            match stored(&column, index, codec.as_ref(), &self.forms.keys[index], &mut scratch.codes)? {
                Ok(array) => scratch.columns.push(array),
                Err(misfit) => misfits.push((Guess::Key(index), misfit)),
            }
        }
        if !misfits.is_empty() {
            return Ok(Err(misfits));
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
        Ok(Ok(()))
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

    /// Stages the rows of `chunk`, whose keys were evaluated into `scratch`, with a plan that has room for every value. What comes back must outlive
    /// the staged rows' use: their long strings point into it.
    pub(crate) fn stage(
        &self,
        chunk: &Chunk,
        scratch: &mut KeyScratch,
        stage: &mut RowStage,
    ) -> Result<Vec<ArrayRef>, ExecError> {
        Ok(self.try_stage(chunk, scratch, stage)?.expect("every value fits"))
    }

    /// The same, or says which values do not fit.
    pub(super) fn try_stage(
        &self,
        chunk: &Chunk,
        scratch: &mut KeyScratch,
        stage: &mut RowStage,
    ) -> Result<Result<Vec<ArrayRef>, Misfits>, ExecError> {
        let rows = chunk.len();
        stage.reset(&self.layout, rows);
        stage.write_stored_hashes(scratch.stored.iter().copied());
        let mut held = Vec::with_capacity(self.codecs.len());
        let mut misfits = Vec::new();
        for (index, (codec, place)) in self.codecs.iter().zip(&self.places).enumerate() {
            let &Place::Row(in_row) = place else { continue };
            let column = chunk.to_column(index);
            match stored(&column, index, codec.as_ref(), &self.forms.columns[index], &mut scratch.codes)? {
                Ok(array) => {
                    stage.write_column(&self.layout, in_row, &array, None);
                    held.push(array);
                }
                Err(misfit) => misfits.push((Guess::Column(index), misfit)),
            }
        }
        if !misfits.is_empty() {
            return Ok(Err(misfits));
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
        Ok(Ok(held))
    }

    /// The columns of the input of `rows`, of a plan that has room for every value and so no codes.
    ///
    /// # Safety
    /// As [`gather`](Self::gather).
    pub(crate) unsafe fn gather_fixed(&self, rows: &[*const u8]) -> Result<Chunk, ExecError> {
        // SAFETY: the caller vouches for the rows.
        unsafe { self.gather(rows, &mut Codes::default()) }
    }

    /// The columns of the input of `rows`.
    ///
    /// # Safety
    /// `rows` must point to rows of the layout on pinned pages, their long strings rebased.
    pub(crate) unsafe fn gather(&self, rows: &[*const u8], codes: &mut Codes) -> Result<Chunk, ExecError> {
        let mut columns = Vec::with_capacity(self.places.len());
        for (index, place) in self.places.iter().enumerate() {
            let (form, array) = match *place {
                Place::Row(in_row) => {
                    // SAFETY: the caller vouches for the rows.
                    (&self.forms.columns[index], unsafe { gather_column(&self.layout, in_row, rows)? })
                }
                Place::Key(key) => {
                    let form = &self.forms.keys[key];
                    // SAFETY: as above; such a key is exact.
                    let array = unsafe { self.keys.values(key, &form.stored_type(), rows) };
                    (form, array.map_err(|error: ArrowError| ExecError::Foreign(Box::new(error)))?)
                }
            };
            columns.push(if form.is_plain() { array } else { form.widen(array, codes.of(index, form)) });
        }
        Ok(Chunk::new(columns, rows.len()))
    }
}
