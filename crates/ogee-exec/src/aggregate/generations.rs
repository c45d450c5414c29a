//! Guesses about the stored form of columns, and what happens when one was wrong.
//!
//! A plan is made with columns as narrow as statistics and the first rows suggest. A lane that meets a value which does not fit
//! has a wider plan made, puts what it has aside as rows of an earlier *generation*, and goes on. Rows of earlier generations have the
//! same hashes, so they are in the right partitions; the second phase turns them into rows of the last plan when it takes
//! their partition. So no result depends on a guess, and only wrong guesses cost anything.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arrow_array::{Array, ArrayRef, cast::AsArray};
use arrow_schema::DataType;
use ogee_row::{CodeCache, DICTIONARIES_MAX, Misfit, Narrowing, PartitionedRows, RowPartition, RowStage};
use ogee_vector::{ColumnRef, Domain};
use parking_lot::Mutex;

use super::{
    AggregateCall, AggregateSpec,
    accumulators::SHORT_ROWS,
    kernel::Targets,
    plan::{AggregatePlan, Evaluated, Forms, Guess, may_be_short, state_calls, stored_columns},
};
use crate::{
    ExecError,
    cancel::{Cancelled, obey},
};

/// Strings are stored as codes if the first rows have at most so many distinct ones.
const SAMPLE_DISTINCT: usize = 192;
/// Rows of an earlier generation that are turned at once.
const TURNED_ROWS: usize = 1024;

/// The plans of one aggregation, each wider than the one before.
pub(crate) struct Generations {
    spec: AggregateSpec,
    /// What is known of the keys.
    keys: Vec<Domain>,
    /// Rows that all lanes have begun to aggregate.
    rows: AtomicU64,
    state: Mutex<State>,
}

struct State {
    latest: Arc<AggregatePlan>,
    forms: Forms,
    /// The first rows have been looked at.
    sampled: bool,
}

impl Generations {
    /// Plans for `spec` over columns of `domains`.
    pub(crate) fn new(spec: AggregateSpec, domains: &[Domain]) -> Result<Self, ExecError> {
        let columns = stored_columns(&spec)
            .map(|(expr, data_type, filtered)| {
                let domain = expr.domain(domains);
                // Without keys there is a row before there are values.
                let domain = if spec.keys.is_empty() { Domain::UNKNOWN } else { domain };
                Narrowing::new(data_type.clone(), Domain { nulls: domain.nulls || filtered, ..domain })
            })
            .collect::<Result<_, _>>()?;
        let domain_of = |call: &AggregateCall| call.args.first().map_or(Domain::UNKNOWN, |arg| arg.domain(domains));
        let short = state_calls(&spec).map(|call| may_be_short(call, &spec, domain_of(call))).collect();
        let forms = Forms { columns, short };
        let latest = Arc::new(AggregatePlan::new(&spec, forms.clone())?);
        let sampled = spec.keys.is_empty();
        let keys = spec.keys.iter().map(|key| key.expr.domain(domains)).collect();
        Ok(Self { spec, keys, rows: AtomicU64::new(0), state: Mutex::new(State { latest, forms, sampled }) })
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
            let mut coding = Coding::default();
            let columns: Vec<Narrowing> = plan
                .narrowings
                .iter()
                .zip(plan.values(first))
                .map(|(form, column)| Ok(coding.coded(form, column.as_ref())?.unwrap_or_else(|| form.clone())))
                .collect::<Result<_, ExecError>>()?;
            if columns.iter().zip(&plan.narrowings).any(|(a, b)| !a.is_same(b)) {
                let forms = Forms { columns, ..state.forms.clone() };
                state.latest = Arc::new(AggregatePlan::new(&self.spec, forms.clone())?);
                state.forms = forms;
            }
        }
        Ok(Arc::clone(&state.latest))
    }

    /// Counts `rows` more rows; whether short states may still take them.
    pub(crate) fn count(&self, rows: usize) -> bool {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed) + rows as u64 <= SHORT_ROWS
    }

    /// A plan that fits where `plan` had `misfits`: guesses and why they were wrong.
    pub(crate) fn widen(
        &self,
        plan: &AggregatePlan,
        misfits: &[(Guess, Misfit)],
    ) -> Result<Arc<AggregatePlan>, ExecError> {
        let mut state = self.state.lock();
        let mut forms = state.forms.clone();
        let mut changed = false;
        for &(guess, misfit) in misfits {
            // Another lane may have had it widened already.
            match guess {
                Guess::State(kernel) => changed |= std::mem::take(&mut forms.short[kernel]),
                Guess::Column(column) => {
                    let known = &mut forms.columns[column];
                    let still = match misfit {
                        Misfit::Null => !known.nullable(),
                        Misfit::Value => known.stored_type() == plan.narrowings[column].stored_type(),
                    };
                    if still {
                        *known = known.widened(misfit);
                        changed = true;
                    }
                }
            }
        }
        if changed {
            state.latest = Arc::new(AggregatePlan::new(&self.spec, forms.clone())?);
            state.forms = forms;
        }
        Ok(Arc::clone(&state.latest))
    }
}

/// Which strings of a layout are stored as codes, column after column: of each there is a dictionary, and of these not too many.
#[derive(Default)]
pub(crate) struct Coding {
    dictionaries: usize,
}

impl Coding {
    /// `form` as codes, if it is of strings of which the first rows of `column` have few.
    pub(crate) fn coded(&mut self, form: &Narrowing, column: ColumnRef<'_>) -> Result<Option<Narrowing>, ExecError> {
        if self.dictionaries == DICTIONARIES_MAX {
            return Ok(None);
        }
        let Some(coded) = form.coded() else { return Ok(None) };
        if !has_few_values(&column.flatten()?) {
            return Ok(None);
        }
        self.dictionaries += 1;
        Ok(Some(coded))
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
    cancelled: Cancelled<'_>,
) -> Result<(), ExecError> {
    let mut stage = RowStage::default();
    let (mut from, mut to) = (Vec::new(), Vec::new());
    from.resize_with(old.narrowings.len(), CodeCache::default);
    to.resize_with(new.narrowings.len(), CodeCache::default);
    while partition.num_pages() > 0 {
        obey(cancelled)?;
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
                let column_ref = ColumnRef { array: &array, selection: None };
                let narrow = new.narrowings[column].narrow(column_ref, &mut to[column])?;
                stored.push(narrow.expect("each generation has room for all values of those before it"));
                stage.write_column(&new.layout, column, &stored[column], None);
            }
            let targets: Vec<u64> = (0..rows.len()).map(|row| stage.row_mut(row) as u64).collect();
            for (from, to) in old.kernels.iter().zip(&new.kernels) {
                // SAFETY: as above, for the rows that are read and those staged; a state of the same kind is the same bytes.
                unsafe {
                    if from.short == to.short {
                        for (&source, &target) in rows.iter().zip(&targets) {
                            let place = (target as usize as *mut u8).add(to.state.start);
                            std::ptr::copy_nonoverlapping(source.add(from.state.start), place, to.state.len());
                        }
                    } else {
                        to.kernel.merge(&from.kernel.states(&rows)?, Targets::Each(&targets))?;
                    }
                }
            }
            // SAFETY: staged just now, with pointers into arrays that are alive.
            unsafe { target.scatter((0..rows.len()).map(|row| stage.row(row)))? };
        }
        drop(page);
        partition.pop_page();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use arrow_array::StringViewArray;
    use arrow_schema::{Field, Schema};
    use ogee_vector::Chunk;

    use super::*;
    use crate::{
        Expr,
        aggregate::{AggregateFunction, AggregateMode, GroupKey},
    };

    #[test]
    fn states_are_short_for_so_many_rows_only() {
        let field = |name: &str| Field::new(name, DataType::Int64, true);
        let spec = AggregateSpec {
            keys: vec![GroupKey { expr: Expr::Column(0), data_type: DataType::Int64 }],
            grouping_sets: None,
            aggregates: vec![AggregateCall {
                function: AggregateFunction::Sum,
                args: vec![Expr::Column(1)],
                arg_types: vec![DataType::Int64],
                filter: None,
                distinct: false,
                output: DataType::Int64,
            }],
            collected: None,
            mode: AggregateMode::Single,
            schema: Arc::new(Schema::new(vec![field("key"), field("sum")])),
        };
        let known = Domain { nulls: false, integers: Some((-1000, 1000)) };
        let generations = Generations::new(spec, &[Domain::UNKNOWN, known]).unwrap();
        let short = generations.latest();
        let guesses: Vec<_> = short.short_states().map(|guess| (guess, Misfit::Value)).collect();
        assert_eq!(guesses.len(), 1);
        assert!(generations.count(u32::MAX as usize));
        assert!(!generations.count(1));
        let wide = generations.widen(&short, &guesses).unwrap();
        assert_eq!(wide.short_states().count(), 0);
        assert!(wide.layout.width() > short.layout.width());
        assert!(
            Arc::ptr_eq(&wide, &generations.widen(&short, &guesses).unwrap()),
            "another lane finds it wide already"
        );
    }

    #[test]
    fn of_many_columns_of_few_texts_only_some_are_codes() {
        const COLUMNS: usize = DICTIONARIES_MAX + 8;
        let key = |column| GroupKey { expr: Expr::Column(column), data_type: DataType::Utf8View };
        let fields: Vec<Field> =
            (0..COLUMNS).map(|column| Field::new(format!("c{column}"), DataType::Utf8View, true)).collect();
        let spec = AggregateSpec {
            keys: (0..COLUMNS).map(key).collect(),
            grouping_sets: None,
            aggregates: Vec::new(),
            collected: None,
            mode: AggregateMode::Single,
            schema: Arc::new(Schema::new(fields)),
        };
        let generations = Generations::new(spec, &vec![Domain::UNKNOWN; COLUMNS]).unwrap();
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["one"; 100]));
        let chunk = Chunk::new(vec![texts; COLUMNS], 100);
        let mut evaluated = Evaluated::default();
        generations.latest().evaluate(&chunk, &mut evaluated).unwrap();
        let plan = generations.begin(&evaluated).unwrap();
        assert_eq!(plan.narrowings.iter().filter(|form| form.dictionary().is_some()).count(), DICTIONARIES_MAX);
    }
}
