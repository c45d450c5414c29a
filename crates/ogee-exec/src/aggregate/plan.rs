//! A specification bound to a row layout: which expression feeds which kernel, and where in the row.

use std::{ops::Range, sync::Arc};

use arrow_array::{ArrayRef, BooleanArray, types};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, SchemaRef};
use ogee_row::{
    CodeCache, Misfit, Narrowing, NestedCodec, RowLayout, RowLayoutBuilder, all_fit_32_bits, gather_column,
};
use ogee_vector::{Chunk, Column, Domain, PhysicalType, VectorError};

use super::{
    AggregateCall, AggregateFunction as F, AggregateMode, AggregateSpec, Collected, RegrKind,
    accumulators::{
        AvgDecimal, AvgInteger, BITS_AND, BITS_OR, BITS_XOR, Bits, SHORT_VALUES, STDDEV_POPULATION, STDDEV_SAMPLE,
        SUMMED_INTEGERS, ShortAvg, ShortSum, ShortSumFloat, SumDecimal, SumFloat, SumInteger, VAR_POPULATION,
        VAR_SAMPLE, Variance, summed_decimals,
    },
    arg_extremum::{ArgExtremum, supports_pair},
    counts::{BooleanKernel, CountKernel},
    extremum::{Extremum, Keep, is_ordered},
    kernel::{Accumulator, Kernel, StateKernel},
    pairs::PairKernel,
};
use crate::{ExecError, Expr, expr::null_unless};

/// A value that kernels read, computed once a chunk: an expression, NULL where the filter is not true.
struct Input {
    /// `None`: no value, just rows (for `count(*)`).
    expr: Option<Expr>,
    filter: Option<usize>,
    /// Nested values are encoded to bytes.
    codec: Option<NestedCodec>,
}

/// A kernel and the inputs it reads.
pub(crate) struct BoundKernel {
    pub(crate) kernel: Box<dyn Kernel>,
    /// Offset of the state in the row, and its bytes.
    pub(crate) state: Range<usize>,
    /// The state is the short one.
    pub(crate) short: bool,
    short_values: ShortValues,
    /// The inputs are states, not values.
    pub(crate) merges: bool,
    pub(crate) inputs: Vec<usize>,
}

/// Which part of the row an output column is made from.
enum Output {
    Column(usize),
    Kernel(usize),
}

/// A hash aggregation, bound to a row layout.
pub(crate) struct AggregatePlan {
    pub(crate) layout: Arc<RowLayout>,
    /// How the layout's columns are stored.
    pub(crate) narrowings: Vec<Narrowing>,
    pub(crate) kernels: Vec<BoundKernel>,
    pub(crate) extrema: Vec<Extremum>,
    pub(crate) arg_extrema: Vec<ArgExtremum>,
    pub(crate) schema: SchemaRef,
    pub(crate) mode: AggregateMode,
    keys: Vec<(Expr, Option<NestedCodec>)>,
    /// Codecs of the layout's columns.
    codecs: Vec<Option<NestedCodec>>,
    /// What payload columns are made of, by number of the input.
    payload: Vec<usize>,
    /// Functions over the payload of whole groups; rows are then neither looked up nor combined.
    pub(crate) collected: Option<Collected>,
    inputs: Vec<Input>,
    filters: Vec<Expr>,
    outputs: Vec<Output>,
}

/// The columns of a chunk that the aggregation reads. All but strings are flat: those may come with the values of a dictionary.
#[derive(Default)]
pub(crate) struct Evaluated {
    pub(crate) keys: Vec<Column>,
    pub(crate) inputs: Vec<Column>,
    /// Keys and extrema as they are stored: the columns of the layout.
    pub(crate) stored: Vec<ArrayRef>,
}

/// What a guess was about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Guess {
    /// The form of a stored column.
    Column(usize),
    /// That a state may be short.
    State(usize),
}

/// How values and states are stored: guesses, of which each later plan of an aggregation has fewer.
#[derive(Clone)]
pub(crate) struct Forms {
    /// For the [`stored_columns`].
    pub(crate) columns: Vec<Narrowing>,
    /// Whether the states of the other calls, in their order, are short.
    pub(crate) short: Vec<bool>,
}

/// Calls that keep a state and not a value.
pub(crate) fn state_calls(spec: &AggregateSpec) -> impl Iterator<Item = &AggregateCall> {
    spec.aggregates.iter().filter(|call| kept_values(call).is_empty())
}

/// What must hold of the values of a short state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShortValues {
    /// Nothing: rows are counted.
    Any,
    /// There are no NULLs among them: floats are added up.
    Valid,
    /// Also they are within [`SHORT_VALUES`]: integers are added up.
    Within,
}

/// Which values a short state of `call` takes.
fn short_values(call: &AggregateCall) -> ShortValues {
    match call.function {
        F::CountStar | F::Count => ShortValues::Any,
        F::Sum if call.output == DataType::Float64 => ShortValues::Valid,
        _ => ShortValues::Within,
    }
}

/// Whether `call` has a short state for values of `domain`: a count in 32 bits, a sum of floats that are there, a sum or average of integers
/// in 64 bits that cannot overflow.
pub(crate) fn may_be_short(call: &AggregateCall, spec: &AggregateSpec, domain: Domain) -> bool {
    let raw = !spec.mode.merges() && !spec.keys.is_empty();
    if short_values(call) == ShortValues::Any {
        return raw;
    }
    // Without keys, or with a filter, there is a state before there are values, which is NULL.
    let raw = raw && call.filter.is_none();
    if short_values(call) == ShortValues::Valid {
        return raw && !domain.nulls;
    }
    let is_sum = match call.function {
        F::Sum => true,
        F::Avg => matches!(call.arg_types.last(), Some(DataType::Decimal128(..))),
        _ => false,
    };
    let wide = matches!(call.arg_types.last(), Some(DataType::Decimal128(19.., _)));
    let fits = domain.integers.is_some_and(|(low, high)| low >= SHORT_VALUES.0 && high <= SHORT_VALUES.1);
    is_sum && raw && !wide && !domain.nulls && fits
}

/// What is kept of `spec` as columns of a row, keys first: the value's expression, its type, and whether some are NULL that the
/// expression gives.
pub(crate) fn stored_columns<'a>(spec: &'a AggregateSpec) -> impl Iterator<Item = (&'a Expr, &'a DataType, bool)> {
    let keys = spec.keys.iter().map(|key| (&key.expr, &key.data_type, false));
    let kept = |call: &'a AggregateCall| {
        let values = kept_values(call).iter().zip(&call.arg_types);
        // Either of a pair is made NULL where the other is.
        let may_be_hidden = call.filter.is_some() || kept_values(call).len() > 1;
        values.map(move |(arg, data_type)| (arg, data_type, may_be_hidden))
    };
    let collected = spec.collected.iter().flat_map(|collected| &collected.columns);
    keys.chain(spec.aggregates.iter().flat_map(kept)).chain(collected.map(|(expr, data_type)| (expr, data_type, false)))
}

/// Which value a function keeps, if it keeps one.
fn keep(function: F) -> Option<Keep> {
    match function {
        F::Min => Some(Keep::Min),
        F::Max => Some(Keep::Max),
        F::AnyValue => Some(Keep::First),
        _ => None,
    }
}

/// The arguments of which a value is kept in the row; none if the call has a state.
fn kept_values(call: &AggregateCall) -> &[Expr] {
    match call.function {
        F::FirstBy | F::ArgMin | F::ArgMax | F::MergeModes => &call.args,
        function if keep(function).is_some() => &call.args[..1],
        _ => &[],
    }
}

/// Whether values of normalized type `data_type` can be kept in rows.
pub fn is_storable(data_type: &DataType) -> bool {
    match PhysicalType::of(data_type) {
        Ok(PhysicalType::Nested) => NestedCodec::supports(data_type),
        Ok(_) => true,
        Err(_) => false,
    }
}

/// Whether there are kernels for `call`; if not, the front end must find another way.
pub fn supports(call: &AggregateCall, mode: AggregateMode) -> bool {
    if call.distinct && mode != AggregateMode::Single {
        return false;
    }
    if call.function != F::CountStar && !call.arg_types.iter().all(is_storable) {
        return false;
    }
    let values = call.arg_types.as_slice();
    match (call.function, values) {
        (F::CountStar, _) => mode != AggregateMode::Final || matches!(values, [DataType::Int64]),
        (F::Count, [DataType::Int64]) if mode == AggregateMode::Final => true,
        (F::Count, [_]) => mode != AggregateMode::Final,
        (F::Min | F::Max, [value]) => is_ordered(value) && *value == call.output,
        (F::AnyValue | F::FirstValue { .. }, [value]) => mode == AggregateMode::Single && *value == call.output,
        (F::FirstBy | F::ArgMin | F::ArgMax, [value, by]) => {
            mode == AggregateMode::Single && *value == call.output && supports_pair(value, by)
        }
        (F::Mode, [value]) => mode == AggregateMode::Single && is_ordered(value) && *value == call.output,
        (F::BoolAnd | F::BoolOr, [DataType::Boolean]) => true,
        (F::Sum, [value]) => match &call.output {
            DataType::Int64 => value.is_signed_integer(),
            DataType::UInt64 => value.is_unsigned_integer(),
            DataType::Float64 => *value == DataType::Float64,
            DataType::Decimal128(_, scale) => matches!(value, DataType::Decimal128(_, s) if s == scale),
            _ => false,
        },
        (F::Avg, [DataType::Float64]) => mode != AggregateMode::Final && call.output == DataType::Float64,
        (F::Avg, [value]) if value.is_integer() => mode == AggregateMode::Single && call.output == DataType::Float64,
        (F::Avg, [DataType::UInt64, DataType::Float64]) => {
            mode == AggregateMode::Final && call.output == DataType::Float64
        }
        (F::Avg, [DataType::Decimal128(..)]) => mode == AggregateMode::Single && call.output == DataType::Float64,
        (F::BitAnd | F::BitOr | F::BitXor, [value]) => value.is_integer() && *value == call.output,
        (F::VarSample | F::VarPopulation | F::StddevSample | F::StddevPopulation, values) => match mode {
            AggregateMode::Final => {
                matches!(values, [DataType::UInt64, DataType::Float64, DataType::Float64])
            }
            _ => matches!(values, [DataType::Float64]),
        },
        (
            F::CovarSample | F::CovarPopulation | F::Correlation | F::Regression(_),
            [DataType::Float64, DataType::Float64],
        ) => {
            let output = match call.function {
                F::Regression(RegrKind::Count) => DataType::UInt64,
                _ => DataType::Float64,
            };
            mode == AggregateMode::Single && call.output == output
        }
        _ => false,
    }
}

impl AggregatePlan {
    /// Binds `spec`, which has neither grouping sets nor distinct arguments any more.
    pub(crate) fn new(spec: &AggregateSpec, forms: Forms) -> Result<Self, ExecError> {
        let Forms { columns: narrowings, short } = forms;
        let mut layout = RowLayoutBuilder::default();
        let mut keys = Vec::with_capacity(spec.keys.len());
        for (key, narrowing) in spec.keys.iter().zip(&narrowings) {
            layout.key(narrowing.stored_type(), narrowing.nullable());
            keys.push((key.expr.clone(), NestedCodec::of(&key.data_type)?));
        }
        let codecs =
            stored_columns(spec).map(|(_, data_type, _)| NestedCodec::of(data_type)).collect::<Result<_, _>>()?;
        let mut plan = PlanBuilder { inputs: Vec::new(), filters: Vec::new() };
        let (mut extrema, mut arg_extrema) = (Vec::new(), Vec::new());
        let mut outputs: Vec<Output> = (0..keys.len()).map(Output::Column).collect();
        let mut pending = Vec::new();
        let mut payload = Vec::new();
        for call in &spec.aggregates {
            let kept = kept_values(call);
            if kept.is_empty() {
                outputs.push(Output::Kernel(pending.len()));
                pending.push(call);
                continue;
            }
            let forms = &narrowings[keys.len() + payload.len()..][..kept.len()];
            // Of a pair, both are there or none is.
            let nullable = forms.iter().any(Narrowing::nullable);
            let columns: Vec<usize> = forms.iter().map(|form| layout.payload(form.stored_type(), nullable)).collect();
            for (arg, data_type) in kept.iter().zip(&call.arg_types) {
                payload.push(plan.input(Some(arg), call.filter.as_ref(), NestedCodec::of(data_type)?));
            }
            let given = if spec.mode.gives_states() { columns.len() } else { 1 };
            outputs.extend(columns[..given].iter().map(|&column| Output::Column(column)));
            let extremum =
                |at: usize, keep| Extremum { column: columns[at], keep, dictionary: forms[at].dictionary().cloned() };
            match call.function {
                F::FirstBy | F::ArgMin | F::ArgMax | F::MergeModes => {
                    let least = matches!(call.function, F::FirstBy | F::ArgMin);
                    let keep = if least { Keep::Min } else { Keep::Max };
                    arg_extrema.push(ArgExtremum {
                        by: extremum(1, keep),
                        value: extremum(0, Keep::Min),
                        breaks_ties: call.function == F::MergeModes,
                        keeps_nulls: call.function == F::FirstBy,
                    });
                }
                function => {
                    let keep = keep(function).expect("only these keep values");
                    extrema.push(extremum(0, keep));
                }
            }
        }
        let collected = spec.collected.iter().flat_map(|collected| &collected.columns);
        for ((expr, data_type), narrowing) in collected.zip(&narrowings[keys.len() + payload.len()..]) {
            layout.payload(narrowing.stored_type(), narrowing.nullable());
            payload.push(plan.input(Some(expr), None, NestedCodec::of(data_type)?));
        }
        // Offsets of states are relative to the end of the columns, which is known once the layout is built.
        let mut offsets = Vec::with_capacity(pending.len());
        for (call, &short) in pending.iter().zip(&short) {
            let bytes = state_bytes(call, short);
            let offset = layout.state(bytes);
            offsets.push(offset..offset + bytes);
        }
        let layout = layout.build()?;
        let mut kernels = Vec::with_capacity(pending.len());
        for ((call, offsets), short) in pending.into_iter().zip(offsets).zip(short) {
            let inputs = match (call.function, spec.mode) {
                (F::CountStar, AggregateMode::Single | AggregateMode::Partial) => {
                    vec![plan.input(None, call.filter.as_ref(), None)]
                }
                _ => call.args.iter().map(|arg| plan.input(Some(arg), call.filter.as_ref(), None)).collect(),
            };
            let merges = spec.mode.merges() || call.function == F::MergeCounts;
            let state = layout.state_offset() + offsets.start..layout.state_offset() + offsets.end;
            let kernel = bind(call, short, state.start);
            kernels.push(BoundKernel { kernel, state, short, short_values: short_values(call), merges, inputs });
        }
        let PlanBuilder { inputs, filters } = plan;
        let schema = Arc::clone(&spec.schema);
        let mode = spec.mode;
        let collected = spec.collected.clone();
        Ok(Self {
            layout,
            narrowings,
            kernels,
            extrema,
            arg_extrema,
            schema,
            mode,
            keys,
            codecs,
            payload,
            collected,
            inputs,
            filters,
            outputs,
        })
    }

    /// Whether values are kept in the rows of groups.
    pub(crate) fn keeps_values(&self) -> bool {
        !self.extrema.is_empty() || !self.arg_extrema.is_empty()
    }

    /// Makes the stored columns of what was evaluated; `caches` are the lane's, one for each column. Returns the columns and states with
    /// values that do not fit.
    pub(crate) fn narrow(
        &self,
        out: &mut Evaluated,
        caches: &mut Vec<CodeCache>,
    ) -> Result<Vec<(Guess, Misfit)>, VectorError> {
        caches.resize_with(self.narrowings.len(), CodeCache::default);
        out.stored.clear();
        let mut misfits = Vec::new();
        let Evaluated { keys, inputs, stored } = out;
        let values = keys.iter().chain(self.payload.iter().map(|&input| &inputs[input]));
        for (index, ((narrowing, column), cache)) in self.narrowings.iter().zip(values).zip(caches).enumerate() {
            match narrowing.narrow(column.as_ref(), cache)? {
                Ok(narrow) => stored.push(narrow),
                Err(misfit) => misfits.push((Guess::Column(index), misfit)),
            }
        }
        for (kernel, bound) in self.kernels.iter().enumerate().filter(|(_, bound)| bound.short) {
            let array = &inputs[bound.inputs[0]].array;
            let fits = match bound.short_values {
                ShortValues::Any => true,
                ShortValues::Valid => array.null_count() == 0,
                ShortValues::Within => array.null_count() == 0 && all_fit_32_bits(array),
            };
            if !fits {
                misfits.push((Guess::State(kernel), Misfit::Value));
            }
        }
        Ok(misfits)
    }

    /// The states that may take no more rows than [`SHORT_ROWS`].
    pub(crate) fn short_states(&self) -> impl Iterator<Item = Guess> {
        self.kernels.iter().enumerate().filter(|(_, bound)| bound.short).map(|(kernel, _)| Guess::State(kernel))
    }

    /// The values of the layout's columns, as they were evaluated.
    pub(crate) fn values<'a>(&'a self, evaluated: &'a Evaluated) -> impl Iterator<Item = &'a Column> {
        evaluated.keys.iter().chain(self.payload.iter().map(|&input| &evaluated.inputs[input]))
    }

    /// Payload columns of `rows`, in the types of the input.
    ///
    /// # Safety
    /// `rows` are rows of the plan's layout on pinned pages.
    pub(crate) unsafe fn gather_payload(
        &self,
        rows: &[*const u8],
        caches: &mut Vec<CodeCache>,
    ) -> Result<Vec<ArrayRef>, ExecError> {
        caches.resize_with(self.narrowings.len(), CodeCache::default);
        (self.keys.len()..self.narrowings.len())
            .map(|column| {
                // SAFETY: the caller vouches for the rows.
                let stored = unsafe { gather_column(&self.layout, column, rows)? };
                Ok(self.narrowings[column].widen(stored, &mut caches[column]))
            })
            .collect()
    }

    /// Stored column `column` of `rows`, nested values as the bytes of their encoding.
    ///
    /// # Safety
    /// `rows` are rows of the plan's layout on pinned pages.
    pub(crate) unsafe fn encoded_column(
        &self,
        column: usize,
        rows: &[*const u8],
        cache: &mut CodeCache,
    ) -> Result<ArrayRef, ExecError> {
        // SAFETY: the caller vouches for the rows.
        let array = self.narrowings[column].widen(unsafe { gather_column(&self.layout, column, rows)? }, cache);
        Ok(NestedCodec::encoded(array, self.codecs[column].as_ref())?)
    }

    /// Whether a key, an argument or a condition is what may grow.
    pub(crate) fn may_grow(&self) -> bool {
        let arguments = self.inputs.iter().filter_map(|input| input.expr.as_ref());
        self.keys.iter().map(|(expr, _)| expr).chain(&self.filters).chain(arguments).any(Expr::may_grow)
    }

    /// Computes keys and arguments of a chunk.
    pub(crate) fn evaluate(&self, chunk: &Chunk, out: &mut Evaluated) -> Result<(), ExecError> {
        out.keys.clear();
        out.inputs.clear();
        for (expr, codec) in &self.keys {
            out.keys.push(readable(expr.evaluate(chunk)?, codec.as_ref())?);
        }
        let filters = self.filters.iter().map(|filter| filter.truth(chunk)).collect::<Result<Vec<_>, _>>()?;
        for input in &self.inputs {
            let mut column = match &input.expr {
                Some(expr) => readable(expr.evaluate(chunk)?, input.codec.as_ref())?,
                None => Column::flat(Arc::new(BooleanArray::new(BooleanBuffer::new_set(chunk.len()), None))),
            };
            if let Some(filter) = input.filter {
                column = Column::flat(null_unless(&column.flatten()?, &filters[filter]));
            }
            out.inputs.push(column);
        }
        Ok(())
    }

    /// The output columns for groups at `rows`.
    ///
    /// # Safety
    /// `rows` are rows of the plan's layout on pinned pages.
    pub(crate) unsafe fn gather(&self, rows: &[*const u8], caches: &mut Vec<CodeCache>) -> Result<Chunk, ExecError> {
        caches.resize_with(self.narrowings.len(), CodeCache::default);
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for output in &self.outputs {
            // SAFETY: the caller vouches for the rows.
            unsafe {
                match output {
                    Output::Column(column) => {
                        let stored = gather_column(&self.layout, *column, rows)?;
                        columns.push(self.narrowings[*column].widen(stored, &mut caches[*column]));
                    }
                    Output::Kernel(kernel) if self.mode.gives_states() => {
                        columns.extend(self.kernels[*kernel].kernel.states(rows)?);
                    }
                    Output::Kernel(kernel) => columns.push(self.kernels[*kernel].kernel.results(rows)?),
                }
            }
        }
        Ok(Chunk::new(columns, rows.len()))
    }
}

/// `column` as [`Evaluated`] has it.
fn readable(column: Column, codec: Option<&NestedCodec>) -> Result<Column, VectorError> {
    if matches!(column.array.data_type(), DataType::Utf8View | DataType::BinaryView) {
        return Ok(column);
    }
    Ok(Column::flat(NestedCodec::encoded(column.flatten()?, codec)?))
}

struct PlanBuilder {
    inputs: Vec<Input>,
    filters: Vec<Expr>,
}

impl PlanBuilder {
    /// The number of the input; columns that several aggregates read are computed once.
    fn input(&mut self, expr: Option<&Expr>, filter: Option<&Expr>, codec: Option<NestedCodec>) -> usize {
        let filter = filter.map(|filter| {
            self.filters.iter().position(|known| is_same(known, filter)).unwrap_or_else(|| {
                self.filters.push(filter.clone());
                self.filters.len() - 1
            })
        });
        let same = |input: &Input| {
            input.filter == filter
                && input.codec.is_none() == codec.is_none()
                && match (&input.expr, expr) {
                    (None, None) => true,
                    (Some(a), Some(b)) => is_same(a, b),
                    _ => false,
                }
        };
        self.inputs.iter().position(same).unwrap_or_else(|| {
            self.inputs.push(Input { expr: expr.cloned(), filter, codec });
            self.inputs.len() - 1
        })
    }
}

/// Whether two expressions are plainly the same, so that evaluating one will do.
fn is_same(a: &Expr, b: &Expr) -> bool {
    match (a, b) {
        (Expr::Column(a), Expr::Column(b)) => a == b,
        (Expr::Foreign(a), Expr::Foreign(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

/// Something to do with the accumulator type of an aggregate.
trait WithAccumulator {
    type Output;

    fn with<A: Accumulator>(self) -> Self::Output;
}

/// Calls `$visitor` with accumulator `$accumulator` over integers of the type that `$value` says.
macro_rules! over_integers {
    ($value:expr, $visitor:expr, $accumulator:ident $(, $op:ident)?) => {
        match $value {
            Some(DataType::Int8) => $visitor.with::<$accumulator<types::Int8Type $(, $op)?>>(),
            Some(DataType::Int16) => $visitor.with::<$accumulator<types::Int16Type $(, $op)?>>(),
            Some(DataType::Int32) => $visitor.with::<$accumulator<types::Int32Type $(, $op)?>>(),
            Some(DataType::Int64) => $visitor.with::<$accumulator<types::Int64Type $(, $op)?>>(),
            Some(DataType::UInt8) => $visitor.with::<$accumulator<types::UInt8Type $(, $op)?>>(),
            Some(DataType::UInt16) => $visitor.with::<$accumulator<types::UInt16Type $(, $op)?>>(),
            Some(DataType::UInt32) => $visitor.with::<$accumulator<types::UInt32Type $(, $op)?>>(),
            Some(DataType::UInt64) => $visitor.with::<$accumulator<types::UInt64Type $(, $op)?>>(),
            _ => $visitor.with::<$accumulator<types::Decimal128Type $(, $op)?>>(),
        }
    };
}

/// Chooses the accumulator of `call`. In the final step a sum's argument is the column of partial sums, which has the sum's type.
fn with_accumulator<V: WithAccumulator>(call: &AggregateCall, short: bool, visitor: V) -> V::Output {
    let value = call.arg_types.last();
    match (call.function, &call.output) {
        (F::Sum, DataType::Float64) if short => visitor.with::<ShortSumFloat>(),
        (F::Sum, _) if short => over_integers!(value, visitor, ShortSum),
        (F::Avg, _) if short => visitor.with::<ShortAvg>(),
        (F::Sum, DataType::Float64) => visitor.with::<SumFloat<false>>(),
        (F::Sum, _) if matches!(value, Some(DataType::Decimal128(19.., _))) => visitor.with::<SumDecimal>(),
        (F::Sum, _) => over_integers!(value, visitor, SumInteger),
        (F::Avg, DataType::Float64) if value.is_some_and(|value| value.is_integer() && call.arg_types.len() == 1) => {
            over_integers!(value, visitor, AvgInteger)
        }
        // States of integers, which are the same whatever these were.
        (F::Avg, _) if call.arg_types.len() == 2 && value == Some(&SUMMED_INTEGERS) => {
            visitor.with::<AvgInteger<types::Int64Type>>()
        }
        (F::Avg, _) if matches!(value, Some(DataType::Decimal128(..))) => visitor.with::<AvgDecimal>(),
        (F::Avg, _) => visitor.with::<SumFloat<true>>(),
        (F::BitAnd, _) => over_integers!(value, visitor, Bits, BITS_AND),
        (F::BitOr, _) => over_integers!(value, visitor, Bits, BITS_OR),
        (F::BitXor, _) => over_integers!(value, visitor, Bits, BITS_XOR),
        (F::VarSample, _) => visitor.with::<Variance<VAR_SAMPLE>>(),
        (F::VarPopulation, _) => visitor.with::<Variance<VAR_POPULATION>>(),
        (F::StddevSample, _) => visitor.with::<Variance<STDDEV_SAMPLE>>(),
        (F::StddevPopulation, _) => visitor.with::<Variance<STDDEV_POPULATION>>(),
        (function, _) => unreachable!("{function:?} has no accumulator; `supports` was not asked"),
    }
}

struct StateBytes;

impl WithAccumulator for StateBytes {
    type Output = usize;

    fn with<A: Accumulator>(self) -> usize {
        size_of::<A>()
    }
}

struct Bind<'a> {
    offset: usize,
    output: &'a DataType,
}

impl WithAccumulator for Bind<'_> {
    type Output = Box<dyn Kernel>;

    fn with<A: Accumulator>(self) -> Box<dyn Kernel> {
        Box::new(StateKernel::<A>::new(self.offset, self.output.clone()))
    }
}

fn state_bytes(call: &AggregateCall, short: bool) -> usize {
    match call.function {
        F::CountStar | F::Count if short => size_of::<u32>(),
        F::CountStar | F::Count | F::MergeCounts => size_of::<u64>(),
        F::BoolAnd | F::BoolOr => BooleanKernel::STATE,
        F::CovarSample | F::CovarPopulation | F::Correlation | F::Regression(_) => PairKernel::STATE,
        _ => with_accumulator(call, short, StateBytes),
    }
}

fn bind(call: &AggregateCall, short: bool, offset: usize) -> Box<dyn Kernel> {
    match call.function {
        F::CountStar | F::Count if short => Box::new(CountKernel::<u32>::new(offset, call.output.clone())),
        F::CountStar | F::Count | F::MergeCounts => Box::new(CountKernel::<u64>::new(offset, call.output.clone())),
        F::BoolAnd => Box::new(BooleanKernel { offset, decides: false }),
        F::BoolOr => Box::new(BooleanKernel { offset, decides: true }),
        F::CovarSample | F::CovarPopulation | F::Correlation | F::Regression(_) => {
            Box::new(PairKernel { offset, function: call.function })
        }
        _ => {
            let summed = match (call.function, call.arg_types.last()) {
                (F::Avg, Some(value @ DataType::Decimal128(..))) => Some(summed_decimals(value)),
                _ => None,
            };
            with_accumulator(call, short, Bind { offset, output: summed.as_ref().unwrap_or(&call.output) })
        }
    }
}
