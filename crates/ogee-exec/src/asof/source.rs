//! Going through both sides in order, and giving out the pairs.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use ogee_scheduler::TaskContext;
use ogee_vector::{Chunk, Column};

use super::{
    AsofPlan,
    parts::{Pair, Sides},
};
use crate::{
    ExecContext, ExecError, Source, SourceLocal, SourceStep,
    sort::{Merge, SortPlan},
};

/// Chunks that a lane makes between two looks at what else there is to do.
const MORSEL_CHUNKS: usize = 64;

/// The rows of the join.
pub(super) struct AsofSource {
    plan: Arc<AsofPlan>,
    ctx: ExecContext,
    sides: Arc<Sides>,
}

impl AsofSource {
    pub(super) fn new(plan: Arc<AsofPlan>, ctx: ExecContext, sides: Sides) -> Self {
        Self { plan, ctx, sides: Arc::new(sides) }
    }
}

impl Source for AsofSource {
    fn name(&self) -> &str {
        "asof join"
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.plan.spec.schema)
    }

    fn lanes(&self, threads: usize) -> usize {
        self.sides.lanes(&self.ctx, threads)
    }

    fn local(&self, ctx: &ExecContext, _lane: usize) -> Result<Box<dyn SourceLocal>, ExecError> {
        let none = |plan: &SortPlan| vec![0; plan.layout.width()].into_boxed_slice();
        Ok(Box::new(AsofLocal {
            nulls: [none(&self.plan.left), none(&self.plan.right)],
            plan: Arc::clone(&self.plan),
            ctx: ctx.clone(),
            sides: Arc::clone(&self.sides),
            passing: None,
            pairs: Pairs::default(),
            chunks: 0,
        }))
    }

    fn stop(&self) {
        self.sides.stop();
    }
}

/// A side on its way through.
struct Side {
    merge: Merge,
    rows: Vec<*const u8>,
    at: usize,
    ended: bool,
}

impl Side {
    fn new(merge: Merge) -> Self {
        Self { merge, rows: Vec::new(), at: 0, ended: false }
    }

    fn head(&self) -> Option<*const u8> {
        self.rows.get(self.at).copied()
    }

    /// Whether rows are to be read before it is known which one comes next.
    fn is_dry(&self) -> bool {
        self.at == self.rows.len() && !self.ended
    }

    /// Reads on. The last row stays pinned until this is called once more.
    fn read(&mut self, rows: usize) -> Result<(), ExecError> {
        self.merge.next_rows(rows, &mut self.rows)?;
        self.at = 0;
        self.ended = self.rows.is_empty();
        Ok(())
    }
}

/// A part of both sides, being joined.
struct Passing {
    left: Side,
    right: Side,
    /// The last row of the right side that comes before the row of the left side at hand, whatever its keys; and whether any row met it.
    last: Option<*const u8>,
    met: bool,
}

/// Rows that come out, side by side: addresses, or those of rows of NULLs.
#[derive(Default)]
struct Pairs {
    left: Vec<*const u8>,
    right: Vec<*const u8>,
}

struct AsofLocal {
    plan: Arc<AsofPlan>,
    ctx: ExecContext,
    sides: Arc<Sides>,
    passing: Option<Passing>,
    pairs: Pairs,
    /// A row of each side in which all columns are NULL: nothing is valid.
    nulls: [Box<[u8]>; 2],
    chunks: usize,
}

// SAFETY: addresses are of rows of pages that the merges of `passing` keep pinned, or of `nulls`, and rows are only read.
unsafe impl Send for AsofLocal {}

impl SourceLocal for AsofLocal {
    fn next(&mut self, task: &TaskContext) -> Result<SourceStep, ExecError> {
        loop {
            if task.is_cancelled() {
                return Err(ExecError::Cancelled);
            }
            if self.chunks == MORSEL_CHUNKS {
                self.chunks = 0;
                return Ok(SourceStep::MorselEnd);
            }
            let Some(passing) = &mut self.passing else {
                let cancelled = || task.is_cancelled();
                let Some((left, right)): Option<Pair> = self.sides.next(&self.ctx, &self.plan, &cancelled)? else {
                    return Ok(SourceStep::Exhausted);
                };
                let (left, right) = (Side::new(left), Side::new(right));
                self.passing = Some(Passing { left, right, last: None, met: false });
                continue;
            };
            let capacity = self.ctx.settings.chunk_capacity;
            let nulls = [self.nulls[0].as_ptr(), self.nulls[1].as_ptr()];
            let goes_on = passing.fill(&self.plan, nulls, capacity, &mut self.pairs);
            self.chunks += 1;
            // SAFETY: nothing was read since the pairs were found.
            if let Some(chunk) = unsafe { self.pairs.take(&self.plan)? } {
                return Ok(SourceStep::Chunk(chunk));
            }
            if !goes_on {
                self.passing = None;
                continue;
            }
            if passing.left.is_dry() {
                passing.left.read(capacity)?;
            }
            if passing.right.is_dry() {
                passing.right.read(capacity)?;
            }
        }
    }
}

impl Passing {
    /// Finds pairs until there are `capacity`, or a side must be read on, which only those may do who have taken the pairs. False: that was all.
    fn fill(
        &mut self,
        plan: &AsofPlan,
        [no_left, no_right]: [*const u8; 2],
        capacity: usize,
        pairs: &mut Pairs,
    ) -> bool {
        let spec = &plan.spec;
        let (left_keys, right_keys) = (&plan.left.keys, &plan.right.keys);
        let keeps_right = spec.kind.gives_unmet_right();
        while pairs.left.len() < capacity {
            if self.left.is_dry() {
                return true;
            }
            let row = self.left.head();
            if row.is_none() && !keeps_right {
                return false;
            }
            if self.right.is_dry() {
                return true;
            }
            let Some(row) = row else {
                // None meets those of the right side that are left.
                if let Some(last) = self.last.take().filter(|_| !self.met) {
                    pairs.push(no_left, last);
                } else if let Some(right) = self.right.head() {
                    pairs.push(no_left, right);
                    self.right.at += 1;
                } else {
                    return false;
                }
                continue;
            };
            // SAFETY: rows of both sides' layouts, pinned with their strings: `last` is of the rows read last, or the last of those before them.
            let mate = unsafe {
                if left_keys.has_null(row) {
                    None
                } else {
                    if let Some(right) = self.right.head() {
                        let order = right_keys.compare_across(right, left_keys, row, 0, right_keys.len());
                        if order.is_lt() || spec.or_equal && order.is_eq() {
                            if let Some(last) = self.last.filter(|_| keeps_right && !self.met) {
                                pairs.push(no_left, last);
                            }
                            (self.last, self.met) = (Some(right), false);
                            self.right.at += 1;
                            continue;
                        }
                    }
                    self.last.filter(|&last| right_keys.compare_across(last, left_keys, row, 0, plan.equal).is_eq())
                }
            };
            self.met |= mate.is_some();
            self.left.at += 1;
            match mate {
                Some(mate) if spec.kind.gives_met() => pairs.push(row, mate),
                None if spec.kind.gives_unmet() => pairs.push(row, no_right),
                _ => {}
            }
        }
        true
    }
}

impl Pairs {
    fn push(&mut self, left: *const u8, right: *const u8) {
        self.left.push(left);
        self.right.push(right);
    }

    /// The columns of the pairs, of which there are none afterwards.
    ///
    /// # Safety
    /// Their rows are pinned, with their strings.
    unsafe fn take(&mut self, plan: &AsofPlan) -> Result<Option<Chunk>, ExecError> {
        let rows = self.left.len();
        if rows == 0 {
            return Ok(None);
        }
        // SAFETY: the caller vouches for the rows.
        let mut columns = unsafe { columns(plan.left.gather_fixed(&self.left)?) };
        if plan.spec.kind.gives_right() {
            // SAFETY: as above.
            columns.extend(unsafe { self::columns(plan.right.gather_fixed(&self.right)?) });
        }
        self.left.clear();
        self.right.clear();
        Ok(Some(Chunk::from_columns(columns, rows)))
    }
}

fn columns(chunk: Chunk) -> Vec<Column> {
    (0..chunk.num_columns()).map(|column| chunk.to_column(column)).collect()
}
