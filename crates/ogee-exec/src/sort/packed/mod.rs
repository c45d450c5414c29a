//! Sorting rows that are a few words wide: keys and columns are packed into one number (`layout`), so that comparing rows needs nothing else, and
//! rows are sorted and merged by moving them (`kernel`). Nothing refers to a row, and no cache line is fetched for one row alone.
//!
//! `sink` is the first phase: each lane sorts as many rows as its buffer holds and writes them to pages (`run`). `source` is the second: ranges
//! of the order, each merged by one lane (`merge`). Rows before an offset are counted where they are and not merged.
//!
//! Rows with equal keys come in the order of their other columns.

mod kernel;
mod layout;
mod merge;
mod run;
mod sink;
mod source;

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::SchemaRef;
use ogee_vector::{Chunk, Domain};

use self::{
    layout::{FieldSpec, PackedLayout},
    run::{PackedRun, RunWriter},
    sink::PackedSink,
    source::{PackedRows, PackedSource},
};
use super::{Cancelled, SortKey, SortSpec};
use crate::{ExecContext, ExecError, Expr, OpenPipeline, Query, RowOrder};

/// Words of a row, at most, as statistics say: rows of more are not moved but referred to.
const WORDS_WANTED: usize = 4;

/// A sort, bound to packed rows.
struct PackedPlan {
    schema: SchemaRef,
    /// What each field is the value of.
    exprs: Vec<Expr>,
    /// The field of each column of the schema.
    columns: Vec<usize>,
    /// As statistics say, and with room for every value.
    narrow: PackedLayout,
    wide: PackedLayout,
}

impl PackedPlan {
    /// A plan for rows of `schema`, of whose columns `domains` are known, by `keys`; `None`: they are not packed.
    fn new(schema: &SchemaRef, keys: &[SortKey], domains: &[Domain]) -> Option<Self> {
        let mut exprs = Vec::new();
        let mut specs = Vec::new();
        let mut columns = vec![None; schema.fields().len()];
        for key in keys {
            let spec = FieldSpec::key(&key.data_type, key.descending, key.nulls_first, key.expr.domain(domains))?;
            if let Expr::Column(column) = key.expr
                && spec.is_exact()
                && *schema.field(column).data_type() == key.data_type
            {
                if columns[column].is_some() {
                    // What was a key before tells no rows apart any more.
                    continue;
                }
                columns[column] = Some(specs.len());
            }
            exprs.push(key.expr.clone());
            specs.push(spec);
        }
        let columns = columns.into_iter().enumerate().map(|(column, field)| {
            if field.is_some() {
                return field;
            }
            let domain = domains.get(column).copied().unwrap_or(Domain::UNKNOWN);
            specs.push(FieldSpec::payload(schema.field(column).data_type(), domain)?);
            exprs.push(Expr::Column(column));
            Some(specs.len() - 1)
        });
        let columns = columns.collect::<Option<Vec<_>>>()?;
        let (narrow, wide) = (PackedLayout::new(&specs, true), PackedLayout::new(&specs, false));
        let fits = narrow.words() <= WORDS_WANTED && wide.words() <= kernel::WORDS_MAX;
        fits.then(|| Self { schema: Arc::clone(schema), exprs, columns, narrow, wide })
    }

    fn layout(&self, wide: bool) -> &PackedLayout {
        if wide { &self.wide } else { &self.narrow }
    }

    /// Whether a key is what may grow.
    fn may_grow(&self) -> bool {
        self.exprs.iter().any(Expr::may_grow)
    }

    /// The values of the fields of `chunk`, into `values`, which is cleared.
    fn evaluate(&self, chunk: &Chunk, values: &mut Vec<ArrayRef>) -> Result<(), ExecError> {
        values.clear();
        for expr in &self.exprs {
            values.push(expr.evaluate(chunk)?.flatten()?);
        }
        Ok(())
    }

    /// The columns of `rows`.
    fn decode(&self, wide: bool, rows: &[u64]) -> Result<Chunk, ExecError> {
        let layout = self.layout(wide);
        let columns = self.columns.iter().map(|&field| layout.decode(field, rows));
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(|error| ExecError::Foreign(Box::new(error)))?;
        Ok(Chunk::new(columns, rows.len() / layout.words()))
    }

    /// The rows of `run`, of the narrow layout, in the wide one.
    fn widened(&self, ctx: &ExecContext, run: PackedRun, cancelled: Cancelled<'_>) -> Result<PackedRun, ExecError> {
        const ROWS: usize = 1024;
        let (from, to) = (self.narrow.words(), self.wide.words());
        run.set_readers(std::iter::once(run::KeyRange::ALL));
        let mut writer = RunWriter::new(&ctx.memory, to, run.rows);
        let mut rows = vec![0; ROWS * to];
        for page in 0..run.num_pages() {
            if cancelled() {
                return Err(ExecError::Cancelled);
            }
            let pinned = run.pin(page, run.num_pages(), &ctx.memory)?;
            for some in pinned.rows().chunks(ROWS * from) {
                let rows = &mut rows[..some.len() / from * to];
                rows.fill(0);
                for (source, target) in some.chunks_exact(from).zip(rows.chunks_exact_mut(to)) {
                    self.wide.convert(&self.narrow, source, target);
                }
                writer.append(rows)?;
            }
            drop(pinned);
            run.done_with(page);
        }
        Ok(writer.finish())
    }
}

/// Adds the pipeline that sorts the rows of `input`, if they are narrow enough; see [`sort`](super::sort()).
pub(super) fn sort(query: &mut Query, input: &OpenPipeline, spec: &SortSpec) -> Option<OpenPipeline> {
    let plan = Arc::new(PackedPlan::new(&spec.schema, &spec.keys, &input.domains())?);
    let ctx = query.ctx().clone();
    let sorted = Arc::new(PackedRows::default());
    let sink = PackedSink::new(Arc::clone(&plan), ctx.clone(), Arc::clone(&sorted));
    let first = query.add(input.clone(), Arc::new(sink));
    let order = Arc::new(RowOrder::default());
    let mut rows = OpenPipeline::new(Arc::new(PackedSource::new(plan, ctx, sorted, Arc::clone(&order))));
    rows.deps.push(first);
    rows.order = Some(order);
    Some(rows)
}
