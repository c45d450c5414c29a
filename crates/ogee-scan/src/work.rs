//! What is left to scan, shared by the lanes: files, row groups, and the spans under way.
//!
//! A lane that asks is given, in this order: a row group (or a part of one) that waits, a file whose footer is to be loaded,
//! the second half of the longest span under way. While a footer is being loaded by another lane and there is nothing else,
//! it waits.
//!
//! Where rows come in the order in which they lie (`keep_order`), work is handed out in that order, and nobody takes a half from anybody: large row groups are cut
//! beforehand.
//!
//! Not here: loading and reading (`footer`, `reader`), memory (`admission`).

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
    sync::Arc,
};

use ogee_exec::LaneOrder;
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::RowSelector;

use crate::{
    columns::BATCH_ROWS_MAX,
    footer::OpenFile,
    span::{SPLIT_ROWS_MIN, Span},
};

/// A row group of a file and which of its rows match.
#[derive(Clone)]
pub(crate) struct RowGroupWork {
    pub(crate) file: Arc<OpenFile>,
    pub(crate) row_group: usize,
    /// The rows that are to be read; `None` for all.
    pub(crate) selection: Option<Arc<[RowSelector]>>,
}

/// Rows of a row group that wait for a reader.
pub(crate) struct Work {
    pub(crate) of: RowGroupWork,
    /// Positions among the selected rows.
    pub(crate) rows: Range<usize>,
    /// Bytes that a reader which gave up was in need of; 0 if none did.
    pub(crate) needed: usize,
    /// The range of the order that a lane has begun with them.
    pub(crate) range: Option<usize>,
}

/// What a lane is to do.
pub(crate) enum Next {
    /// Load the footer of this file, then report to [`WorkList::loaded`].
    Footer(usize),
    Read(Work),
    /// Another lane is loading a footer; wait.
    Wait,
    Done,
}

#[derive(Default)]
struct State {
    next_file: usize,
    loading: usize,
    /// Whether a footer has been loaded.
    begun: bool,
    waiting: VecDeque<Work>,
    /// Rows come in their order.
    order: Option<InOrder>,
    under_way: Vec<(Arc<Span>, RowGroupWork)>,
    stopped: bool,
}

/// What it takes to hand out work in order.
struct InOrder {
    /// Parts that the rows of a file are cut into, at least, if that is worth it.
    parts: usize,
    /// Rows to leave out before the first that is wanted, and rows that are wanted, of those whose work has not come.
    skip: u64,
    fetch: u64,
    /// The first file whose work has not come, and the work of files after it.
    file: usize,
    later: BTreeMap<usize, Vec<Work>>,
}

impl InOrder {
    /// The next piece of work in order, of which `work` is that of file `file`.
    fn next(&mut self, file: usize, work: Vec<Work>) -> Vec<Work> {
        self.later.insert(file, work);
        let mut next = Vec::new();
        while let Some(work) = self.later.remove(&self.file) {
            let parts = self.parts.div_ceil(work.len().max(1));
            let wanted = work.into_iter().filter_map(|work| self.wanted(work)).collect::<Vec<_>>();
            next.extend(wanted.into_iter().flat_map(|work| work.parts(parts)));
            self.file += 1;
        }
        next
    }

    /// The rows of `work` that are wanted.
    fn wanted(&mut self, mut work: Work) -> Option<Work> {
        let rows = work.rows.len() as u64;
        let skipped = self.skip.min(rows);
        let taken = self.fetch.min(rows - skipped);
        self.skip -= skipped;
        self.fetch -= taken;
        work.rows.start += skipped as usize;
        work.rows.end = work.rows.start + taken as usize;
        (taken > 0).then_some(work)
    }
}

impl Work {
    /// The same rows in `parts` parts, or in fewer that are worth a reader each.
    fn parts(self, parts: usize) -> impl Iterator<Item = Self> {
        let Self { of, rows, needed, range } = self;
        let step = rows.len().div_ceil(parts.max(1)).max(SPLIT_ROWS_MIN).next_multiple_of(BATCH_ROWS_MAX);
        let end = rows.end;
        rows.step_by(step).map(move |from| Self { of: of.clone(), rows: from..end.min(from + step), needed, range })
    }
}

/// The work of one scan.
pub(crate) struct WorkList {
    files: usize,
    state: Mutex<State>,
}

impl WorkList {
    pub(crate) fn new(files: usize) -> Self {
        Self { files, state: Mutex::default() }
    }

    /// Has work handed out in order, the rows of a file in `parts` parts at least if that is worth it; of all rows those in `wanted`.
    pub(crate) fn keep_order(&self, parts: usize, wanted: Range<u64>) {
        let (skip, fetch) = (wanted.start, wanted.end - wanted.start);
        self.state.lock().order = Some(InOrder { parts, skip, fetch, file: 0, later: BTreeMap::new() });
    }

    /// The next thing to do for a lane that has nothing, and is there in its order.
    pub(crate) fn next(&self, lane: &mut LaneOrder) -> Next {
        let mut state = self.state.lock();
        if state.stopped || !lane.is_admitted() {
            return Next::Done;
        }
        if let Some(mut work) = state.waiting.pop_front() {
            match work.range {
                Some(range) => lane.enter(range, work.rows.start),
                None => lane.begin(),
            }
            work.range = lane.range();
            return Next::Read(work);
        }
        if state.next_file < self.files && state.order.as_ref().is_none_or(|order| order.fetch > 0) {
            state.next_file += 1;
            state.loading += 1;
            return Next::Footer(state.next_file - 1);
        }
        if state.order.is_none()
            && let Some((span, of)) = state.under_way.iter().max_by_key(|(span, _)| span.remaining())
            && let Some(rows) = span.split()
        {
            return Next::Read(Work { of: of.clone(), rows, needed: 0, range: None });
        }
        if state.loading > 0 { Next::Wait } else { Next::Done }
    }

    /// The footer of file `file` is loaded; `work` is what is to be read of it.
    pub(crate) fn loaded(&self, file: usize, work: Vec<Work>) {
        let mut state = self.state.lock();
        state.loading -= 1;
        state.begun = true;
        if !state.stopped {
            let work = match &mut state.order {
                Some(order) => order.next(file, work),
                None => work,
            };
            state.waiting.extend(work);
        }
    }

    /// Work that could not be done now.
    pub(crate) fn put_back(&self, work: Work) {
        let mut state = self.state.lock();
        if !state.stopped {
            let is_before = |other: &Work| other.range.is_some() && other.range < work.range;
            let at = state.waiting.iter().position(|other| !is_before(other)).unwrap_or(state.waiting.len());
            state.waiting.insert(at, work);
        }
    }

    /// Whether work of a range before `range` was put back, and waits.
    pub(crate) fn waits_before(&self, range: usize) -> bool {
        let state = self.state.lock();
        state.waiting.front().and_then(|work| work.range).is_some_and(|waits| waits < range)
    }

    /// A reader starts on `span`, whose second half may be taken from now on.
    pub(crate) fn start(&self, span: &Arc<Span>, of: &RowGroupWork) {
        self.state.lock().under_way.push((Arc::clone(span), of.clone()));
    }

    /// The reader of `span` ends; nothing is left of it.
    pub(crate) fn end(&self, span: &Arc<Span>) {
        self.state.lock().under_way.retain(|(other, _)| !Arc::ptr_eq(span, other));
    }

    /// No more rows are wanted.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        state.waiting.clear();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state.lock().stopped
    }

    /// Lanes that would find something to do, as far as is known before the footers are read. One until the first is: it
    /// tells how much memory a reader needs, and lanes that cannot read should not hold memory for their rows.
    pub(crate) fn lanes(&self, threads: usize) -> usize {
        let state = self.state.lock();
        let busy = state.under_way.len() + state.loading;
        let more = if state.stopped {
            0
        } else if !state.begun {
            1
        } else {
            let splits = |rows: usize| if state.order.is_none() { rows / (2 * SPLIT_ROWS_MIN) } else { 0 };
            (self.files - state.next_file)
                + state.waiting.iter().map(|work| 1 + splits(work.rows.len())).sum::<usize>()
                + state.under_way.iter().map(|(span, _)| splits(span.remaining())).sum::<usize>()
        };
        (busy + more).min(threads)
    }
}
