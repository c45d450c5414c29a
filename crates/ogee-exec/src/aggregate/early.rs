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
//! Nothing depends on it: where there is no memory for it, rows stay as they are, for the second phase.
//!
//! Paper B leaves this out (its rows are combined in the second phase only).

use ogee_memory::optional;
use ogee_row::PartitionedRows;

use super::{
    combine::{GroupMarks, Pairs, combine_pages, table_for},
    plan::AggregatePlan,
    sink::CONSUMER,
    table::SaltedTable,
};
use crate::{
    AggregateStrategy, ExecContext, ExecError,
    cancel::{Cancelled, pin_all},
};

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

    /// Combines the partitions that are due, if `input_rows` rows say that it is time to look, and as far as there is memory for it.
    ///
    /// # Errors
    /// None that the lane could go on after.
    ///
    /// # Panics
    /// If pages of `rows` are retained.
    pub(crate) fn run(
        &mut self,
        plan: &AggregatePlan,
        ctx: &ExecContext,
        rows: &mut PartitionedRows,
        input_rows: u64,
        cancelled: Cancelled<'_>,
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
            let survivors = self.combine(plan, ctx, rows, sentinel, cancelled)?;
            self.worth = survivors.is_some_and(|survivors| survivors <= SURVIVORS_MAX);
            // The next one would say the same until there are twice as many rows.
            self.sentinel_due = if self.worth { 0 } else { 2 * resident };
        }
        if !forced && !self.worth {
            return self.combine_hot(plan, ctx, rows, cancelled);
        }
        let due: Vec<usize> = (0..fan_out).filter(|&p| p != sentinel && rows.resident_rows(p) >= self.due[p]).collect();
        if !due.is_empty() {
            ctx.counters.note_strategy("aggregate: combined early".to_owned());
        }
        for partition in due {
            self.combine(plan, ctx, rows, partition, cancelled)?;
        }
        Ok(())
    }

    /// Combines partitions that are far larger than the others: hashes spread groups evenly, so they have groups of many rows.
    fn combine_hot(
        &mut self,
        plan: &AggregatePlan,
        ctx: &ExecContext,
        rows: &mut PartitionedRows,
        cancelled: Cancelled<'_>,
    ) -> Result<(), ExecError> {
        let average = rows.rows() / self.due.len();
        for partition in 0..self.due.len() {
            if rows.full_rows(partition) >= self.due[partition].max(HOT * average) {
                ctx.counters.note_strategy("aggregate: combined hot partitions".to_owned());
                self.combine(plan, ctx, rows, partition, cancelled)?;
            }
        }
        Ok(())
    }

    /// Combines the rows of `partition` that are in memory; the share of them that is left. `None` if there is no memory for it: then all
    /// that was not moved stays where it is, as does an error that would come again when the rows are needed.
    fn combine(
        &mut self,
        plan: &AggregatePlan,
        ctx: &ExecContext,
        rows: &mut PartitionedRows,
        partition: usize,
        cancelled: Cancelled<'_>,
    ) -> Result<Option<f64>, ExecError> {
        let Some(mut part) = rows.take_resident(partition) else {
            self.due[partition] *= 2;
            return Ok(Some(1.0));
        };
        let before = part.rows();
        let pinned = optional(|| {
            let pages = pin_all(&mut part, cancelled)?;
            Ok::<_, ExecError>((pages, table_for(&mut self.table, &ctx.memory, CONSUMER, before)?))
        });
        let (pages, table) = match pinned {
            Ok(pinned) => pinned,
            Err(ExecError::Cancelled) => return Err(ExecError::Cancelled),
            Err(_) => {
                rows.put_back(partition, part);
                self.due[partition] = 2 * before;
                return Ok(None);
            }
        };
        // SAFETY: the pages are pinned and were taken out, so nobody else has them.
        let marks = unsafe { combine_pages(plan, table, &pages, &mut self.pairs, cancelled)? };
        let groups = table.len();
        let (mut word, mut is_moved) = (0, true);
        for (index, page) in pages.iter().enumerate() {
            let marked_from = |mut next: usize| {
                let marks = &marks;
                std::iter::from_fn(move || {
                    let row = marks.next(word, page, next)?;
                    next = row + 1;
                    Some(row)
                })
            };
            let mut left = 0;
            if is_moved {
                let moved_before = rows.rows();
                // SAFETY: the rows and all that they point to are pinned. They were taken from this partition, and have its hashes.
                let moved = optional(|| unsafe { rows.scatter(marked_from(0).map(|row| page.row(row).cast_const())) });
                is_moved = moved.is_ok();
                left = rows.rows() - moved_before;
            }
            if !is_moved {
                // The groups that were not moved stay on their pages; what was combined into them is gone.
                part.keep_rows(index, marked_from(0).skip(left))?;
            }
            word += GroupMarks::words(page);
        }
        drop(pages);
        if !is_moved {
            rows.put_back(partition, part);
        }
        // A lane that looks rows up has its pages retained, but nothing refers to these.
        rows.release();
        let forced = ctx.settings.aggregate_strategy == Some(AggregateStrategy::CombineEarly);
        self.due[partition] = (2 * groups).max(if forced { 1 } else { PAGES_MIN * rows.rows_per_page() });
        Ok(is_moved.then_some(groups as f64 / before.max(1) as f64))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::{collections::BTreeMap, sync::Arc};

    use arrow_array::{ArrayRef, Int64Array, StringViewArray, cast::AsArray, types::Int64Type};
    use arrow_schema::{DataType, Field, Schema};
    use ogee_memory::{BufferManager, FaultPlan, FaultyIo, MemoryConfig, PAGE_SIZE};
    use ogee_vector::{Chunk, Domain};

    use super::super::{
        AggregateCall, AggregateFunction, AggregateMode, AggregateSpec, GroupKey, generations::Generations,
        sink::AggregateSink,
    };
    use super::*;
    use crate::{ExecSettings, Expr};

    fn spec(strings: bool) -> AggregateSpec {
        let call = |function, data_type: DataType| AggregateCall {
            function,
            args: vec![Expr::Column(if data_type == DataType::Int64 { 1 } else { 2 })],
            arg_types: vec![data_type.clone()],
            filter: None,
            distinct: false,
            output: data_type,
        };
        let mut aggregates = vec![call(AggregateFunction::Sum, DataType::Int64)];
        aggregates.extend(strings.then(|| call(AggregateFunction::Max, DataType::Utf8View)));
        let mut fields = vec![Field::new("key", DataType::Int64, true), Field::new("sum", DataType::Int64, true)];
        fields.extend(strings.then(|| Field::new("max", DataType::Utf8View, true)));
        AggregateSpec {
            keys: vec![GroupKey { expr: Expr::Column(0), data_type: DataType::Int64 }],
            grouping_sets: None,
            aggregates,
            collected: None,
            mode: AggregateMode::Single,
            schema: Arc::new(Schema::new(fields)),
        }
    }

    #[test]
    fn without_memory_for_it_rows_are_left_as_they_are() {
        for (strings, free_pages) in [false, true].into_iter().flat_map(|strings| (0..16).map(move |n| (strings, n))) {
            let io = FaultyIo::new(1);
            let config = MemoryConfig {
                limit: 64 << 20,
                counts_process: false,
                io: Arc::new(io.clone()),
                io_threads: 0,
                ..MemoryConfig::default()
            };
            let memory = BufferManager::new(config).unwrap();
            let ctx = |strategy| {
                let settings =
                    ExecSettings { threads: 1, aggregate_strategy: Some(strategy), ..ExecSettings::default() };
                ExecContext::new(Arc::clone(&memory), settings)
            };
            let generations = Arc::new(Generations::new(spec(strings), &[Domain::UNKNOWN; 3]).unwrap());
            let loading = ctx(AggregateStrategy::PartitionOnly);
            let sink = AggregateSink::new(generations, loading.clone(), Some(100_000), Arc::default());
            let mut lane = sink.lane(&loading);
            let mut expected: BTreeMap<i64, (i64, String)> = BTreeMap::new();
            for chunk in 0..40 {
                let rows: Vec<i64> = (0..2000).map(|row| chunk * 2000 + row).collect();
                let key = |row: i64| row * 7919 % 9001;
                let text = |row: i64| format!("a string that is kept on a heap page {:06}", row * 31 % 100_003);
                for &row in &rows {
                    let (sum, max) = expected.entry(key(row)).or_default();
                    *sum += row;
                    *max = std::mem::take(max).max(text(row));
                }
                let columns: Vec<ArrayRef> = vec![
                    Arc::new(rows.iter().map(|&row| key(row)).collect::<Int64Array>()),
                    Arc::new(rows.iter().copied().collect::<Int64Array>()),
                    Arc::new(rows.iter().map(|&row| Some(text(row))).collect::<StringViewArray>()),
                ];
                lane.add(&Chunk::new(columns, rows.len()), &|| false).unwrap();
            }
            let (plan, mut rows) = lane.into_rows();
            assert_eq!(rows.rows(), 80_000);
            // From here on nothing can be evicted, and there is room for so many pages.
            io.set(FaultPlan { fail_writes_from: Some(0), ..FaultPlan::default() });
            let taken = memory.reserve("test", memory.room() - free_pages * PAGE_SIZE).unwrap();
            let mut early = EarlyCombination::default();
            for _ in 0..3 {
                early.run(&plan, &ctx(AggregateStrategy::CombineEarly), &mut rows, 80_000, &|| false).unwrap();
            }
            drop(taken);
            io.set(FaultPlan::default());
            assert_eq!(rows.rows() == 80_000, free_pages == 0, "{free_pages}");
            let counted = rows.rows();
            let mut found: BTreeMap<i64, (i64, String)> = BTreeMap::new();
            let mut parts = rows.into_partitions();
            assert_eq!(parts.iter().map(ogee_row::RowPartition::rows).sum::<usize>(), counted);
            let pages: Vec<_> = parts.iter_mut().flat_map(|part| pin_all(part, &|| false).unwrap()).collect();
            let mut caches = Vec::new();
            for page in &pages {
                let addresses: Vec<*const u8> = (0..page.len()).map(|row| page.row(row).cast_const()).collect();
                // SAFETY: the pages are pinned.
                let chunk = unsafe { plan.gather(&addresses, &mut caches).unwrap() };
                let column = |index: usize| chunk.to_column(index).flatten().unwrap();
                let (keys, sums) = (column(0), column(1));
                let texts = strings.then(|| column(2));
                for row in 0..chunk.len() {
                    let (sum, max) = found.entry(keys.as_primitive::<Int64Type>().value(row)).or_default();
                    *sum += sums.as_primitive::<Int64Type>().value(row);
                    if let Some(texts) = &texts {
                        *max = std::mem::take(max).max(texts.as_string_view().value(row).to_owned());
                    }
                }
            }
            if !strings {
                expected.values_mut().for_each(|(_, max)| max.clear());
            }
            assert!(found == expected, "strings: {strings}, free pages: {free_pages}");
        }
    }
}
