//! First phase: rows into radix partitions, through a thread-local table while that reduces them (paper B, section on
//! RAM-oblivious pre-aggregation).
//!
//! A lane starts with the fewest partitions and a table. When the table is two thirds full it is reset (entries only; the rows
//! stay where they are and their pages may leave memory), and from what was seen the lane decides once how many partitions to
//! use from now on and whether looking rows up is worth it.
//!
//! Columns are stored as narrow as the plan guessed; a value that does not fit ends the lane's generation (see `generations`).

use std::sync::{Arc, OnceLock};

use ogee_memory::{MemoryError, NeededAt, PAGE_SIZE, optional};
use ogee_row::{CodeCache, Misfit, PartitionedRows, RadixBits, RowPartition, RowStage};
use ogee_scheduler::TaskContext;
use ogee_vector::{Chunk, hash_column};
use parking_lot::Mutex;

use super::{
    early::EarlyCombination,
    generations::Generations,
    kernel::Targets,
    lookup::Lookup,
    plan::{AggregatePlan, Evaluated, Guess},
    source::{Partition, Partitions},
    table::{Found, LOCAL_ENTRIES},
    totals::FewGroups,
};
use crate::{
    AggregateStrategy, ExecContext, ExecError, Flow, Sink, SinkLocal,
    cancel::{Cancelled, append_partition},
};

pub(crate) const CONSUMER: &str = "hash aggregate";

/// Partitions to start with: 8, the fewest that still let eight lanes share the second phase.
const INITIAL_BITS: u32 = 3;
/// Partitions at most: 1,024 row pages for each lane are 256 MiB.
const MAX_BITS: u32 = 10;
/// Partitions that are worth giving up lanes for when memory is short.
const WANTED_PARTITIONS: usize = 32;
/// Bytes of rows that a partition should have in the second phase: with its table they fit the L2 cache of today's cores.
const PARTITION_BYTES: usize = 1 << 20;
/// Pages that a lane should fill of a partition: the last one is half empty, and memory that is touched for nothing costs more than a
/// partition that is somewhat larger than the cache.
const PARTITION_PAGES: usize = 4;
/// Bytes that a partition should not exceed for that.
const PARTITION_BYTES_MAX: usize = 4 << 20;
/// Rows to expect when the source cannot tell.
const UNKNOWN_ROWS: u64 = 1 << 26;
/// Above this share of rows that survive pre-aggregation a lookup costs more than it spares (measured; paper B's rule is 0.95).
const SURVIVORS_MAX: f64 = 0.4;
/// The same where survivors are written to the temporary file and read back.
const SURVIVORS_MAX_SPILLING: f64 = 0.7;
/// Rows that a lane appends without looking them up before it tries again, until the table is full once: one row in fifty.
const RESUME_ROWS: u64 = 32 * LOCAL_ENTRIES as u64;

/// First phase of a hash aggregation by keys.
pub(crate) struct AggregateSink {
    ctx: ExecContext,
    rows_estimate: Option<u64>,
    shared: Arc<Shared>,
    partitions: Arc<Partitions>,
}

/// What the lanes agree on, and what they leave behind.
struct Shared {
    generations: Arc<Generations>,
    /// Lanes, and what each may pin; decided when first asked.
    grant: OnceLock<Grant>,
    /// The partitioning after the first reset of any lane.
    radix: OnceLock<RadixBits>,
    done: Mutex<Vec<LaneRows>>,
}

/// What the memory at hand allows.
#[derive(Clone, Copy)]
struct Grant {
    lanes: usize,
    /// Bytes that a lane may keep pinned: half for open pages, half for what its table points to.
    lane_bytes: usize,
}

/// What a lane leaves behind.
struct LaneRows {
    /// The plan that the rows were made by.
    plan: Arc<AggregatePlan>,
    radix: RadixBits,
    partitions: Vec<RowPartition>,
    /// Whether no group can occur twice in these rows.
    distinct: bool,
}

impl AggregateSink {
    pub(crate) fn new(
        generations: Arc<Generations>,
        ctx: ExecContext,
        rows_estimate: Option<u64>,
        partitions: Arc<Partitions>,
    ) -> Self {
        let shared = Shared { generations, grant: OnceLock::new(), radix: OnceLock::new(), done: Mutex::default() };
        Self { ctx, rows_estimate, shared: Arc::new(shared), partitions }
    }

    /// Half of the memory that is to be had is for the lanes, the other half for those who feed them and for what flows onward. A
    /// lane is worth having if it can keep a reasonable number of partitions open; more lanes than that would only split again.
    fn grant(&self, threads: usize) -> Grant {
        *self.shared.grant.get_or_init(|| {
            let half = self.ctx.share.claim() / 2;
            let plan = self.shared.generations.latest();
            let wanted = LOCAL_ENTRIES * 8 + 2 * WANTED_PARTITIONS * plan.layout.open_pages() * PAGE_SIZE;
            let lanes = match plan.layout.num_keys() {
                0 => threads,
                _ => (half / wanted).clamp(1, threads),
            };
            Grant { lanes, lane_bytes: half / lanes }
        })
    }
}

impl Sink for AggregateSink {
    fn name(&self) -> &str {
        "aggregate"
    }

    fn lanes(&self, threads: usize) -> usize {
        self.grant(threads).lanes
    }

    fn may_grow(&self) -> bool {
        self.shared.generations.latest().may_grow()
    }

    fn local(&self, ctx: &ExecContext, _lane: usize) -> Result<Box<dyn SinkLocal>, ExecError> {
        Ok(Box::new(self.lane(ctx)))
    }

    fn finish(&self, _ctx: &ExecContext, task: &TaskContext) -> Result<(), ExecError> {
        let mut lanes = std::mem::take(&mut *self.shared.done.lock());
        let plan = self.shared.generations.latest();
        if plan.layout.num_keys() == 0
            && plan.collected.is_none()
            && lanes.iter().all(|l| l.partitions.iter().all(|p| p.rows() == 0))
        {
            lanes = vec![self.empty_group(&plan)?];
        }
        let radix = self.shared.radix.get().copied().unwrap_or(RadixBits::new(INITIAL_BITS));
        let single = lanes.len() == 1;
        let mut partitions: Vec<Partition> = (0..radix.fan_out()).map(|_| Partition::new(radix, single)).collect();
        for lane in lanes {
            let parts = if lane.radix == radix {
                lane.partitions
            } else {
                // This lane ended before its first reset: few rows.
                repartition(&lane.plan, &self.ctx, lane.partitions, radix, &|| task.is_cancelled())?.into_partitions()
            };
            for (all, part) in partitions.iter_mut().zip(parts) {
                all.push(&plan, &lane.plan, part, lane.distinct);
            }
        }
        self.ctx.counters.note_strategy(format!(
            "aggregate: {} {} partitions",
            if self.shared.radix.get().is_some() { "partitioned," } else { "local," },
            radix.fan_out()
        ));
        self.partitions.fill(plan, partitions);
        Ok(())
    }
}

impl AggregateSink {
    /// Lanes that the memory grant allows.
    pub(crate) fn granted_lanes(&self) -> usize {
        self.grant(self.ctx.settings.threads.max(1)).lanes
    }

    /// State of one lane.
    pub(crate) fn lane(&self, ctx: &ExecContext) -> AggregateLocal {
        let grant = self.grant(ctx.settings.threads.max(1));
        let plan = self.shared.generations.latest();
        let radix = RadixBits::new(INITIAL_BITS);
        let rows = PartitionedRows::new(Arc::clone(&plan.layout), Arc::clone(&ctx.memory), CONSUMER, radix, true);
        AggregateLocal {
            plan,
            ctx: ctx.clone(),
            shared: Arc::clone(&self.shared),
            rows_estimate: self.rows_estimate,
            grant: grant.lane_bytes,
            lanes: grant.lanes,
            rows,
            lookup: None,
            begun: false,
            rounds: 0,
            survivors: 0,
            input_rows: 0,
            since: (0, 0),
            stopped: false,
            looked_up: Some(0),
            early: EarlyCombination::default(),
            only: std::ptr::null_mut(),
            scratch: Scratch::default(),
        }
    }

    /// Ends the first phase without any rows, and without the group that there is even if there are none.
    pub(crate) fn finish_without_groups(&self) {
        self.partitions.fill(self.shared.generations.latest(), Vec::new());
    }

    /// Without keys there is a group even if there are no rows: one row, all NULL, its states empty.
    fn empty_group(&self, plan: &Arc<AggregatePlan>) -> Result<LaneRows, ExecError> {
        let radix = RadixBits::new(INITIAL_BITS);
        let mut rows =
            PartitionedRows::new(Arc::clone(&plan.layout), Arc::clone(&self.ctx.memory), CONSUMER, radix, false);
        let mut stage = RowStage::default();
        stage.reset(&plan.layout, 1);
        // SAFETY: a staged row without strings; a hash of zero is as good as any.
        unsafe { rows.append(std::iter::once(stage.row(0)), &mut Vec::new())? };
        Ok(LaneRows { plan: Arc::clone(plan), radix, partitions: rows.into_partitions(), distinct: true })
    }
}

/// Appends the rows of `partitions` to partitions by `radix`, page by page.
fn repartition(
    plan: &AggregatePlan,
    ctx: &ExecContext,
    partitions: Vec<RowPartition>,
    radix: RadixBits,
    cancelled: Cancelled<'_>,
) -> Result<PartitionedRows, ExecError> {
    let mut target = PartitionedRows::new(Arc::clone(&plan.layout), Arc::clone(&ctx.memory), CONSUMER, radix, false);
    for partition in partitions {
        append_partition(&mut target, partition, cancelled)?;
    }
    Ok(target)
}

/// Buffers of a lane, reused for every chunk.
#[derive(Default)]
struct Scratch {
    evaluated: Evaluated,
    stage: RowStage,
    /// The chunk's keys are staged.
    staged: bool,
    hashes: Vec<u64>,
    caches: Vec<CodeCache>,
    /// The group of each row.
    found: Found,
    addresses: Vec<*mut u8>,
    /// Rows of groups that were there before.
    old: Vec<u32>,
    /// Rows, not the first, of groups that are still staged, and where their groups are.
    mates: Vec<u32>,
    targets: Vec<u64>,
    /// Rows whose group must be materialized once more.
    again: Vec<u32>,
    few: FewGroups,
}

/// One lane of the first phase.
pub(crate) struct AggregateLocal {
    plan: Arc<AggregatePlan>,
    ctx: ExecContext,
    shared: Arc<Shared>,
    rows_estimate: Option<u64>,
    /// Bytes that the lane may keep pinned.
    grant: usize,
    /// Lanes that share the work.
    lanes: usize,
    rows: PartitionedRows,
    /// `None` once rows are only appended, and before the first.
    lookup: Option<Lookup>,
    /// The first rows were seen.
    begun: bool,
    /// Times the table was reset.
    rounds: usize,
    /// Rows that went to partitions.
    survivors: u64,
    input_rows: u64,
    /// Input rows and survivors when rows were first looked up, or last began or ceased to be.
    since: (u64, u64),
    /// Looking rows up was not worth it, at least once.
    stopped: bool,
    /// Rows that were looked up since the table was empty; `None` once it was reset, from when on it does not grow.
    looked_up: Option<u64>,
    early: EarlyCombination,
    /// Without keys: the row of the only group, once there is one.
    only: *mut u8,
    scratch: Scratch,
}

// SAFETY: the addresses in the scratch point into pages that `rows` keeps pinned and are not used across calls.
unsafe impl Send for AggregateLocal {}

impl AggregateLocal {
    /// The first rows, evaluated, are here: settles on a plan, and on how rows are looked up.
    fn begin(&mut self, cancelled: Cancelled<'_>) -> Result<(), ExecError> {
        self.begun = true;
        let plan = self.shared.generations.begin(&self.scratch.evaluated)?;
        self.adopt(plan, self.rows.radix());
        let forced = self.ctx.settings.aggregate_strategy;
        match self.plan.layout.num_keys() {
            0 => {}
            _ if self.plan.collected.is_some()
                || matches!(forced, Some(AggregateStrategy::PartitionOnly | AggregateStrategy::CombineEarly)) =>
            {
                self.rows.set_retain(false);
                self.choose_partitions(1.0, cancelled)?;
            }
            _ => self.lookup = Some(self.new_lookup()?),
        }
        Ok(())
    }

    fn new_lookup(&self) -> Result<Lookup, MemoryError> {
        let may_be_perfect = self.ctx.settings.aggregate_strategy != Some(AggregateStrategy::PreAggregate);
        Lookup::new(&self.plan.layout, &self.ctx.memory, CONSUMER, may_be_perfect)
    }

    /// Begins with `plan`, with no rows yet.
    fn adopt(&mut self, plan: Arc<AggregatePlan>, radix: RadixBits) {
        let retain = plan.collected.is_none();
        let layout = Arc::clone(&plan.layout);
        self.rows = PartitionedRows::new(layout, Arc::clone(&self.ctx.memory), CONSUMER, radix, retain);
        self.plan = plan;
    }

    /// Ends the lane's generation, since `misfits` do not fit into its rows.
    fn widen(&mut self, misfits: &[(Guess, Misfit)]) -> Result<(), ExecError> {
        let plan = self.shared.generations.widen(&self.plan, misfits)?;
        let radix = self.rows.radix();
        let looks_up = self.lookup.is_some();
        self.early.restart();
        let before = std::mem::replace(&mut self.plan, plan);
        let layout = Arc::clone(&self.plan.layout);
        let empty = PartitionedRows::new(layout, Arc::clone(&self.ctx.memory), CONSUMER, radix, looks_up);
        let partitions = std::mem::replace(&mut self.rows, empty).into_partitions();
        self.shared.done.lock().push(LaneRows { plan: before, radix, partitions, distinct: false });
        self.lookup = None;
        if looks_up {
            self.lookup = Some(self.new_lookup()?);
            self.looked_up = self.looked_up.map(|_| 0);
        }
        self.rounds = self.rounds.max(1);
        self.ctx.counters.note_strategy("aggregate: widened rows".to_owned());
        Ok(())
    }

    /// Empties the table and, the first time, decides how to go on.
    fn reset(&mut self, cancelled: Cancelled<'_>) -> Result<(), ExecError> {
        let (rows, survivors) = (self.input_rows - self.since.0, self.survivors - self.since.1);
        let survivors = survivors as f64 / rows.max(1) as f64;
        self.rounds += 1;
        self.looked_up = None;
        self.rows.release();
        self.choose_partitions(survivors, cancelled)?;
        let spills = self.ctx.memory.stats().temp_bytes > 0;
        let worthless = survivors > if spills { SURVIVORS_MAX_SPILLING } else { SURVIVORS_MAX };
        let forced = self.ctx.settings.aggregate_strategy;
        if worthless && forced != Some(AggregateStrategy::PreAggregate) {
            self.lookup = None;
            self.rows.set_retain(false);
            self.since = (self.input_rows, self.survivors);
            self.stopped = true;
            self.ctx.counters.note_strategy("aggregate: stopped pre-aggregating".to_owned());
        } else if let Some(lookup) = &mut self.lookup {
            lookup.reset();
            self.note_resumed();
        }
        self.combine_early(cancelled)
    }

    /// Lookups that go on after they were stopped are worth a note.
    fn note_resumed(&self) {
        if self.stopped && self.lookup.is_some() {
            self.ctx.counters.note_strategy("aggregate: resumed pre-aggregating".to_owned());
        }
    }

    /// Looks rows up again, to see whether they repeat by now. Not if there is no memory for that.
    fn resume(&mut self) {
        self.since = (self.input_rows, self.survivors);
        if let Ok(lookup) = optional(|| self.new_lookup()) {
            self.lookup = Some(lookup);
            self.rows.set_retain(true);
        }
    }

    /// Combines partitions that are due, where no address in the table refers to their rows.
    fn combine_early(&mut self, cancelled: Cancelled<'_>) -> Result<(), ExecError> {
        let untouched = self.plan.collected.is_some() || {
            self.early.run(&self.plan, &self.ctx, &mut self.rows, self.input_rows, cancelled)?;
            self.early.leaves_rows_alone(&self.ctx)
        };
        // Rows that are not combined before the second phase are not looked at until their partition's turn.
        self.rows.set_needed(untouched.then_some(NeededAt::LAST));
        Ok(())
    }

    /// The fan-out rule: partitions that fit the cache, as far as one open page (two with strings) for each fits the grant.
    fn choose_partitions(&mut self, survivors: f64, cancelled: Cancelled<'_>) -> Result<(), ExecError> {
        let radix = *self.shared.radix.get_or_init(|| {
            let rows = self.rows_estimate.unwrap_or(UNKNOWN_ROWS) as f64 * survivors;
            let bytes = rows * self.plan.layout.width() as f64;
            let filled = PARTITION_PAGES * PAGE_SIZE * self.lanes;
            let wanted = bytes / filled.clamp(PARTITION_BYTES, PARTITION_BYTES_MAX) as f64;
            let allowed = self.grant / 2 / (self.plan.layout.open_pages() * PAGE_SIZE);
            let bits = (wanted.max(1.0).log2().round() as u32).min(allowed.max(1).ilog2());
            RadixBits::new(bits.clamp(INITIAL_BITS, MAX_BITS))
        });
        if radix != self.rows.radix() {
            let retain = self.lookup.is_some();
            let empty = PartitionedRows::new(
                Arc::clone(&self.plan.layout),
                Arc::clone(&self.ctx.memory),
                CONSUMER,
                radix,
                retain,
            );
            let before = std::mem::replace(&mut self.rows, empty);
            for partition in before.into_partitions() {
                append_partition(&mut self.rows, partition, cancelled)?;
            }
            self.rows.release();
        }
        Ok(())
    }

    /// Stages every column of all rows and appends them: no lookup.
    fn append_all(&mut self, rows: usize, cancelled: Cancelled<'_>) -> Result<(), ExecError> {
        self.combine_early(cancelled)?;
        self.survivors += rows as u64;
        let Self { plan, scratch, rows: store, .. } = self;
        stage_payload(plan, scratch, None);
        let base = scratch.stage.row_mut(0) as u64;
        let width = plan.layout.width() as u64;
        let targets = &mut scratch.found.groups;
        targets.clear();
        if !plan.kernels.is_empty() {
            targets.extend((0..rows as u64).map(|row| base + row * width));
        }
        // SAFETY: the targets are the staged rows; they were staged just now, with valid pointers into the chunk's arrays.
        unsafe {
            update_states(plan, &scratch.evaluated, Updated::Rows(Targets::Each(targets)))?;
            let stage = &scratch.stage;
            store.scatter((0..rows).map(|row| stage.row(row)))?;
        }
        Ok(())
    }

    /// Without keys all rows are of one group.
    fn add_to_only(&mut self, rows: usize) -> Result<(), ExecError> {
        if self.only.is_null() {
            let Self { plan, ctx, scratch, rows: store, only, .. } = self;
            scratch.stage_keys(plan, ctx, rows)?;
            stage_payload(plan, scratch, Some(&[0]));
            // SAFETY: staged just now, with valid pointers into the chunk's arrays.
            unsafe { store.append(std::iter::once(scratch.stage.row(0)), &mut scratch.addresses)? };
            *only = scratch.addresses[0];
        }
        if self.plan.keeps_values() {
            self.scratch.old.clear();
            self.scratch.old.extend(0..rows as u32);
            self.scratch.found.groups.clear();
            self.scratch.found.groups.resize(rows, self.only as u64);
            self.scratch.stage_pairs(&self.plan, &self.ctx, rows)?;
            self.update_extrema()?;
        }
        let Scratch { evaluated, few, .. } = &mut self.scratch;
        few.groups.clear();
        few.groups.push(self.only as u64);
        few.numbers.clear();
        few.begin(rows);
        // SAFETY: the group's row is on a retained page.
        unsafe { update_states(&self.plan, evaluated, Updated::Few(few)) }
    }

    /// Offers the values of `scratch.old` rows to their groups' extremes.
    fn update_extrema(&mut self) -> Result<(), ExecError> {
        let Self { plan, scratch, .. } = self;
        scratch.again.clear();
        let Scratch { old, found, again, stage, evaluated, .. } = scratch;
        for extremum in &plan.extrema {
            let array = &evaluated.stored[extremum.column];
            // SAFETY: `found` has addresses of rows on retained pages.
            unsafe { extremum.update(&plan.layout, array, old, &found.groups, Some(again)) };
        }
        for pair in &plan.arg_extrema {
            // SAFETY: as above; all rows of the chunk are staged.
            unsafe { pair.update(&plan.layout, old, |row| stage.row(row as usize), &found.groups, again) };
        }
        if scratch.again.is_empty() { Ok(()) } else { self.grow_strings() }
    }

    /// A string that is longer than the one it replaces has no room in its group's row. The group gets another row, with the best values so
    /// far, so that it does not have to grow again soon; its states stay in the first one, and the second phase combines the two.
    /// Several rows of the chunk may grow one group: each becomes a row, and the last stands for the group from now on.
    fn grow_strings(&mut self) -> Result<(), ExecError> {
        let Self { plan, ctx, scratch, rows: store, lookup, only, .. } = self;
        let layout = &plan.layout;
        scratch.stage_keys(plan, ctx, scratch.found.groups.len())?;
        let mut again = std::mem::take(&mut scratch.again);
        again.sort_unstable();
        again.dedup();
        stage_payload(plan, scratch, Some(&again));
        let groups: Vec<*const u8> =
            again.iter().map(|&row| scratch.found.groups[row as usize] as usize as *const u8).collect();
        let staged: Vec<*mut u8> = again.iter().map(|&row| scratch.stage.row_mut(row as usize)).collect();
        // SAFETY: rows of groups are on retained pages; the staged rows were staged for this chunk, whose arrays are alive.
        unsafe {
            for extremum in &plan.extrema {
                extremum.combine(layout, &groups, &staged);
            }
            for pair in &plan.arg_extrema {
                pair.combine(layout, &groups, &staged);
            }
            store.append(staged.iter().map(|row| row.cast_const()), &mut scratch.addresses)?;
            for ((&row, &staged), &address) in again.iter().zip(&staged).zip(&scratch.addresses) {
                match lookup {
                    Some(lookup) => lookup.redirect(layout, staged, address),
                    None => *only = address,
                }
                scratch.found.groups[row as usize] = address as u64;
            }
        }
        self.survivors += again.len() as u64;
        scratch.again = again;
        Ok(())
    }

    /// Looks rows up, appends the new groups, updates all.
    fn look_up(&mut self, rows: usize) -> Result<(), ExecError> {
        let Self { plan, ctx, scratch, rows: store, lookup, .. } = self;
        let lookup = lookup.as_mut().expect("called while there is a table");
        let layout = &plan.layout;
        match lookup {
            Lookup::Salted(table) => {
                scratch.stage_keys(plan, ctx, rows)?;
                // SAFETY: pages of the rows in the table are retained since the last reset; the table was reset if it could fill up.
                unsafe { table.find_or_claim(layout, &scratch.stage, &scratch.hashes, &mut scratch.found) };
            }
            Lookup::Perfect(table) => {
                let keys = &scratch.evaluated.stored[..layout.num_keys()];
                if !plan.keeps_values() && table.find_few(layout, keys, rows, &mut scratch.few) {
                    scratch.found.clear();
                    // SAFETY: rows in the table are on pages that are retained until it is reset.
                    return unsafe { update_states(plan, &scratch.evaluated, Updated::Few(&mut scratch.few)) };
                }
                table.find_or_claim(layout, keys, rows, &mut scratch.found);
                // Only rows that are kept are staged.
                if !scratch.found.new.is_empty() {
                    scratch.stage_keys(plan, ctx, rows)?;
                }
            }
        }
        scratch.stage_pairs(plan, ctx, rows)?;
        let new = std::mem::take(&mut scratch.found.new);
        if !new.is_empty() {
            if plan.arg_extrema.is_empty() {
                stage_payload(plan, scratch, Some(&new));
            }
            if plan.keeps_values() {
                // Before the rows of new groups are written: a string that comes out best later in the chunk then never has to grow.
                scratch.update_staged(plan, &new);
            }
            let stage = &scratch.stage;
            // SAFETY: staged just now, with valid pointers into the chunk's arrays.
            unsafe { store.append(new.iter().map(|&row| stage.row(row as usize)), &mut scratch.addresses)? };
        } else {
            scratch.addresses.clear();
            if plan.keeps_values() {
                scratch.old.clear();
                scratch.old.extend(0..rows as u32);
            }
        }
        self.survivors += new.len() as u64;
        scratch.found.new = new;
        lookup.settle(&mut scratch.found, &scratch.addresses);
        if plan.keeps_values() && !scratch.old.is_empty() {
            self.update_extrema()?;
        }
        let Self { plan, scratch, lookup, .. } = self;
        let Scratch { evaluated, found, few, .. } = scratch;
        let keys = &evaluated.stored[..plan.layout.num_keys()];
        let is_few = match lookup {
            Some(Lookup::Perfect(table)) => table.number_found(&plan.layout, keys, rows, few),
            _ => false,
        };
        let updated = if is_few { Updated::Few(few) } else { Updated::Rows(Targets::Each(&found.groups)) };
        // SAFETY: as above.
        unsafe { update_states(plan, evaluated, updated) }
    }
}

impl Scratch {
    /// Stages hashes and keys of the chunk's rows, unless that was done before.
    fn stage_keys(&mut self, plan: &AggregatePlan, ctx: &ExecContext, rows: usize) -> Result<(), ExecError> {
        if std::mem::replace(&mut self.staged, true) {
            return Ok(());
        }
        self.stage.reset(&plan.layout, rows);
        for index in 0..plan.layout.num_keys() {
            self.stage.write_column(&plan.layout, index, &self.evaluated.stored[index], None);
        }
        self.hashes.clear();
        self.hashes.resize(rows, 0);
        for (index, column) in self.evaluated.keys.iter().enumerate() {
            hash_column(column.as_ref(), ctx.settings.hash, index == 0, &mut self.hashes[..rows])?;
        }
        self.stage.write_hashes(&self.hashes);
        Ok(())
    }

    /// Offers values to the extremes of groups whose first rows, `new`, are staged. The rows whose groups were there before are then `old`.
    fn update_staged(&mut self, plan: &AggregatePlan, new: &[u32]) {
        let Self { evaluated, stage, found, old, mates, targets, .. } = self;
        old.clear();
        mates.clear();
        targets.clear();
        targets.resize(found.groups.len(), 0);
        let mut next_new = new.iter().copied().peekable();
        for (row, &group) in found.groups.iter().enumerate() {
            if next_new.next_if_eq(&(row as u32)).is_some() {
                continue;
            }
            match Found::staged(group) {
                Some(first) => {
                    mates.push(row as u32);
                    targets[row] = stage.row_mut(first) as u64;
                }
                None => old.push(row as u32),
            }
        }
        if mates.is_empty() {
            return;
        }
        for extremum in &plan.extrema {
            let array = &evaluated.stored[extremum.column];
            // SAFETY: the targets are staged rows, whose strings point into arrays of this chunk.
            unsafe { extremum.update(&plan.layout, array, mates, targets, None) };
        }
        if !plan.arg_extrema.is_empty() {
            let sources: Vec<*const u8> = mates.iter().map(|&row| stage.row(row as usize)).collect();
            let targets: Vec<*mut u8> = mates.iter().map(|&row| targets[row as usize] as usize as *mut u8).collect();
            for pair in &plan.arg_extrema {
                // SAFETY: all rows of the chunk are staged, and their strings point into its arrays.
                unsafe { pair.combine(&plan.layout, &sources, &targets) };
            }
        }
    }

    /// Stages the payload of all rows where values are kept in pairs: those are compared and moved as rows.
    fn stage_pairs(&mut self, plan: &AggregatePlan, ctx: &ExecContext, rows: usize) -> Result<(), ExecError> {
        if plan.arg_extrema.is_empty() {
            return Ok(());
        }
        self.stage_keys(plan, ctx, rows)?;
        stage_payload(plan, self, None);
        Ok(())
    }
}

/// Writes the payload columns of staged rows `rows`, or of all.
fn stage_payload(plan: &AggregatePlan, scratch: &mut Scratch, rows: Option<&[u32]>) {
    for column in plan.layout.num_keys()..plan.layout.columns().len() {
        scratch.stage.write_column(&plan.layout, column, &scratch.evaluated.stored[column], rows);
    }
    let stage = &mut scratch.stage;
    for pair in &plan.arg_extrema {
        // SAFETY: they are rows of the layout, and staged.
        unsafe {
            match rows {
                Some(rows) => pair.settle(&plan.layout, rows.iter().map(|&row| stage.row_mut(row as usize))),
                None => pair.settle(&plan.layout, (0..stage.rows()).map(|row| stage.row_mut(row))),
            }
        }
    }
}

/// Whose states are updated.
pub(crate) enum Updated<'a> {
    /// Those of rows.
    Rows(Targets<'a>),
    /// Those of few groups: by sums over the chunk, as far as that can be.
    Few(&'a mut FewGroups),
}

/// Adds the chunk's values to the states of their groups.
///
/// # Safety
/// What is `updated` are rows of the plan's layout, staged or on pinned pages, owned by the caller, one for each row of the chunk.
pub(crate) unsafe fn update_states(
    plan: &AggregatePlan,
    evaluated: &Evaluated,
    mut updated: Updated<'_>,
) -> Result<(), ExecError> {
    let mut args = Vec::with_capacity(2);
    for bound in &plan.kernels {
        if let (Updated::Few(few), false, &[input]) = (&mut updated, bound.merges, bound.inputs.as_slice())
            // SAFETY: the caller vouches for the rows.
            && unsafe { few.add(&*bound.kernel, input, &evaluated.inputs[input])? }
        {
            continue;
        }
        args.clear();
        for &input in &bound.inputs {
            args.push(evaluated.inputs[input].flatten()?);
        }
        let targets = match &mut updated {
            Updated::Rows(targets) => *targets,
            Updated::Few(few) if let &[only] = few.groups.as_slice() => Targets::One(only as usize as *mut u8),
            Updated::Few(few) => Targets::Each(few.addresses()),
        };
        // SAFETY: the caller vouches for the targets.
        unsafe {
            if bound.merges {
                bound.kernel.merge(&args, targets)?;
            } else {
                bound.kernel.update(&args, targets)?;
            }
        }
    }
    Ok(())
}

impl SinkLocal for AggregateLocal {
    fn consume(&mut self, chunk: Chunk, task: &TaskContext) -> Result<Flow, ExecError> {
        self.add(&chunk, &|| task.is_cancelled())?;
        Ok(Flow::Continue)
    }

    fn combine(self: Box<Self>, _task: &TaskContext) -> Result<(), ExecError> {
        self.hand_over();
        Ok(())
    }
}

impl AggregateLocal {
    /// Hands its rows over to the sink.
    pub(crate) fn hand_over(self) {
        self.note_resumed();
        // Every group of the rows is in the table, once, if it was never reset, and never given up for a longer string.
        let groups = self.lookup.as_ref().map_or(1, Lookup::len);
        let distinct = self.rounds == 0 && groups == self.rows.rows();
        let radix = self.rows.radix();
        let lane = LaneRows { plan: self.plan, radix, partitions: self.rows.into_partitions(), distinct };
        self.shared.done.lock().push(lane);
    }

    /// The rows, and the plan that they were made by.
    #[cfg(test)]
    pub(crate) fn into_rows(self) -> (Arc<AggregatePlan>, PartitionedRows) {
        (self.plan, self.rows)
    }

    /// Adds the rows of `chunk`.
    pub(crate) fn add(&mut self, chunk: &Chunk, cancelled: Cancelled<'_>) -> Result<(), ExecError> {
        let rows = chunk.len();
        self.plan.evaluate(chunk, &mut self.scratch.evaluated)?;
        if !self.begun {
            self.begin(cancelled)?;
        }
        if !self.shared.generations.count(rows) && self.plan.short_states().next().is_some() {
            let misfits: Vec<_> = self.plan.short_states().map(|guess| (guess, Misfit::Value)).collect();
            self.widen(&misfits)?;
        }
        loop {
            let misfits = self.plan.narrow(&mut self.scratch.evaluated, &mut self.scratch.caches)?;
            if misfits.is_empty() {
                break;
            }
            self.widen(&misfits)?;
        }
        if self.lookup.is_none() && self.stopped && self.input_rows - self.since.0 >= RESUME_ROWS {
            self.resume();
        }
        if let Some(lookup) = &mut self.lookup {
            // The lookup claims entries before rows are appended, so there must be room for a chunk of new groups; and what is
            // pinned since the last reset must stay within the grant.
            let affordable = self.rows.retained_bytes() <= self.grant / 2;
            let fits = lookup.has_room_for(rows)
                // SAFETY: rows in the table are on pages that are retained until it is reset.
                || unsafe { lookup.grow(&self.ctx.memory, CONSUMER, self.looked_up, self.grant / 8)? };
            if !(fits && affordable) {
                self.reset(cancelled)?;
            }
            self.looked_up = self.looked_up.map(|before| before + rows as u64);
        }
        self.input_rows += rows as u64;
        self.scratch.staged = false;
        if self.plan.layout.num_keys() == 0 && self.plan.collected.is_none() {
            self.add_to_only(rows)?;
        } else if self.lookup.is_some() {
            self.look_up(rows)?;
        } else {
            self.scratch.stage_keys(&self.plan, &self.ctx, rows)?;
            self.append_all(rows, cancelled)?;
        }
        Ok(())
    }
}
