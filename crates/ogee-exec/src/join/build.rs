//! First phase: every lane writes the rows of the build side to pages of its own.

use std::sync::Arc;

use ogee_row::{PartitionedRows, RowStage, SerialRows};
use ogee_scheduler::TaskContext;
use ogee_vector::Chunk;

use super::{
    key_set::KeyScratch,
    reach::KeyRanges,
    side::Keys,
    state::{JoinState, OPEN_BYTES, build_rows},
};
use crate::{ExecContext, ExecError, Flow, Sink, SinkLocal};

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
        (self.state.grant() / 2 / (8 * OPEN_BYTES)).clamp(1, threads)
    }

    fn may_grow(&self) -> bool {
        self.state.plan.build.may_grow()
    }

    fn local(&self, ctx: &ExecContext, _lane: usize) -> Result<Box<dyn SinkLocal>, ExecError> {
        Ok(Box::new(BuildLocal {
            rows: build_rows(&ctx.memory, &self.state.plan, false),
            counted: (0, 0),
            divided: None,
            unmatchable: None,
            state: Arc::clone(&self.state),
            ranges: KeyRanges::default(),
            scratch: KeyScratch::default(),
            keys: Keys::default(),
            stage: RowStage::default(),
        }))
    }

    fn finish(&self, _ctx: &ExecContext, task: &TaskContext) -> Result<(), ExecError> {
        self.state.settle(&|| task.is_cancelled())
    }
}

struct BuildLocal {
    state: Arc<JoinState>,
    rows: PartitionedRows,
    /// Of these rows and the bytes of their pages, what the other lanes know.
    counted: (usize, usize),
    /// Rows that came when it was known that not all may stay, and those that came before. Dividing them is wasted where they stay, and so
    /// is the order that they came in: rows of neighbouring keys are found sooner side by side.
    divided: Option<SerialRows>,
    /// Rows whose key has a NULL that equals nothing.
    unmatchable: Option<PartitionedRows>,
    ranges: KeyRanges,
    scratch: KeyScratch,
    keys: Keys,
    stage: RowStage,
}

impl BuildLocal {
    /// Appends the rows of `chunk`, whose keys were evaluated.
    fn append(&mut self, chunk: &Chunk, matchable: bool) -> Result<(), ExecError> {
        let Self { state, rows, divided, unmatchable, keys, stage, .. } = self;
        let _held = state.plan.build.stage(chunk, keys, stage)?;
        let to = match matchable {
            true => rows,
            false => unmatchable.get_or_insert_with(|| build_rows(&state.ctx.memory, &state.plan, false)),
        };
        if matchable {
            self.ranges.add(keys);
        }
        if let Some(divided) = divided.as_mut().filter(|_| matchable) {
            // Rows that were divided are too many to come back to.
            if !state.reaches.is_empty() {
                state.reaches.add_keys(state.early_sets(), keys, &mut self.scratch)?;
            }
            // SAFETY: as below.
            unsafe { divided.scatter(stage)? };
            return Ok(());
        }
        // SAFETY: the rows were staged just now; their strings are in `chunk`, `keys` and what is held.
        unsafe { to.scatter((0..chunk.len()).map(|row| stage.row(row)))? };
        Ok(())
    }
}

impl SinkLocal for BuildLocal {
    fn consume(&mut self, chunk: Chunk, task: &TaskContext) -> Result<Flow, ExecError> {
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
        if self.divided.is_none() {
            let (rows, bytes) = (self.rows.rows(), self.rows.allocated_bytes());
            let (rows_before, bytes_before) = std::mem::replace(&mut self.counted, (rows, bytes));
            if state.outgrows(rows - rows_before, bytes - bytes_before) {
                let none = build_rows(&state.ctx.memory, &state.plan, false);
                let whole = std::mem::replace(&mut self.rows, none);
                self.divided = Some(state.divide(whole.into_partitions(), &|| task.is_cancelled())?);
            }
        }
        Ok(Flow::Continue)
    }

    fn combine(self: Box<Self>, _task: &TaskContext) -> Result<(), ExecError> {
        self.state.collect(self.rows, self.divided, self.unmatchable, &self.ranges);
        Ok(())
    }
}
