//! What a join tells those who make the rows of its probe side: which keys can have a mate at all.
//!
//! The build side is complete before the probe side is opened. Its keys, as ranges and as a set (`key_set`), restrict the rows that come
//! from as far back as the columns of the keys can be followed: through filters, projections, probes of other joins, groupings and windows by
//! these columns, to the scan, which can leave out row groups of Parquet files as a whole. A filter behind the scan drops rows that no row
//! group told apart: before other joins look for mates, before partitions that wait are written, and before groups are made that nobody
//! asks for. A grouping then waits for the build side, as the subquery of a decorrelated statement does for the rows that it is about. Of a union
//! each input is told by itself.
//!
//! Rows that the probe side meets on its way were kept for it by other joins, and of these too only those matter that have such keys. What keeps
//! them waits as well, if far more rows are kept there than there are keys.

use std::{
    cmp::Reverse,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use ogee_row::{PinnedRows, RowLayout, RowPartition, gather_column};
use ogee_vector::{Column, PhysicalType, integer_range};

use super::{
    key_set::{KeyScratch, KeySet},
    side::Keys,
    spec::JoinPlan,
};
use crate::{
    ExecContext, ExecError, Expr, Kept, KeyFilters, OpenPipeline, Query, Restriction,
    cancel::{Cancelled, obey},
    restriction::KeyFilter,
};

/// The ranges of the keys of one lane's rows, as far as they are integers.
#[derive(Clone, Default)]
pub(crate) struct KeyRanges {
    ranges: Vec<Option<(i64, i64)>>,
}

impl KeyRanges {
    /// Takes the keys of a chunk, none of which is NULL.
    pub(crate) fn add(&mut self, keys: &Keys) {
        self.ranges.resize(keys.columns.len(), None);
        for (range, column) in self.ranges.iter_mut().zip(&keys.columns) {
            *range = union(*range, integer_range(column.as_ref()));
        }
    }

    /// The range of key `key`; `None` if it is none of integers, or there are no rows.
    pub(crate) fn of_key(&self, key: usize) -> Option<(i64, i64)> {
        self.ranges.get(key).copied().flatten()
    }

    /// Takes the ranges of another lane.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.ranges.resize(self.ranges.len().max(other.ranges.len()), None);
        for (range, other) in self.ranges.iter_mut().zip(&other.ranges) {
            *range = union(*range, *other);
        }
    }
}

fn union(a: Option<(i64, i64)>, b: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (one, other) => one.or(other),
    }
}

/// A place that rows of the probe side pass before they come to the join.
struct Site {
    /// Their pipeline there: of the query, or the one that the join is a part of.
    pipeline: Option<usize>,
    /// How many pipelines that is before the join's.
    before: usize,
    /// The operator of their pipeline that follows it.
    at: usize,
    /// The columns of the keys there.
    columns: Vec<usize>,
    /// The rows are as the source gives them.
    is_source: bool,
    /// Nothing that takes time comes between it and the join.
    is_next: bool,
    /// Groupings before it may wait.
    groups_wait: bool,
}

impl Site {
    /// The earliest place that `columns`, of what comes out of `open`, can be followed to: through the groups that rows are made of, if these may wait.
    fn of(query: &Query, open: &OpenPipeline, columns: &[usize], groups_wait: bool) -> Self {
        let mut site = Self::within(open, columns);
        while let Some(groups) = site.pipeline.map_or(open, |number| query.pipeline(number)).groups.as_ref()
            && let Some(columns) = site.columns.iter().map(|&column| groups.columns.get(column).copied()?).collect()
            && site.is_source
            && groups_wait
        {
            let columns: Vec<usize> = columns;
            let before = site.before + 1;
            let earlier = Self::within(query.pipeline(groups.pipeline), &columns);
            site = Self { pipeline: Some(groups.pipeline), before, is_next: false, ..earlier };
        }
        Self { groups_wait, ..site }
    }

    /// The same for `columns` of what goes into the sink of pipeline `number`, whose rows wait in any case.
    fn before_sink(query: &Query, number: usize, columns: &[usize]) -> Self {
        let site = Self::of(query, query.pipeline(number), columns, true);
        Self { pipeline: site.pipeline.or(Some(number)), is_next: false, ..site }
    }

    /// The same within a pipeline.
    fn within(pipeline: &OpenPipeline, columns: &[usize]) -> Self {
        let mut columns = columns.to_vec();
        let mut at = pipeline.operators.len();
        while let Some(operator) = at.checked_sub(1).map(|before| &pipeline.operators[before])
            && let Some(origins) = columns.iter().map(|&column| operator.origin(column)).collect()
        {
            columns = origins;
            at -= 1;
        }
        let is_source = at == 0;
        // Filters of the statement first: they cost less, and rows that they drop are not asked about.
        let stays = |at: usize| {
            let operator = &pipeline.operators[at];
            operator.is_light() && columns.iter().all(|&column| operator.origin(column) == Some(column))
        };
        while at < pipeline.operators.len() && stays(at) {
            at += 1;
        }
        let is_next = pipeline.operators[at..].iter().all(|operator| operator.is_light());
        Self { pipeline: None, before: 0, at, columns, is_source, is_next, groups_wait: false }
    }

    /// How far it is from the join, first of all in pipelines: the earlier, the less.
    fn depth(&self) -> (Reverse<usize>, usize) {
        (Reverse(self.before), self.at)
    }

    /// Has the rows that pass here asked about, in `probe` or in an earlier pipeline of the query, which then waits for pipeline `complete`.
    fn place(&self, query: &mut Query, probe: &mut OpenPipeline, restriction: &Arc<Restriction>, complete: usize) {
        let pipeline = match self.pipeline {
            None => probe,
            Some(number) => {
                // What is built depends on nothing of the probe side, so that no pipeline comes to wait for itself.
                let earlier = query.pipeline_mut(number);
                if !earlier.deps.contains(&complete) {
                    earlier.deps.push(complete);
                }
                earlier
            }
        };
        if self.is_source {
            if pipeline.source.restrict(&self.columns, restriction) {
                return;
            }
            let source = Arc::clone(&pipeline.source);
            if let Some(parts) = source.parts() {
                for part in parts.lock().iter_mut() {
                    let site = Self::of(query, part, &self.columns, self.groups_wait);
                    Self { is_next: false, ..site }.place(query, part, restriction, complete);
                }
                return;
            }
        }
        let filter = KeyFilter::new(Arc::clone(restriction), &self.columns, self.is_next);
        pipeline.operators.insert(self.at, Arc::new(filter));
    }
}

/// Keys, by their numbers, and the columns that have their values.
type KeyColumns = Vec<(usize, usize)>;

/// Fewer rows than these are kept before anybody could have said which of them matter.
const KEPT_MIN: u64 = 10_000;

/// Calls `found` with the keys that the joins which rows of `open` pass have kept rows by, and where those rows come from; first of all with what was
/// kept last. `rows`: how many keys there will be.
fn kept_for(
    query: &Query,
    open: &OpenPipeline,
    mut keys: KeyColumns,
    groups_wait: bool,
    rows: &dyn Fn() -> u64,
    found: &mut dyn FnMut(&KeyColumns, Site),
) {
    for operator in open.operators.iter().rev() {
        let kept: Vec<(usize, Kept<'_>)> =
            keys.iter().filter_map(|&(key, column)| Some((key, operator.kept(column)?))).collect();
        if let Some((_, Kept { pipeline, rows: of_side, .. })) = kept.first() {
            let of_side = of_side.get();
            if of_side >= KEPT_MIN && rows() <= of_side / 2 {
                let columns: Vec<usize> = kept.iter().map(|(_, kept)| kept.column).collect();
                let keys: KeyColumns = kept.iter().map(|(key, kept)| (*key, kept.column)).collect();
                found(&keys, Site::before_sink(query, *pipeline, &columns));
                kept_for(query, query.pipeline(*pipeline), keys, true, rows, found);
            }
        }
        keys = keys.iter().filter_map(|&(key, column)| Some((key, operator.origin(column)?))).collect();
        if keys.is_empty() {
            return;
        }
    }
    if let Some(groups) = open.groups.as_ref().filter(|_| groups_wait) {
        let earlier = keys.iter().filter_map(|&(key, column)| Some((key, groups.columns.get(column).copied()??)));
        kept_for(query, query.pipeline(groups.pipeline), earlier.collect(), groups_wait, rows, found);
    } else if let Some(parts) = open.source.parts() {
        parts.lock().iter().for_each(|part| kept_for(query, part, keys.clone(), groups_wait, rows, found));
    }
}

/// Those who are told the same keys of the join.
pub(crate) struct Reach {
    /// The numbers of the keys.
    keys: Vec<usize>,
    /// Hashes as rows keep them are those of these keys.
    is_whole: bool,
    sites: Vec<Site>,
    restriction: Arc<Restriction>,
}

/// All who are told keys of the join, and those keys while they are collected.
pub(crate) struct Reaches {
    reaches: Vec<Reach>,
    /// Sets that were begun before it was known how many keys there would be, since there are too many rows to come back to.
    early: OnceLock<KeySets>,
    /// About how many keys these have.
    early_keys: AtomicUsize,
}

/// The sets of keys that are being filled, by reach.
pub(crate) type KeySets = Vec<Option<Arc<KeySet>>>;

impl Reaches {
    /// Those whom the join reaches through `probe`, its probe side.
    pub(crate) fn of(plan: &JoinPlan, query: &Query, probe: &OpenPipeline) -> Self {
        let spec = &plan.spec;
        let site = |columns: &[usize]| Site::of(query, probe, columns, spec.groups_wait);
        let mut reaches = Vec::new();
        let column = |number: usize| {
            let key = &spec.keys[number];
            let hashed = !matches!(PhysicalType::of(&key.data_type), Ok(PhysicalType::Nested) | Err(_));
            match key.probe {
                Expr::Column(column) if hashed => Some((number, column)),
                _ => None,
            }
        };
        let known: Vec<(usize, usize)> = (0..spec.keys.len()).filter_map(column).collect();
        let keeps = spec.kind.keeps_probe() || spec.null_aware;
        if !known.is_empty() && !keeps && query.ctx().settings.key_filters != Some(KeyFilters::Never) {
            // Some keys may come from farther than others: those are told there, and all of them where all can be followed to.
            let depth = |column: usize| site(&[column]).depth();
            let deepest = known.iter().map(|&(_, column)| depth(column)).min().expect("there are some");
            let far: Vec<_> = known.iter().copied().filter(|&(_, column)| depth(column) == deepest).collect();
            let mut add = |keys: &KeyColumns, site: Site| {
                let keys: Vec<usize> = keys.iter().map(|&(key, _)| key).collect();
                match reaches.iter_mut().find(|reach: &&mut Reach| reach.keys == keys) {
                    Some(reach) => reach.sites.push(site),
                    None => {
                        let restriction = Arc::new(Restriction::counting(Arc::clone(&spec.dropped)));
                        let is_whole = keys.len() == spec.keys.len();
                        reaches.push(Reach { is_whole, keys, sites: vec![site], restriction });
                    }
                }
            };
            let site_of = |keys: &KeyColumns| site(&keys.iter().map(|&(_, column)| column).collect::<Vec<_>>());
            add(&far, site_of(&far));
            if far.len() < known.len() {
                let site = site_of(&known);
                if !site.is_next {
                    add(&known, site);
                }
            }
            kept_for(query, probe, known, spec.groups_wait, &|| spec.build_rows.get(), &mut add);
        }
        Self { reaches, early: OnceLock::new(), early_keys: AtomicUsize::new(0) }
    }

    /// Places the filters, in `probe` and in earlier pipelines of the query, which then wait for pipeline `complete`, and tells the sources.
    pub(crate) fn place(&self, query: &mut Query, probe: &mut OpenPipeline, complete: usize) {
        // The last first: the places of the others stay what they were.
        for Reach { sites, restriction, .. } in self.reaches.iter().rev() {
            sites.iter().for_each(|site| site.place(query, probe, restriction, complete));
        }
    }

    /// Whether nobody is told anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.reaches.is_empty()
    }

    /// The sets for keys that must be taken now; `words`, of 64 bits, is how many each has, if there are to be any.
    pub(crate) fn early(&self, ctx: &ExecContext, words: impl FnOnce() -> Option<usize>) -> &KeySets {
        self.early.get_or_init(|| {
            let words = words();
            let set = |_: &Reach| KeySet::bloom_of(&ctx.memory, words?, ctx.settings.hash).map(Arc::new);
            self.reaches.iter().map(set).collect()
        })
    }

    /// Adds the keys of a chunk of the build side, none of which is NULL unless that is a key like others.
    pub(crate) fn add_keys(&self, sets: &KeySets, keys: &Keys, scratch: &mut KeyScratch) -> Result<(), ExecError> {
        let added = self.early_keys.fetch_add(keys.hashes.len(), Ordering::Relaxed);
        for (reach, set) in self.reaches.iter().zip(sets) {
            // More keys do not matter to a set that has too many to tell anything.
            let Some(set) = set.as_ref().filter(|set| !set.is_crowded(added)) else { continue };
            if reach.is_whole {
                set.add_hashes(&keys.hashes);
            } else {
                let columns: Vec<Column> = reach.keys.iter().map(|&key| keys.columns[key].clone()).collect();
                set.add_columns(&columns, keys.hashes.len(), scratch)?;
            }
        }
        Ok(())
    }

    /// Adds the keys of rows of the build side.
    pub(crate) fn add_page(
        &self,
        sets: &KeySets,
        layout: &RowLayout,
        page: &PinnedRows,
        scratch: &mut KeyScratch,
    ) -> Result<(), ExecError> {
        for (reach, set) in self.reaches.iter().zip(sets) {
            let Some(set) = set else { continue };
            let rows = (0..page.len()).map(|row| page.row(row).cast_const());
            if reach.is_whole || matches!(**set, KeySet::Bits(_)) {
                // SAFETY: the rows are on a pinned page and of the layout, whose first columns are the keys; only sets of one integer have bits.
                unsafe { set.add_rows(layout, reach.keys[0], rows) };
                continue;
            }
            let rows: Vec<*const u8> = rows.collect();
            let column = |&key: &usize| -> Result<Column, ExecError> {
                // SAFETY: as above.
                Ok(Column::flat(unsafe { gather_column(layout, key, &rows)? }))
            };
            let columns = reach.keys.iter().map(column).collect::<Result<Vec<_>, _>>()?;
            set.add_columns(&columns, rows.len(), scratch)?;
        }
        Ok(())
    }

    /// The same for all pages of `part`, one after the other.
    pub(crate) fn add_part(
        &self,
        sets: &KeySets,
        layout: &RowLayout,
        part: &mut RowPartition,
        cancelled: Cancelled<'_>,
    ) -> Result<(), ExecError> {
        let mut scratch = KeyScratch::default();
        (0..part.num_pages()).try_for_each(|page| {
            obey(cancelled)?;
            let page = part.pin_page(page)?;
            self.add_page(sets, layout, &page, &mut scratch)
        })
    }

    /// Tells what is known now that the build side is complete: `rows` rows, whose keys are within `ranges`. `begun`: the keys of all rows are in the
    /// sets begun early. If they are not, what comes back are the sets that they have yet to be added to.
    pub(crate) fn tell(
        &self,
        plan: &JoinPlan,
        ctx: &ExecContext,
        ranges: &KeyRanges,
        rows: usize,
        begun: bool,
    ) -> KeySets {
        let spec = &plan.spec;
        let choice = ctx.settings.key_filters;
        let range = |key: usize| match rows {
            0 => Some((i64::MAX, i64::MIN)),
            // A NULL has no place in a range.
            _ if spec.nulls_equal => None,
            _ => ranges.of_key(key),
        };
        let mut sets = KeySets::new();
        for (at, Reach { keys, restriction, .. }) in self.reaches.iter().enumerate() {
            restriction.set(keys.iter().map(|&key| range(key)).collect());
            let set = match (rows, &keys[..]) {
                (0, _) => Some(Arc::new(KeySet::Empty)),
                _ if begun => self.early.get().and_then(|early| early[at].clone()).filter(|set| !set.is_crowded(rows)),
                (_, keys) => {
                    let bits = match keys {
                        &[key] if choice != Some(KeyFilters::Bloom) => {
                            range(key).and_then(|range| KeySet::bits(&ctx.memory, range, rows))
                        }
                        _ => None,
                    };
                    bits.or_else(|| KeySet::bloom(&ctx.memory, rows, ctx.settings.hash)).map(Arc::new)
                }
            };
            if let Some(set) = &set {
                restriction.set_keys(Arc::clone(set), choice.is_some());
            }
            sets.push(set.filter(|_| !begun && rows > 0));
        }
        sets
    }
}
