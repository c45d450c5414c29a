//! Guesses about the stored form of keys and columns, and what happens when one was wrong.
//!
//! Rows are as narrow as statistics allow, and strings of which the first rows have few distinct ones are codes: what a row costs to append, to
//! spill and to read again goes by its bytes. A lane that meets a value which does not fit has a wider plan made and goes on with that; what it has
//! is runs of an earlier plan, which are written anew in the end. So no result depends on a guess.

use std::{collections::HashSet, sync::Arc};

use arrow_array::ArrayRef;
use arrow_schema::{DataType, IntervalUnit, SchemaRef};
use ogee_memory::BufferManager;
use ogee_row::{Narrowing, RowStage};
use ogee_vector::{Chunk, Domain, HashSeed, PhysicalType};
use parking_lot::Mutex;

use super::{
    Cancelled, SortKey, SortSpec,
    merge::Merge,
    plan::{Codes, Forms, Guess, KeyScratch, Misfits, SortPlan},
    run::{Run, RunWriter},
};
use crate::{ExecError, Expr, aggregate::Coding};

/// Rows that are written anew at a time.
const TURNED_ROWS: usize = 2048;

/// The plans of one sort, each wider than the one before.
pub(crate) struct SortPlans {
    schema: SchemaRef,
    keys: Vec<SortKey>,
    state: Mutex<State>,
}

struct State {
    latest: Arc<SortPlan>,
    /// The first rows have been looked at, or nothing depends on them.
    sampled: bool,
}

/// Whether the distances of values of `data_type` within `domain` have the order of the values.
fn orders(data_type: &DataType, domain: Domain) -> bool {
    match data_type {
        // Two numbers, of which the second orders as the first does not.
        DataType::Interval(IntervalUnit::DayTime) => false,
        // Those of more than 63 bits look negative.
        DataType::UInt64 => domain.integers.is_none_or(|(low, high)| (low < 0) == (high < 0)),
        _ => true,
    }
}

impl SortPlans {
    /// One plan for all rows, with room for every value.
    pub(crate) fn fixed(plan: Arc<SortPlan>) -> Self {
        let schema = Arc::clone(&plan.schema);
        Self { schema, keys: Vec::new(), state: Mutex::new(State { latest: plan, sampled: true }) }
    }

    /// Plans for `spec` over columns of `domains`.
    pub(super) fn new(spec: SortSpec, domains: &[Domain]) -> Result<Self, ExecError> {
        let SortSpec { keys, schema, .. } = spec;
        // Keys of rows that are written anew are computed again.
        if keys.iter().any(|key| key.expr.is_volatile()) {
            return Ok(Self::fixed(Arc::new(SortPlan::new(schema, &keys, Vec::new())?)));
        }
        let form = |data_type: &DataType, domain: Domain| match PhysicalType::of(data_type)? {
            PhysicalType::Null | PhysicalType::Nested => Ok(Narrowing::plain(data_type.clone())),
            _ => Narrowing::new(data_type.clone(), domain),
        };
        let of_key = |key: &SortKey| {
            let domain = key.expr.domain(domains);
            let integers = domain.integers.filter(|_| orders(&key.data_type, domain));
            form(&key.data_type, Domain { integers, ..domain })
        };
        let columns =
            schema.fields().iter().enumerate().map(|(column, field)| {
                form(field.data_type(), domains.get(column).copied().unwrap_or(Domain::UNKNOWN))
            });
        let forms = Forms {
            keys: keys.iter().map(of_key).collect::<Result<_, _>>()?,
            columns: columns.collect::<Result<_, _>>()?,
        };
        let latest = Arc::new(SortPlan::with_forms(Arc::clone(&schema), &keys, Vec::new(), forms)?);
        Ok(Self { schema, keys, state: Mutex::new(State { latest, sampled: false }) })
    }

    /// The columns that go in, and come out.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The widest plan so far.
    pub(super) fn latest(&self) -> Arc<SortPlan> {
        Arc::clone(&self.state.lock().latest)
    }

    fn plan(&self, forms: Forms) -> Result<Arc<SortPlan>, ExecError> {
        Ok(Arc::new(SortPlan::with_forms(Arc::clone(&self.schema), &self.keys, Vec::new(), forms)?))
    }

    /// The plan for the rows of `chunk`; by the first chunk of all is decided which strings to code.
    pub(super) fn plan_for(&self, chunk: &Chunk) -> Result<Arc<SortPlan>, ExecError> {
        let mut state = self.state.lock();
        if !state.sampled {
            state.sampled = true;
            let mut forms = state.latest.forms().clone();
            let of_key = |key: &SortKey| match key.expr {
                Expr::Column(column) => Some(column),
                _ => None,
            };
            let keys: HashSet<usize> = self.keys.iter().filter_map(of_key).collect();
            let (mut coding, mut changed) = (Coding::default(), false);
            for (column, form) in forms.columns.iter_mut().enumerate() {
                // Keys are told apart by the strings themselves.
                if !keys.contains(&column)
                    && let Some(coded) = coding.coded(form, chunk.column(column))?
                {
                    *form = coded;
                    changed = true;
                }
            }
            if changed {
                state.latest = self.plan(forms)?;
            }
        }
        Ok(Arc::clone(&state.latest))
    }

    /// A plan that fits where `plan` had `misfits`.
    pub(super) fn widen(&self, plan: &SortPlan, misfits: &Misfits) -> Result<Arc<SortPlan>, ExecError> {
        let mut state = self.state.lock();
        let mut forms = state.latest.forms().clone();
        let mut changed = false;
        for &(guess, misfit) in misfits {
            let (known, before) = match guess {
                Guess::Key(key) => (&mut forms.keys[key], &plan.forms().keys[key]),
                Guess::Column(column) => (&mut forms.columns[column], &plan.forms().columns[column]),
            };
            // Another lane may have had it widened already.
            if known.is_same(before) {
                *known = known.widened(misfit);
                changed = true;
            }
        }
        if changed {
            state.latest = self.plan(forms)?;
        }
        Ok(Arc::clone(&state.latest))
    }
}

/// `run`, of rows of plan `old`, as a run of plan `new`, which has room for all of their values.
pub(super) fn turned(
    old: &Arc<SortPlan>,
    new: &Arc<SortPlan>,
    memory: &Arc<BufferManager>,
    seed: HashSeed,
    run: Run,
    cancelled: Cancelled<'_>,
) -> Result<Run, ExecError> {
    let mut merge = Merge::new(old, memory, &[run].into(), None, None)?;
    let mut writer = RunWriter::new(new, memory);
    let mut scratch = KeyScratch::default();
    let mut stage = RowStage::default();
    let mut codes = Codes::default();
    let (mut rows, mut staged) = (Vec::new(), Vec::new());
    loop {
        if cancelled() {
            return Err(ExecError::Cancelled);
        }
        merge.next_rows(TURNED_ROWS, &mut rows)?;
        if rows.is_empty() {
            return Ok(writer.finish());
        }
        // SAFETY: the merge keeps the rows pinned until it is asked for more.
        let chunk = unsafe { old.gather(&rows, &mut codes)? };
        new.evaluate(&chunk, seed, &mut scratch)?;
        let _held: Vec<ArrayRef> = new.stage(&chunk, &mut scratch, &mut stage)?;
        staged.clear();
        staged.extend((0..chunk.len()).map(|row| stage.row(row)));
        // SAFETY: staged rows, whose strings are in arrays that are held; the merge gives them in order, which is the same for both plans.
        unsafe { writer.append(&staged)? };
    }
}
