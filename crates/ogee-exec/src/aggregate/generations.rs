//! Guesses about the stored form of columns, and what happens when one was wrong.
//!
//! A plan is made with columns as narrow as statistics and the first rows suggest. A lane that meets a value which does not fit
//! has a wider plan made, puts what it has aside as rows of an earlier *generation*, and goes on. Rows of earlier generations have the
//! same hashes, so they are in the right partitions; the second phase turns them into rows of the last plan when it takes
//! their partition. So no result depends on a guess, and only wrong guesses cost anything.

use std::{collections::HashSet, sync::Arc};

use arrow_array::{Array, ArrayRef, cast::AsArray};
use arrow_schema::DataType;
use ogee_row::{CodeCache, Misfit, Narrowing, PartitionedRows, RowPartition, RowStage};
use ogee_vector::Domain;
use parking_lot::Mutex;

use super::{
    AggregateSpec,
    plan::{AggregatePlan, Evaluated, stored_columns},
};
use crate::ExecError;

/// Strings are stored as codes if the first rows have at most so many distinct ones.
const SAMPLE_DISTINCT: usize = 64;
/// Rows of an earlier generation that are turned at once.
const TURNED_ROWS: usize = 1024;

/// The plans of one aggregation, each wider than the one before.
pub(crate) struct Generations {
    spec: AggregateSpec,
    /// What is known of the keys.
    keys: Vec<Domain>,
    state: Mutex<State>,
}

struct State {
    latest: Arc<AggregatePlan>,
    /// The first rows have been looked at.
    sampled: bool,
}

impl Generations {
    /// Plans for `spec` over columns of `domains`.
    pub(crate) fn new(spec: AggregateSpec, domains: &[Domain]) -> Result<Self, ExecError> {
        let narrowings = stored_columns(&spec)
            .map(|(expr, data_type, filtered)| {
                let domain = expr.domain(domains);
                // Without keys there is a row before there are values.
                let domain = if spec.keys.is_empty() { Domain::UNKNOWN } else { domain };
                Narrowing::new(data_type.clone(), Domain { nulls: domain.nulls || filtered, ..domain })
            })
            .collect::<Result<_, _>>()?;
        let latest = Arc::new(AggregatePlan::new(&spec, narrowings)?);
        let sampled = spec.keys.is_empty();
        let keys = spec.keys.iter().map(|key| key.expr.domain(domains)).collect();
        Ok(Self { spec, keys, state: Mutex::new(State { latest, sampled }) })
    }

    /// What is known of the keys, which come first in the output.
    pub(crate) fn key_domains(&self) -> Vec<Domain> {
        self.keys.clone()
    }

    /// The widest plan so far.
    pub(crate) fn latest(&self) -> Arc<AggregatePlan> {
        Arc::clone(&self.state.lock().latest)
    }

    /// The plan for a lane that has its first rows, evaluated; of the lanes, the first decides by them which strings to code.
    pub(crate) fn begin(&self, first: &Evaluated) -> Result<Arc<AggregatePlan>, ExecError> {
        let mut state = self.state.lock();
        if !state.sampled {
            state.sampled = true;
            let plan = &state.latest;
            let narrowings: Vec<Narrowing> = plan
                .narrowings
                .iter()
                .zip(plan.values(first))
                .map(|(narrowing, array)| match narrowing.coded() {
                    Some(coded) if has_few_values(array) => coded,
                    _ => narrowing.clone(),
                })
                .collect();
            if narrowings.iter().zip(&plan.narrowings).any(|(a, b)| !a.is_same(b)) {
                state.latest = Arc::new(AggregatePlan::new(&self.spec, narrowings)?);
            }
        }
        Ok(Arc::clone(&state.latest))
    }

    /// A plan that fits where `plan` had `misfits`: columns and why.
    pub(crate) fn widen(
        &self,
        plan: &AggregatePlan,
        misfits: &[(usize, Misfit)],
    ) -> Result<Arc<AggregatePlan>, ExecError> {
        let mut state = self.state.lock();
        let mut narrowings = state.latest.narrowings.clone();
        for &(column, misfit) in misfits {
            let known = &mut narrowings[column];
            // Another lane may have had the column widened already.
            let still = match misfit {
                Misfit::Null => !known.nullable(),
                Misfit::Value => known.stored_type() == plan.narrowings[column].stored_type(),
            };
            if still {
                *known = known.widened(misfit);
            }
        }
        if narrowings.iter().zip(&state.latest.narrowings).any(|(a, b)| !a.is_same(b)) {
            state.latest = Arc::new(AggregatePlan::new(&self.spec, narrowings)?);
        }
        Ok(Arc::clone(&state.latest))
    }
}

/// Whether `array` of strings has few distinct values, judged by its first rows.
fn has_few_values(array: &ArrayRef) -> bool {
    let rows = array.len().min(ogee_vector::CHUNK_CAPACITY);
    let mut distinct: HashSet<&[u8]> = HashSet::new();
    for row in (0..rows).filter(|&row| array.is_valid(row)) {
        distinct.insert(match array.data_type() {
            DataType::Utf8View => array.as_string_view().value(row).as_bytes(),
            _ => array.as_binary_view().value(row),
        });
        if distinct.len() > SAMPLE_DISTINCT {
            return false;
        }
    }
    // Few rows say little: most of them would have to be alike.
    distinct.len() <= 8 || distinct.len() * 8 <= rows
}

/// Appends the rows of `partition`, made by plan `old`, to `target` as rows of plan `new`; its pages are destroyed on the way.
pub(crate) fn turn(
    old: &AggregatePlan,
    new: &AggregatePlan,
    mut partition: RowPartition,
    target: &mut PartitionedRows,
) -> Result<(), ExecError> {
    let mut stage = RowStage::default();
    let (mut from, mut to) = (Vec::new(), Vec::new());
    from.resize_with(old.narrowings.len(), CodeCache::default);
    to.resize_with(new.narrowings.len(), CodeCache::default);
    let mut addresses = Vec::new();
    let state_bytes = new.layout.state_bytes();
    while partition.num_pages() > 0 {
        let page = partition.pin_page(partition.num_pages() - 1)?;
        for first in (0..page.len()).step_by(TURNED_ROWS) {
            let rows: Vec<*const u8> =
                (first..page.len().min(first + TURNED_ROWS)).map(|row| page.row(row).cast_const()).collect();
            stage.reset(&new.layout, rows.len());
            // SAFETY: here and below, the rows are of the old plan's layout, on a page that is pinned with its strings.
            stage.write_stored_hashes(rows.iter().map(|&row| unsafe { ogee_row::row_hash(row) }));
            // Long strings of staged rows point into these.
            let mut stored = Vec::with_capacity(new.narrowings.len());
            for column in 0..new.narrowings.len() {
                // SAFETY: as above.
                let array = unsafe { old.encoded_column(column, &rows, &mut from[column])? };
                let narrow = new.narrowings[column].narrow(&array, &mut to[column]);
                stored.push(narrow.expect("each generation has room for all values of those before it"));
                stage.write_column(&new.layout, column, &stored[column], None);
            }
            for (row, &source) in rows.iter().enumerate() {
                // SAFETY: as above; states are the same bytes in both layouts.
                unsafe {
                    let place = stage.row_mut(row).add(new.layout.state_offset());
                    std::ptr::copy_nonoverlapping(source.add(old.layout.state_offset()), place, state_bytes);
                }
            }
            // SAFETY: staged just now, with pointers into arrays that are alive.
            unsafe { target.append((0..rows.len()).map(|row| stage.row(row)), &mut addresses)? };
        }
        drop(page);
        partition.pop_page();
    }
    Ok(())
}
