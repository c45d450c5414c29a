//! What is left to scan, shared by the lanes: files, row groups, and the spans under way.
//!
//! A lane that asks is given, in this order: a row group (or a part of one) that waits, a file whose footer is to be loaded,
//! the second half of the longest span under way. While a footer is being loaded by another lane and there is nothing else,
//! it waits.
//!
//! Not here: loading and reading (`footer`, `reader`), memory (`admission`).

use std::{collections::VecDeque, ops::Range, sync::Arc};

use parking_lot::Mutex;
use parquet::arrow::arrow_reader::RowSelector;

use crate::{
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
    under_way: Vec<(Arc<Span>, RowGroupWork)>,
    stopped: bool,
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

    /// The next thing to do for a lane that has nothing.
    pub(crate) fn next(&self) -> Next {
        let mut state = self.state.lock();
        if state.stopped {
            return Next::Done;
        }
        if let Some(work) = state.waiting.pop_front() {
            return Next::Read(work);
        }
        if state.next_file < self.files {
            state.next_file += 1;
            state.loading += 1;
            return Next::Footer(state.next_file - 1);
        }
        if let Some((span, of)) = state.under_way.iter().max_by_key(|(span, _)| span.remaining())
            && let Some(rows) = span.split()
        {
            return Next::Read(Work { of: of.clone(), rows, needed: 0 });
        }
        if state.loading > 0 { Next::Wait } else { Next::Done }
    }

    /// A footer is loaded; `work` is what is to be read of its file.
    pub(crate) fn loaded(&self, work: impl IntoIterator<Item = Work>) {
        let mut state = self.state.lock();
        state.loading -= 1;
        state.begun = true;
        if !state.stopped {
            state.waiting.extend(work);
        }
    }

    /// Work that could not be done now.
    pub(crate) fn put_back(&self, work: Work) {
        let mut state = self.state.lock();
        if !state.stopped {
            state.waiting.push_front(work);
        }
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
            let parts = |(span, _): &(Arc<Span>, _)| span.remaining() / (2 * SPLIT_ROWS_MIN);
            let splits: usize = state.under_way.iter().map(parts).sum();
            (self.files - state.next_file)
                + state.waiting.iter().map(|w| 1 + w.rows.len() / (2 * SPLIT_ROWS_MIN)).sum::<usize>()
                + splits
        };
        (busy + more).min(threads)
    }
}
