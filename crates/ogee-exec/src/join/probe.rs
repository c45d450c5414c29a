//! Third phase: rows of the probe side stream by and find their mates.

use std::sync::{Arc, atomic::Ordering};

use ogee_row::{RadixBits, RowStage, SerialRows};
use ogee_scheduler::TaskContext;
use ogee_vector::{Chunk, Domain};

use super::{
    matches::Matcher,
    rest::RestSource,
    side::Keys,
    spec::{JoinColumn, JoinKey, JoinKind},
    state::{Absent, Built, JoinState, OPEN_BYTES, waiting_rows},
};
use crate::{ExecContext, ExecError, Expr, Kept, Operator, OperatorLocal, OperatorStep, Source};

/// The probe of a hash join.
pub(crate) struct Probe {
    state: Arc<JoinState>,
    /// The pipeline that the build side comes from.
    built: usize,
}

impl Probe {
    pub(crate) fn new(state: Arc<JoinState>, built: usize) -> Self {
        Self { state, built }
    }
}

impl Operator for Probe {
    fn name(&self) -> &str {
        match self.state.plan.kind() {
            JoinKind::Inner => "join",
            JoinKind::BuildOuter | JoinKind::ProbeOuter | JoinKind::FullOuter => "outer join",
            JoinKind::BuildSemi | JoinKind::ProbeSemi => "semi join",
            JoinKind::BuildAnti | JoinKind::ProbeAnti => "anti join",
            JoinKind::BuildMark | JoinKind::ProbeMark => "mark join",
        }
    }

    fn columns(&self, _input: usize) -> usize {
        self.state.plan.spec.output.len()
    }

    fn domains(&self, input: Vec<Domain>) -> Vec<Domain> {
        // Values of a column stay within what they were; outer joins add NULLs.
        let nulls = matches!(self.state.plan.kind(), JoinKind::BuildOuter | JoinKind::FullOuter);
        let column = |column: &JoinColumn| match *column {
            JoinColumn::Probe(index) => {
                let domain = input.get(index).copied().unwrap_or(Domain::UNKNOWN);
                Domain { nulls: domain.nulls || nulls, ..domain }
            }
            JoinColumn::Build(index) => {
                let domain = self.state.plan.spec.build_domains.get(index).copied().unwrap_or(Domain::UNKNOWN);
                let nulls = matches!(self.state.plan.kind(), JoinKind::ProbeOuter | JoinKind::FullOuter);
                Domain { nulls: domain.nulls || nulls, ..domain }
            }
            JoinColumn::Mark => Domain::UNKNOWN,
        };
        self.state.plan.spec.output.iter().map(column).collect()
    }

    fn origin(&self, column: usize) -> Option<usize> {
        let spec = &self.state.plan.spec;
        match spec.output[column] {
            // A build row could lose its only mate.
            JoinColumn::Probe(index) if !spec.kind.marks_build() && !spec.null_aware => Some(index),
            _ => None,
        }
    }

    fn kept(&self, column: usize) -> Option<Kept<'_>> {
        let spec = &self.state.plan.spec;
        let column = match spec.output[column] {
            // A probe row could lose its only mate, and be given with NULLs.
            JoinColumn::Build(index) => Some(index).filter(|_| !spec.kind.keeps_probe()),
            // The mates of a row have its key, so that those with others are missed by rows that nobody wants.
            JoinColumn::Probe(index) => {
                let is_key = |key: &&JoinKey| matches!(key.probe, Expr::Column(column) if column == index);
                let key = spec.keys.iter().find(is_key).filter(|_| !spec.kind.marks_build());
                key.and_then(|key| if let Expr::Column(column) = key.build { Some(column) } else { None })
            }
            JoinColumn::Mark => None,
        }?;
        Some(Kept { pipeline: self.built, column, rows: &spec.build_rows })
    }

    fn may_grow(&self) -> bool {
        self.state.plan.probe.may_grow()
    }

    fn local(&self, ctx: &ExecContext, _lane: usize) -> Box<dyn OperatorLocal> {
        Box::new(ProbeLocal {
            built: None,
            matcher: Matcher::new(Arc::clone(&self.state.plan), ctx),
            state: Arc::clone(&self.state),
            keys: Keys::default(),
            kept: None,
            stage: RowStage::default(),
            finds_none: false,
        })
    }

    /// As many as may have a page open for each absent partition.
    fn lanes(&self, threads: usize) -> usize {
        self.state.absent_partitions().map_or(threads, |absent| {
            (self.state.ctx.share.claim() / 2 / (absent * OPEN_BYTES).max(1)).clamp(1, threads.max(1))
        })
    }

    fn rest(&self) -> Option<Arc<dyn Source>> {
        Some(Arc::new(RestSource::new(Arc::clone(&self.state))))
    }

    fn finish(&self, _ctx: &ExecContext, _task: &TaskContext) -> Result<(), ExecError> {
        self.state.finish_probe();
        Ok(())
    }
}

struct ProbeLocal {
    state: Arc<JoinState>,
    built: Option<Arc<Built>>,
    matcher: Matcher,
    keys: Keys,
    /// Rows that wait for absent partitions.
    kept: Option<SerialRows>,
    stage: RowStage,
    /// There is nothing that a row could match, and rows without a mate are not given.
    finds_none: bool,
}

impl ProbeLocal {
    /// Puts the rows of `chunk` aside whose partition is absent; what is left, with its keys evaluated.
    fn keep_absent(&mut self, absent: &Absent, chunk: Chunk) -> Result<Chunk, ExecError> {
        let plan = &self.state.plan;
        let valid = self.keys.valid().filter(|_| !plan.spec.nulls_equal);
        let (mut here, mut later) = (Vec::new(), Vec::new());
        for (row, &hash) in self.keys.hashes.iter().enumerate() {
            let partition = absent.radix.partition(RadixBits::stored_hash(hash));
            // A key with a NULL matches nothing, here or there.
            let is_absent = absent.is_absent[partition] && valid.as_ref().is_none_or(|valid| valid.is_valid(row));
            let rows = if is_absent { &mut later } else { &mut here };
            rows.push(row as u32);
        }
        if later.is_empty() {
            return Ok(chunk);
        }
        let kept = self.kept.get_or_insert_with(|| waiting_rows(&self.state.ctx, &plan.probe_form, absent.radix));
        if valid.is_none() && later.len() > here.len() {
            // Rows that stay are staged as well, which costs less than making a chunk of the others.
            let _held = plan.probe.stage(&chunk, &self.keys, &mut self.stage)?;
            // SAFETY: the rows were staged just now; their strings are in `chunk`, the keys and what is held.
            unsafe { kept.scatter_rows(&self.stage, later.iter().map(|&row| row as usize))? };
        } else {
            let part = chunk.select(&later);
            let keys = self.keys.select(&later);
            let _held = plan.probe.stage(&part, &keys, &mut self.stage)?;
            // SAFETY: as above, but in `part` and `keys`.
            unsafe { kept.scatter(&self.stage)? };
        }
        self.keys = self.keys.select(&here);
        Ok(chunk.select(&here))
    }
}

impl OperatorLocal for ProbeLocal {
    fn begin(&mut self, mut chunk: Chunk, _cancelled: &dyn Fn() -> bool) -> Result<(), ExecError> {
        let built = Arc::clone(self.built.get_or_insert_with(|| self.state.built()));
        let spec = &self.state.plan.spec;
        self.state.plan.probe.evaluate(&chunk, self.state.ctx.settings.hash, &mut self.keys)?;
        if spec.null_aware {
            self.state.probe_seen.store(true, Ordering::Relaxed);
            if self.keys.valid().is_some() {
                self.state.probe_null_seen.store(true, Ordering::Relaxed);
            }
        }
        self.finds_none = built.rows == 0 && !spec.kind.keeps_probe() && !spec.null_aware;
        if self.finds_none {
            return Ok(());
        }
        if let Some(absent) = &built.absent {
            chunk = self.keep_absent(absent, chunk)?;
        }
        self.matcher.begin_chunk(built.mates(), chunk, &self.keys)
    }

    fn next(&mut self) -> Result<OperatorStep, ExecError> {
        if self.finds_none {
            return Ok(OperatorStep::Stop);
        }
        let built = self.built.as_ref().expect("a chunk has begun");
        // SAFETY: the rows of the table stay pinned as long as `built`, which the lane has until it is drained, and staged rows as long as the
        // matcher.
        Ok(match unsafe { self.matcher.next(built.mates())? } {
            Some(chunk) => OperatorStep::Chunk(chunk),
            None => OperatorStep::Done,
        })
    }

    fn drain(&mut self) -> Result<(), ExecError> {
        self.built = None;
        self.matcher.release();
        if let Some(kept) = self.kept.take() {
            self.state.keep(kept);
        }
        Ok(())
    }
}
