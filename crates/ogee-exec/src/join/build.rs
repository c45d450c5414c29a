//! First phase: every lane writes the rows of the build side to pages of its own.

use std::sync::Arc;

use ogee_memory::PAGE_SIZE;
use ogee_row::{PartitionedRows, RadixBits, RowStage};
use ogee_scheduler::TaskContext;
use ogee_vector::Chunk;

use super::{
    key_set::KeyScratch,
    reach::KeyRanges,
    side::Keys,
    state::{JoinState, open_bytes, partitioned},
};
use crate::{ExecContext, ExecError, Flow, Sink, SinkLocal};

/// Rows of a lane that are not divided yet, in bytes: at least so many. Dividing costs a pass over them when they have become many, which is
/// wasted where the build side stays in memory, and so is the order that they came in: rows of neighbouring keys are found sooner side by side.
const UNDIVIDED_MIN: usize = 4 * PAGE_SIZE;

/// Keeps the rows of the build side.
pub(crate) struct BuildSink {
    state: Arc<JoinState>,
}

impl BuildSink {
    pub(crate) fn new(state: Arc<JoinState>) -> Self {
        Self { state }
    }
}

impl Sink for BuildSink {
    fn name(&self) -> &str {
        "join build"
    }

    /// As many as have memory for the fewest partitions.
    fn lanes(&self, threads: usize) -> usize {
        (self.state.grant() / 2 / (8 * open_bytes(&self.state.plan.build))).clamp(1, threads)
    }

    fn local(&self, ctx: &ExecContext, _lane: usize) -> Result<Box<dyn SinkLocal>, ExecError> {
        let undivided = self.state.grant() / ctx.settings.threads / 4;
        Ok(Box::new(BuildLocal {
            rows: rows(&self.state, RadixBits::new(0)),
            unmatchable: None,
            undivided: undivided.max(UNDIVIDED_MIN),
            state: Arc::clone(&self.state),
            ranges: KeyRanges::default(),
            scratch: KeyScratch::default(),
            keys: Keys::default(),
            stage: RowStage::default(),
        }))
    }

    fn finish(&self, _ctx: &ExecContext) -> Result<(), ExecError> {
        self.state.settle()
    }
}

fn rows(state: &JoinState, radix: RadixBits) -> PartitionedRows {
    partitioned(&state.ctx, &state.plan.build, radix)
}

struct BuildLocal {
    state: Arc<JoinState>,
    rows: PartitionedRows,
    /// Rows whose key has a NULL that equals nothing.
    unmatchable: Option<PartitionedRows>,
    /// Bytes at which the rows are divided.
    undivided: usize,
    ranges: KeyRanges,
    scratch: KeyScratch,
    keys: Keys,
    stage: RowStage,
}

impl BuildLocal {
    /// Appends the rows of `chunk`, whose keys were evaluated.
    fn append(&mut self, chunk: &Chunk, matchable: bool) -> Result<(), ExecError> {
        let Self { state, rows: matchables, unmatchable, keys, stage, .. } = self;
        let _held = state.plan.build.stage(chunk, keys, stage)?;
        let to = match matchable {
            true => matchables,
            false => unmatchable.get_or_insert_with(|| rows(state, RadixBits::new(0))),
        };
        if matchable {
            self.ranges.add(keys);
            // Rows that were divided may be too many to come back to.
            if !state.reaches.is_empty() && to.radix().bits() > 0 {
                state.reaches.add_keys(state.early_sets(), keys, &mut self.scratch)?;
            }
        }
        // SAFETY: the rows were staged just now; their strings are in `chunk`, `keys` and what is held.
        unsafe { to.scatter((0..chunk.len()).map(|row| stage.row(row)))? };
        Ok(())
    }
}

impl SinkLocal for BuildLocal {
    fn consume(&mut self, chunk: Chunk, _task: &TaskContext) -> Result<Flow, ExecError> {
        let state = Arc::clone(&self.state);
        let side = &state.plan.build;
        let seed = state.ctx.settings.hash;
        side.evaluate(&chunk, seed, &mut self.keys)?;
        match self.keys.valid().filter(|_| !state.plan.spec.nulls_equal) {
            None => self.append(&chunk, true)?,
            Some(valid) => {
                let (mut whole, mut with_nulls) = (Vec::new(), Vec::new());
                for row in 0..chunk.len() {
                    let rows = if valid.is_valid(row) { &mut whole } else { &mut with_nulls };
                    rows.push(row as u32);
                }
                if state.plan.kind().keeps_build() {
                    let part = chunk.select(&with_nulls);
                    side.evaluate(&part, seed, &mut self.keys)?;
                    self.append(&part, false)?;
                }
                let part = chunk.select(&whole);
                side.evaluate(&part, seed, &mut self.keys)?;
                self.append(&part, true)?;
            }
        }
        if self.rows.radix().bits() == 0 && self.rows.allocated_bytes() > self.undivided {
            let mut divided = rows(&state, state.radix());
            let undivided = std::mem::replace(&mut self.rows, rows(&state, RadixBits::new(0)));
            state.divide(undivided.into_partitions(), &mut divided)?;
            self.rows = divided;
        }
        Ok(Flow::Continue)
    }

    fn combine(self: Box<Self>) -> Result<(), ExecError> {
        self.state.collect(self.rows, self.unmatchable, &self.ranges);
        Ok(())
    }
}
