//! Early combination: partitions with many repeats are combined in the first phase, so that memory follows the output, not the
//! input.
//!
//! Rows that pre-aggregation does not catch pile up in their partitions even if they are of few groups, too many for the
//! thread-local table. A partition that has doubled since it was last combined is combined again, in memory: its groups are appended to
//! it anew, on pages that its old ones just gave back. That pays while memory is plenty too: first touch of more of it costs more than
//! a lookup, and what was combined need not be again. Hashes spread groups evenly, so one partition, the *sentinel*, tells for all
//! whether that is worth it; keys without repeats cost the sentinel's work only. It is larger than most: there may be fewer groups than
//! partitions; but not the largest, since that may be of one group of very many rows.
//!
//! Paper B leaves this out (its rows are combined in the second phase only).

use ogee_row::PartitionedRows;

use super::{
    combine::{GroupMarks, Pairs, combine_pages, pin_all, table_for},
    plan::AggregatePlan,
    sink::CONSUMER,
    table::SaltedTable,
};
use crate::{AggregateStrategy, ExecContext, ExecError};

/// Of so many partitions, one is larger than the sentinel.
const LARGER: usize = 10;
/// Groups among the rows of the sentinel, at most, for the others to be combined too. A partition is due when its groups have doubled, so
/// one half is what constant groups leave.
const SURVIVORS_MAX: f64 = 0.7;
/// Pages that a partition has, at least, before it is combined.
const PAGES_MIN: usize = 2;
/// A partition of so many times the average rows has groups of many rows.
const HOT: usize = 4;
/// Rows after which a lane looks whether partitions are due.
const LOOK_ROWS: u64 = 1 << 16;

/// A lane's plan for combining its partitions early.
#[derive(Default)]
pub(crate) struct EarlyCombination {
    /// Rows at which each partition is combined next.
    due: Vec<usize>,
    /// Input rows at which it is time to look.
    look_at: u64,
    /// What the sentinel said.
    worth: bool,
    /// Rows at which it is asked again.
    sentinel_due: usize,
    by_size: Vec<(usize, usize)>,
    table: Option<SaltedTable>,
    pairs: Pairs,
}

impl EarlyCombination {
    /// Forgets what was seen: the partitioning is a new one.
    pub(crate) fn restart(&mut self) {
        self.due.clear();
        (self.worth, self.sentinel_due) = (false, 0);
    }

    /// Whether rows are not looked at again before the second phase, but for those of hot partitions.
    pub(crate) fn leaves_rows_alone(&self, ctx: &ExecContext) -> bool {
        match ctx.settings.aggregate_strategy {
            Some(AggregateStrategy::PartitionOnly) => true,
            Some(AggregateStrategy::CombineEarly) => false,
            _ => !self.worth && self.sentinel_due > 0,
        }
    }

    /// Combines the partitions that are due, if `input_rows` rows say that it is time to look.
    ///
    /// # Errors
    /// When memory runs out, or pages cannot be written.
    ///
    /// # Panics
    /// If pages of `rows` are retained.
    pub(crate) fn run(
        &mut self,
        plan: &AggregatePlan,
        ctx: &ExecContext,
        rows: &mut PartitionedRows,
        input_rows: u64,
    ) -> Result<(), ExecError> {
        let forced = ctx.settings.aggregate_strategy == Some(AggregateStrategy::CombineEarly);
        if input_rows < self.look_at && !forced
            || ctx.settings.aggregate_strategy == Some(AggregateStrategy::PartitionOnly)
        {
            return Ok(());
        }
        self.look_at = input_rows + LOOK_ROWS;
        let fan_out = rows.radix().fan_out();
        if self.due.len() != fan_out {
            self.restart();
            self.due = vec![if forced { 1 } else { PAGES_MIN * rows.rows_per_page() }; fan_out];
        }
        self.by_size.clear();
        self.by_size.extend((0..fan_out).map(|partition| (rows.resident_rows(partition), partition)));
        let (resident, sentinel) = *self.by_size.select_nth_unstable_by(fan_out / LARGER, |a, b| b.cmp(a)).1;
        if resident >= self.due[sentinel].max(self.sentinel_due) {
            let survivors = self.combine(plan, ctx, rows, sentinel)?;
            self.worth = survivors <= SURVIVORS_MAX;
            // The next one would say the same until there are twice as many rows.
            self.sentinel_due = if self.worth { 0 } else { 2 * resident };
        }
        if !forced && !self.worth {
            return self.combine_hot(plan, ctx, rows);
        }
        let due: Vec<usize> = (0..fan_out).filter(|&p| p != sentinel && rows.resident_rows(p) >= self.due[p]).collect();
        if !due.is_empty() {
            ctx.counters.note_strategy("aggregate: combined early".to_owned());
        }
        for partition in due {
            self.combine(plan, ctx, rows, partition)?;
        }
        Ok(())
    }

    /// Combines partitions that are far larger than the others: hashes spread groups evenly, so they have groups of many rows.
    fn combine_hot(
        &mut self,
        plan: &AggregatePlan,
        ctx: &ExecContext,
        rows: &mut PartitionedRows,
    ) -> Result<(), ExecError> {
        let average = rows.rows() / self.due.len();
        for partition in 0..self.due.len() {
            if rows.full_rows(partition) >= self.due[partition].max(HOT * average) {
                ctx.counters.note_strategy("aggregate: combined hot partitions".to_owned());
                self.combine(plan, ctx, rows, partition)?;
            }
        }
        Ok(())
    }

    /// Combines the rows of `partition` that are in memory; the share of them that is left.
    fn combine(
        &mut self,
        plan: &AggregatePlan,
        ctx: &ExecContext,
        rows: &mut PartitionedRows,
        partition: usize,
    ) -> Result<f64, ExecError> {
        let Some(mut part) = rows.take_resident(partition) else {
            self.due[partition] *= 2;
            return Ok(1.0);
        };
        let before = part.rows();
        let pages = pin_all(std::slice::from_mut(&mut part))?;
        let table = table_for(&mut self.table, &ctx.memory, CONSUMER, before)?;
        // SAFETY: the pages are pinned and were taken out, so nobody else has them.
        let marks = unsafe { combine_pages(plan, table, &pages, &mut self.pairs) };
        let groups = table.len();
        let mut word = 0;
        for page in &pages {
            let mut next = 0;
            let marked = std::iter::from_fn(|| {
                let row = marks.next(word, page, next)?;
                next = row + 1;
                Some(page.row(row).cast_const())
            });
            // SAFETY: the rows and all that they point to are pinned. They were taken from this partition, and have its hashes.
            unsafe { rows.scatter(marked)? };
            word += GroupMarks::words(page);
        }
        // A lane that looks rows up has its pages retained, but nothing refers to these.
        rows.release();
        let forced = ctx.settings.aggregate_strategy == Some(AggregateStrategy::CombineEarly);
        self.due[partition] = (2 * groups).max(if forced { 1 } else { PAGES_MIN * rows.rows_per_page() });
        Ok(groups as f64 / before.max(1) as f64)
    }
}
