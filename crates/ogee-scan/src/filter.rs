//! Predicates of those who read the scan, and the keys that joins have for its rows, applied while it decodes.
//!
//! Conjuncts are applied one after the other, each to the rows that the ones before left, and so are the keys of joins. Those that cannot fail come
//! first, in the order that leaves out most rows for their cost, as it was seen so far; the others keep their order, so that none meets a row which
//! the one before would have kept from it. Where there are such, keys of joins come after them: what fails does so whether keys are known or not.
//! Of a column that comes as codes of a dictionary, each value is looked at once, and then its codes are looked up.
//!
//! Not here: which columns are decoded when (`batch`).

use std::{sync::Arc, time::Instant};

use arrow_array::{ArrayRef, new_null_array};
use arrow_schema::DataType;
use ogee_exec::{ExecError, Expr, Restriction, RestrictionLocal};
use ogee_memory::BufferManager;
use ogee_vector::{Chunk, Column, keep_rows};

/// Batches after which the order is looked at again; before that it is when their number has doubled.
const ORDER_BATCHES: usize = 16;

/// A part of a predicate, over columns of the scan.
struct Conjunct {
    expr: Expr,
    columns: Box<[usize]>,
    can_fail: bool,
}

/// A predicate, in parts.
#[derive(Default)]
pub(crate) struct ScanFilter {
    /// Those that cannot fail first.
    conjuncts: Box<[Conjunct]>,
}

impl ScanFilter {
    /// The parts of `predicate`; comparisons of one column are one.
    pub(crate) fn new(predicate: &Expr) -> Self {
        let mut parts = Vec::new();
        split(predicate, &mut parts);
        let mut conjuncts: Vec<Conjunct> = Vec::new();
        for part in parts {
            let can_fail = part.can_fail();
            let mut columns = Vec::new();
            part.columns(&mut columns);
            columns.sort_unstable();
            columns.dedup();
            let same = conjuncts.iter_mut().find(|other| !can_fail && !other.can_fail && *other.columns == *columns);
            match same {
                Some(Conjunct { expr: Expr::And(exprs), .. }) => exprs.push(part.clone()),
                Some(Conjunct { expr, .. }) => *expr = Expr::And(vec![expr.clone(), part.clone()]),
                None => conjuncts.push(Conjunct { expr: part.clone(), columns: columns.into(), can_fail }),
            }
        }
        // Stable.
        conjuncts.sort_by_key(|conjunct| conjunct.can_fail);
        Self { conjuncts: conjuncts.into() }
    }

    /// Whether a part of the predicate reads nothing but `column`.
    pub(crate) fn probes(&self, column: usize) -> bool {
        self.conjuncts.iter().any(|conjunct| *conjunct.columns == [column])
    }
}

fn split<'a>(expr: &'a Expr, parts: &mut Vec<&'a Expr>) {
    match expr {
        Expr::And(exprs) => exprs.iter().for_each(|expr| split(expr, parts)),
        _ => parts.push(expr),
    }
}

/// What a conjunct says of the values of a dictionary.
struct Lookup {
    values: ArrayRef,
    /// Rows that were compared before it paid to look at the values.
    rows: usize,
    /// Of each value whether it passes; `None` as long as that is not known.
    passes: Option<Box<[bool]>>,
}

/// What a lane has seen of a step: of a conjunct, or of the keys of a join.
#[derive(Default)]
struct Seen {
    rows: u64,
    passed: u64,
    nanoseconds: u64,
    lookup: Option<Lookup>,
}

impl Seen {
    /// Rows that it leaves out for its time, as far as that is known.
    fn worth(&self) -> f64 {
        (self.rows - self.passed) as f64 / self.nanoseconds.max(1) as f64
    }
}

/// The columns of the scan that are keys of a join, and which of their values matter.
pub(crate) struct JoinKeys {
    pub(crate) columns: Box<[usize]>,
    pub(crate) restriction: Arc<Restriction>,
}

/// What a lane asks of the keys of a join.
struct LaneKeys {
    columns: Box<[usize]>,
    restriction: RestrictionLocal,
}

/// A lane's use of a filter, and of the keys of joins. Its steps are the conjuncts, by their numbers, and then the joins.
pub(crate) struct LaneFilter {
    memory: Arc<BufferManager>,
    filter: Arc<ScanFilter>,
    keys: Box<[LaneKeys]>,
    order: Box<[usize]>,
    /// So many of the steps at the beginning of the order may change places.
    movable: usize,
    seen: Box<[Seen]>,
    /// Place in the order of the next step for the batch at hand.
    next: usize,
    started: Option<Instant>,
    batches: usize,
    keep: Vec<u32>,
}

impl LaneFilter {
    /// For a lane that begins now: what is to be known about keys is known.
    pub(crate) fn new(memory: &Arc<BufferManager>, filter: Arc<ScanFilter>, keys: &[JoinKeys]) -> Self {
        let keys = keys.iter().filter_map(|JoinKeys { columns, restriction }| {
            Some(LaneKeys { columns: columns.clone(), restriction: restriction.local()? })
        });
        let keys: Box<[LaneKeys]> = keys.collect();
        let conjuncts = filter.conjuncts.len();
        let steps = conjuncts + keys.len();
        let safe = filter.conjuncts.partition_point(|conjunct| !conjunct.can_fail);
        Self {
            memory: Arc::clone(memory),
            keys,
            filter,
            order: (0..steps).collect(),
            movable: if safe == conjuncts { steps } else { safe },
            seen: (0..steps).map(|_| Seen::default()).collect(),
            next: 0,
            started: None,
            batches: 0,
            keep: Vec::new(),
        }
    }

    /// A row group ends, and its dictionaries with it.
    pub(crate) fn end_row_group(&mut self) {
        self.seen.iter_mut().for_each(|seen| seen.lookup = None);
    }

    /// Begins a batch.
    pub(crate) fn begin(&mut self) {
        self.next = 0;
        self.batches += 1;
        if self.batches.is_multiple_of(ORDER_BATCHES) || self.batches < ORDER_BATCHES && self.batches.is_power_of_two()
        {
            let worth = |&step: &usize| self.seen[step].worth();
            self.order[..self.movable].sort_by(|a, b| worth(b).total_cmp(&worth(a)));
        }
    }

    /// The next step to take.
    pub(crate) fn next(&mut self) -> Option<usize> {
        let step = self.order.get(self.next).copied()?;
        self.next += 1;
        self.started = Some(Instant::now());
        Some(step)
    }

    /// The columns that a step reads.
    pub(crate) fn columns(&self, step: usize) -> &[usize] {
        match self.filter.conjuncts.get(step) {
            Some(conjunct) => &conjunct.columns,
            None => &self.keys[step - self.filter.conjuncts.len()].columns,
        }
    }

    /// Whether a join has no keys at all.
    pub(crate) fn wants_nothing(&self) -> bool {
        self.keys.iter().any(|keys| keys.restriction.is_empty())
    }

    /// Takes a step with `rows` rows, of which its columns are there: those that pass, unless all do. `is_coded`: whether a column comes as codes.
    pub(crate) fn select(
        &mut self,
        step: usize,
        columns: &[Option<Column>],
        rows: usize,
        is_coded: impl Fn(usize) -> bool,
    ) -> Result<Option<&[u32]>, ExecError> {
        let asked = match step.checked_sub(self.filter.conjuncts.len()) {
            None => self.select_by_conjunct(step, columns, rows, is_coded).map(|()| true)?,
            Some(join) => self.select_by_keys(join, columns, rows)?,
        };
        if !asked {
            return Ok(None);
        }
        let (seen, keep) = (&mut self.seen[step], &self.keep);
        seen.rows += rows as u64;
        seen.passed += keep.len() as u64;
        seen.nanoseconds += self.started.map_or(0, |started| started.elapsed().as_nanos() as u64);
        Ok((keep.len() < rows).then_some(&keep[..]))
    }

    /// The rows that pass conjunct `conjunct` into `keep`.
    fn select_by_conjunct(
        &mut self,
        conjunct: usize,
        columns: &[Option<Column>],
        rows: usize,
        is_coded: impl Fn(usize) -> bool,
    ) -> Result<(), ExecError> {
        let Conjunct { expr, columns: reads, .. } = &self.filter.conjuncts[conjunct];
        let (seen, keep) = (&mut self.seen[conjunct], &mut self.keep);
        let coded = match **reads {
            [column] if is_coded(column) => columns[column].as_ref(),
            _ => None,
        };
        let passes = coded.and_then(|column| seen.lookup(&self.memory, expr, reads[0], column, rows));
        match (passes, coded.and_then(|column| column.selection.as_ref())) {
            (Some(passes), Some(codes)) => {
                let codes = codes.positions();
                keep_rows(rows, keep, |row| passes[codes[row] as usize]);
            }
            _ => expr.select_whole(&self.memory, &chunk(columns, rows), keep)?,
        }
        Ok(())
    }

    /// The rows that may have a mate in join `join` into `keep`. False if it was not looked, since that does not pay.
    fn select_by_keys(&mut self, join: usize, columns: &[Option<Column>], rows: usize) -> Result<bool, ExecError> {
        let LaneKeys { columns: keys, restriction } = &mut self.keys[join];
        let values: Vec<Column> =
            keys.iter().map(|&key| columns[key].clone().expect("columns of a step are decoded first")).collect();
        restriction.select(&values, rows, &mut self.keep)
    }
}

impl Seen {
    /// Which values of the dictionary of `column` pass, once as many rows as it has values have been seen.
    fn lookup(
        &mut self,
        memory: &Arc<BufferManager>,
        expr: &Expr,
        index: usize,
        column: &Column,
        rows: usize,
    ) -> Option<&[bool]> {
        let values = &column.array;
        let lookup = self.lookup.take().filter(|lookup| Arc::ptr_eq(&lookup.values, values));
        let lookup = self.lookup.insert(lookup.unwrap_or_else(|| Lookup {
            values: ArrayRef::clone(values),
            rows: 0,
            passes: None,
        }));
        if lookup.passes.is_none() && lookup.rows != usize::MAX {
            lookup.rows += rows;
            if lookup.rows >= values.len() {
                let mut columns = vec![None; index];
                columns.push(Some(Column::flat(ArrayRef::clone(values))));
                let mut passing = Vec::new();
                match expr.select_whole(memory, &chunk(&columns, values.len()), &mut passing) {
                    Ok(()) => {
                        let mut passes = vec![false; values.len()];
                        passing.iter().for_each(|&value| passes[value as usize] = true);
                        lookup.passes = Some(passes.into());
                    }
                    // A value of the dictionary that no row has may be the reason. The rows will tell.
                    Err(_) => lookup.rows = usize::MAX,
                }
            }
        }
        lookup.passes.as_deref()
    }
}

/// A chunk of the columns that are there; in the place of the others, which nobody looks at, there is nothing.
fn chunk(columns: &[Option<Column>], rows: usize) -> Chunk {
    let nothing = new_null_array(&DataType::Null, rows);
    let columns = columns.iter().map(|c| c.clone().unwrap_or_else(|| Column::flat(ArrayRef::clone(&nothing))));
    Chunk::from_columns(columns.collect(), rows)
}
