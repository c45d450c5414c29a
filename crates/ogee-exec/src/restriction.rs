//! Which rows of a source matter to those who read it, once a join knows the keys of its build side.
//!
//! Not here: who finds that out (`join::reach`), and what else a source does about it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use ogee_vector::{Chunk, Column};
use parking_lot::RwLock;

use crate::{
    ExecContext, ExecError, Operator, OperatorLocal, OperatorStep,
    join::{KeyScratch, KeySet},
    pipeline::{Map, Mapped},
};

/// Rows of which it is counted how many pass, before it is decided whether asking goes on.
const WINDOW: usize = 1 << 14;
/// Asking pays if at least one row in so many is dropped: it costs about a nanosecond a row, and a row that comes to nothing ten or more.
const DROPPED_MIN: usize = 8;
/// Rows that are not asked about when it does not pay, before it is tried again: what a window costs is then spread over 64.
const PAUSE: usize = 64 * WINDOW;

/// Which rows matter, by the values of one or more of their columns: those that are keys of the build side of a join. Told when that is
/// complete, which is before the source that is restricted gives its first row.
#[derive(Default)]
pub struct Restriction {
    told: RwLock<Told>,
    /// Rows that were left out one by one.
    dropped: Arc<AtomicU64>,
}

#[derive(Clone, Default)]
struct Told {
    /// Least and greatest value by column, none if the least is the greater one. Any value may matter where there is none.
    ranges: Vec<Option<(i64, i64)>>,
    keys: Option<Arc<KeySet>>,
    /// What comes of asking is not weighed: every row is asked about.
    always: bool,
}

impl fmt::Debug for Restriction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Restriction").field("ranges", &self.told.read().ranges).finish_non_exhaustive()
    }
}

impl Restriction {
    /// A restriction that adds the rows it leaves out to `dropped`.
    pub(crate) fn counting(dropped: Arc<AtomicU64>) -> Self {
        Self { told: RwLock::default(), dropped }
    }

    /// Only rows matter whose values are in these ranges, one for each column: from the least to the greatest, none if the least is the greater
    /// one. NULLs do not matter where there is a range.
    pub fn set(&self, ranges: Vec<Option<(i64, i64)>>) {
        self.told.write().ranges = ranges;
    }

    /// And of these only those that are in `keys`. `always`: ask about every row, whether that pays or not.
    pub(crate) fn set_keys(&self, keys: Arc<KeySet>, always: bool) {
        let mut told = self.told.write();
        (told.keys, told.always) = (Some(keys), always);
    }

    /// Whether rows could matter whose values of column `column`, of those that the restriction is about, are from `least` to `greatest`.
    pub fn admits(&self, column: usize, least: i64, greatest: i64) -> bool {
        let range = self.told.read().ranges.get(column).copied().flatten();
        range.is_none_or(|range| range.0 <= range.1 && range.0 <= greatest && least <= range.1)
    }

    /// What a lane asks row by row; `None` if there is nothing to ask, since no more than ranges are known.
    pub fn local(&self) -> Option<RestrictionLocal> {
        let told = self.told.read().clone();
        Some(RestrictionLocal {
            keys: told.keys?,
            always: told.always,
            dropped: Arc::clone(&self.dropped),
            scratch: KeyScratch::default(),
            asked: 0,
            kept: 0,
            pause: 0,
        })
    }
}

/// One lane's part of a [`Restriction`]. It watches whether asking pays, and does not ask for a while where it does not.
pub struct RestrictionLocal {
    keys: Arc<KeySet>,
    always: bool,
    dropped: Arc<AtomicU64>,
    scratch: KeyScratch,
    /// Rows of the window so far, and those of them that passed.
    asked: usize,
    kept: usize,
    /// Rows that are still to pass unasked.
    pause: usize,
}

impl RestrictionLocal {
    /// Whether no row matters at all.
    pub fn is_empty(&self) -> bool {
        matches!(*self.keys, KeySet::Empty)
    }

    /// Which of `rows` rows may matter: into `selected`, ascending, if what comes back is true. If it is false all may, and `selected` is as it was.
    /// `columns` are the columns that the restriction is about, in its order and with the types of the source.
    ///
    /// # Errors
    /// None that are not bugs: columns of other types.
    pub fn select(&mut self, columns: &[Column], rows: usize, selected: &mut Vec<u32>) -> Result<bool, ExecError> {
        if self.pause > 0 {
            self.pause = self.pause.saturating_sub(rows);
            return Ok(false);
        }
        self.keys.select(columns, rows, &mut self.scratch, selected)?;
        self.dropped.fetch_add((rows - selected.len()) as u64, Ordering::Relaxed);
        self.asked += rows;
        self.kept += selected.len();
        if self.asked >= WINDOW {
            if !self.always && (self.asked - self.kept) * DROPPED_MIN < self.asked {
                self.pause = PAUSE;
            }
            (self.asked, self.kept) = (0, 0);
        }
        Ok(true)
    }
}

/// Leaves out the rows that do not matter, by columns `columns` of the chunks.
pub(crate) struct KeyFilter {
    restriction: Arc<Restriction>,
    columns: Arc<[usize]>,
    /// Nothing that takes time comes between this and the join, which is then as quick to find that a row has no mate if its table is in the caches.
    is_next: bool,
}

impl KeyFilter {
    pub(crate) fn new(restriction: Arc<Restriction>, columns: &[usize], is_next: bool) -> Self {
        Self { restriction, columns: columns.into(), is_next }
    }
}

impl Operator for KeyFilter {
    fn name(&self) -> &str {
        "key filter"
    }

    fn origin(&self, column: usize) -> Option<usize> {
        Some(column)
    }

    fn keeps_order(&self) -> bool {
        true
    }

    fn is_light(&self) -> bool {
        true
    }

    /// A lane begins when the build side is complete.
    fn local(&self, _ctx: &ExecContext, _lane: usize) -> Box<dyn OperatorLocal> {
        let spared = |local: &RestrictionLocal| self.is_next && !local.always && local.keys.is_cheaper_to_find();
        Mapped::local(KeyFilterLocal {
            restriction: self.restriction.local().filter(|local| !spared(local)),
            columns: Arc::clone(&self.columns),
            keys: Vec::new(),
            rows: Vec::new(),
        })
    }
}

struct KeyFilterLocal {
    restriction: Option<RestrictionLocal>,
    columns: Arc<[usize]>,
    keys: Vec<Column>,
    rows: Vec<u32>,
}

impl Map for KeyFilterLocal {
    fn map(&mut self, chunk: Chunk) -> Result<OperatorStep, ExecError> {
        let Some(restriction) = &mut self.restriction else { return Ok(OperatorStep::Chunk(chunk)) };
        if restriction.is_empty() {
            return Ok(OperatorStep::Stop);
        }
        self.keys.clear();
        self.keys.extend(self.columns.iter().map(|&column| chunk.to_column(column)));
        if !restriction.select(&self.keys, chunk.len(), &mut self.rows)? {
            return Ok(OperatorStep::Chunk(chunk));
        }
        Ok(match self.rows.len() {
            0 => OperatorStep::Done,
            all if all == chunk.len() => OperatorStep::Chunk(chunk),
            _ => OperatorStep::Chunk(chunk.select(&self.rows)),
        })
    }
}
