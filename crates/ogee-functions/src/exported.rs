//! States of aggregates as values: `sum(x) EXPORT_STATE`, `finalize(state)`, `combine(a, b)` and `combine_aggr(state)`.
//!
//! A state is a struct of what the accumulator of the aggregate keeps, and of its arguments behind the first that are constants. Its first field says which aggregate it is of, and of which
//! arguments: so it is in the type of the state, and goes with it wherever that is chosen, joined and kept. With `DISTINCT` and `ORDER BY` it is the state of the aggregate without them, over rows that differ, in
//! their order.
//!
//! Not here: the words (`ogee-sql`, `syntax::exported`).

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt::{self, Write},
    hash::{Hash, Hasher},
    mem::size_of_val,
    sync::Arc,
};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, StructArray, UInt32Array, new_empty_array},
        compute::{SortColumn, SortOptions, cast, concat, lexsort_to_indices, take},
        datatypes::{DataType, Field, FieldRef, Fields, Int64Type, Schema},
        ipc::{
            convert::{IpcSchemaEncoder, fb_to_schema},
            root_as_schema,
        },
        row::{RowConverter, SortField},
    },
    common::{Result, ScalarValue, exec_err, internal_err, plan_datafusion_err, plan_err},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
        ScalarUDFImpl, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
    physical_expr::{
        PhysicalExpr,
        expressions::{Column, Literal},
    },
    prelude::SessionContext,
};
use ogee_vector::canonical_floats;

use crate::{ordered_mode::ORDERED_MODE, type_names::sql_name_of};

/// What the name of an aggregate begins with that gives its state.
pub const EXPORT: &str = "ogee_state_of_";

/// Where the first field of a state says what it is of.
const STATE: &str = "ogee.aggregate_state";

/// What values of `field` are states of, as it is written in their type.
fn written(field: &Field) -> Option<&String> {
    match field.data_type() {
        DataType::Struct(fields) => fields.first()?.metadata().get(STATE),
        _ => None,
    }
}

/// Whether values of `field` are states.
pub fn is_state(field: &Field) -> bool {
    written(field).is_some()
}

/// Whether values of both are states of one aggregate of arguments of the same types.
pub fn is_same_state(left: &Field, right: &Field) -> bool {
    is_state(left) && written(left) == written(right)
}

/// The aggregates whose states there may be.
type Known = Arc<BTreeMap<String, Arc<AggregateUDF>>>;

/// Registers the functions in `context`, for the aggregates that it has.
pub(crate) fn register(context: &SessionContext) {
    let aggregates: BTreeMap<String, Arc<AggregateUDF>> =
        context.state().aggregate_functions().iter().map(|(name, of)| (name.clone(), Arc::clone(of))).collect();
    for (name, inner) in &aggregates {
        let exported = Exported { inner: Arc::clone(inner), name: format!("{EXPORT}{name}") };
        context.register_udaf(AggregateUDF::new_from_impl(exported));
    }
    let known: Known = Arc::new(aggregates.into_values().map(|of| (of.name().to_owned(), of)).collect());
    let signature = |arguments| Signature::any(arguments, Volatility::Immutable);
    let finalize = OfStates { name: "finalize", known: Arc::clone(&known), signature: signature(1) };
    let combine = OfStates { name: "combine", known: Arc::clone(&known), signature: signature(2) };
    [finalize, combine].into_iter().for_each(|function| context.register_udf(ScalarUDF::new_from_impl(function)));
    let signature = Signature::user_defined(Volatility::Immutable);
    context.register_udaf(AggregateUDF::new_from_impl(Combined { known, signature }));
}

/// What a state is of.
#[derive(Clone, Debug)]
struct Kind {
    aggregate: Arc<AggregateUDF>,
    /// Its arguments.
    arguments: Vec<FieldRef>,
    /// What its accumulator keeps.
    kept: Vec<FieldRef>,
}

impl Kind {
    fn new(aggregate: &Arc<AggregateUDF>, arguments: &[FieldRef]) -> Result<Self> {
        let return_field = aggregate.return_field(arguments)?;
        let kept = aggregate.state_fields(StateFieldsArgs {
            name: aggregate.name(),
            input_fields: arguments,
            return_field,
            ordering_fields: &[],
            is_distinct: false,
        })?;
        Ok(Self { aggregate: Arc::clone(aggregate), arguments: arguments.to_vec(), kept })
    }

    /// The kind of the states of `field`.
    fn of(field: &Field, known: &Known) -> Result<Self> {
        let Some((name, arguments)) = written(field).and_then(|written| written.split_once(' ')) else {
            return plan_err!("values of type {} are no states of aggregates", sql_name_of(field));
        };
        let Some(aggregate) = known.get(name) else {
            return plan_err!("a state is of the aggregate {name}, which there is none of here");
        };
        let broken = || plan_datafusion_err!("the arguments that a state of {name} is of cannot be read");
        let arguments = bytes_of(arguments).ok_or_else(broken)?;
        let arguments = fb_to_schema(root_as_schema(&arguments).map_err(|_| broken())?);
        Self::new(aggregate, arguments.fields())
    }

    /// The field of such states.
    fn field(&self, name: &str) -> Field {
        Field::new(name, DataType::Struct(self.fields()), true)
    }

    /// What they are of, as it is written in their type.
    fn written(&self) -> String {
        // States of other columns are of the same kind.
        let argument = |(nth, field): (usize, &FieldRef)| {
            let marks = field.metadata().iter().filter(|(key, _)| key.starts_with("ARROW:extension:"));
            let marks = marks.map(|(key, mark)| (key.clone(), mark.clone())).collect();
            Field::new(format!("argument{}", nth + 1), field.data_type().clone(), true).with_metadata(marks)
        };
        let arguments: Vec<Field> = self.arguments.iter().enumerate().map(argument).collect();
        let encoded = IpcSchemaEncoder::new().schema_to_fb(&Schema::new(arguments));
        format!("{} {}", self.aggregate.name(), hexadecimal(encoded.finished_data()))
    }

    /// The fields of the struct: what is kept, then the arguments behind the first.
    fn fields(&self) -> Fields {
        let mut names: HashSet<String> = HashSet::new();
        let mut named = |name: &str| {
            // `sum(x)[count]`
            let part = name.rsplit_once('[').map_or(name, |(_, part)| part.trim_end_matches(']'));
            let part = if self.aggregate.name() == "avg" && part == "sum" { "value" } else { part };
            let mut unique = part.to_owned();
            while !names.insert(unique.clone()) {
                unique.push('_');
            }
            unique
        };
        let kept = self.kept.iter().map(|field| Field::new(named(field.name()), field.data_type().clone(), true));
        let kept: Vec<Field> = kept.collect();
        let others = self.arguments.iter().enumerate().skip(1);
        let others =
            others.map(|(nth, field)| Field::new(format!("argument{}", nth + 1), field.data_type().clone(), true));
        let mut fields: Vec<Field> = kept.into_iter().chain(others).collect();
        if let Some(first) = fields.first_mut() {
            first.set_metadata(HashMap::from([(STATE.to_owned(), self.written())]));
        }
        fields.into()
    }

    /// An accumulator, where the arguments behind the first have the values `constants`, if they are constants.
    fn accumulator(&self, constants: &[ScalarValue]) -> Result<Box<dyn Accumulator>> {
        let make = |as_literals: bool| {
            let schema = Schema::new(self.arguments.clone());
            let argument = |(nth, field): (usize, &FieldRef)| -> Arc<dyn PhysicalExpr> {
                let constant = nth.checked_sub(1).and_then(|nth| constants.get(nth));
                match constant.filter(|constant| as_literals || !constant.is_null()) {
                    Some(constant) => Arc::new(Literal::new(constant.clone())),
                    None => Arc::new(Column::new(field.name(), nth)),
                }
            };
            let exprs: Vec<_> = self.arguments.iter().enumerate().map(argument).collect();
            self.aggregate.accumulator(AccumulatorArgs {
                return_field: self.aggregate.return_field(&self.arguments)?,
                schema: &schema,
                ignore_nulls: false,
                order_bys: &[],
                is_reversed: false,
                name: self.aggregate.name(),
                is_distinct: false,
                exprs: &exprs,
                expr_fields: &self.arguments,
            })
        };
        // Some ask for constants, which no row has told yet.
        make(false).or_else(|_| make(true))
    }

    /// The values of row `row` of `states`, which is not NULL: what is kept, and the constants.
    fn row(&self, states: &StructArray, row: usize) -> Result<(Vec<ArrayRef>, Vec<ScalarValue>)> {
        if states.num_columns() != self.kept.len() + self.arguments.len().saturating_sub(1) {
            return exec_err!("a state of {} has other parts than are kept of it now", self.aggregate.name());
        }
        let kept = self.kept.iter().enumerate();
        let kept = kept.map(|(nth, field)| Ok(cast(&states.column(nth).slice(row, 1), field.data_type())?));
        let constants = self.arguments.iter().skip(1).enumerate().map(|(nth, field)| {
            ScalarValue::try_from_array(states.column(self.kept.len() + nth), row)?.cast_to(field.data_type())
        });
        Ok((kept.collect::<Result<_>>()?, constants.collect::<Result<_>>()?))
    }

    /// The struct of the state of `accumulator`.
    fn exported(&self, accumulator: &mut dyn Accumulator, constants: &[ScalarValue]) -> Result<ScalarValue> {
        let fields = self.fields();
        let values = accumulator.state()?.into_iter().chain(constants.iter().cloned());
        let columns = values.zip(&fields).map(|(value, field)| Ok(cast(&value.to_array()?, field.data_type())?));
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        if columns.len() != fields.len() {
            return internal_err!("{} keeps {} values, not {}", self.aggregate.name(), fields.len(), columns.len());
        }
        Ok(ScalarValue::Struct(Arc::new(StructArray::new(fields, columns, None))))
    }

    fn none(&self) -> Result<ScalarValue> {
        ScalarValue::try_from(&DataType::Struct(self.fields()))
    }

    /// As an error names it.
    fn shown(&self) -> String {
        let types: Vec<String> = self.arguments.iter().map(|field| sql_name_of(field)).collect();
        format!("{}({})", self.aggregate.name(), types.join(", "))
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // A text takes what is written.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair.get(1).unwrap_or(&0)).collect())
}

/// An aggregate that gives its state.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Exported {
    inner: Arc<AggregateUDF>,
    name: String,
}

impl AggregateUDFImpl for Exported {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        internal_err!("the type of a state follows from the fields of the arguments")
    }

    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        if self.inner.name() == ORDERED_MODE {
            return plan_err!("EXPORT_STATE of mode with an ORDER BY is not supported; without one it is");
        }
        Ok(Arc::new(Kind::new(&self.inner, arg_fields)?.field(&self.name)))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Kind::new(&self.inner, args.input_fields)?.field("state"))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let kind = Kind::new(&self.inner, args.expr_fields)?;
        let constants =
            args.exprs.iter().zip(args.expr_fields).skip(1).map(|(expr, field)| match expr.downcast_ref::<Literal>() {
                Some(literal) => literal.value().cast_to(field.data_type()),
                None => ScalarValue::try_from(field.data_type()),
            });
        let constants: Vec<ScalarValue> = constants.collect::<Result<_>>()?;
        let (is_distinct, order) = (args.is_distinct, args.order_bys.iter().map(|by| by.options).collect::<Vec<_>>());
        let inner = self.inner.accumulator(AccumulatorArgs {
            return_field: self.inner.return_field(args.expr_fields)?,
            order_bys: &[],
            is_distinct: false,
            is_reversed: false,
            name: self.inner.name(),
            ..args
        })?;
        let state = State { kind, constants, inner };
        Ok(match is_distinct || !order.is_empty() {
            true => Box::new(Rows { state, is_distinct, order, rows: Vec::new() }),
            false => Box::new(state),
        })
    }

    /// Its keys are handed over only to a function that an order matters to; it sorts by itself.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Beneficial
    }

    fn with_beneficial_ordering(self: Arc<Self>, _beneficial: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }
}

/// The state of a group.
#[derive(Debug)]
struct State {
    kind: Kind,
    constants: Vec<ScalarValue>,
    inner: Box<dyn Accumulator>,
}

impl Accumulator for State {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.kind.exported(&mut *self.inner, &self.constants)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let states = states[0].as_struct();
        for row in (0..states.len()).filter(|row| states.is_valid(*row)) {
            let (kept, _) = self.kind.row(states, row)?;
            self.inner.merge_batch(&kept)?;
        }
        Ok(())
    }
}

/// The rows of a group, for a state that takes each once, or in an order.
#[derive(Debug)]
struct Rows {
    state: State,
    is_distinct: bool,
    order: Vec<SortOptions>,
    rows: Vec<Vec<ArrayRef>>,
}

impl Rows {
    /// Hands them over.
    fn settle(&mut self) -> Result<()> {
        let pieces = std::mem::take(&mut self.rows);
        let Some(first) = pieces.first() else { return Ok(()) };
        let column = |nth: usize| {
            let parts: Vec<&dyn Array> = pieces.iter().map(|piece| piece[nth].as_ref()).collect();
            Ok::<_, datafusion::error::DataFusionError>(concat(&parts)?)
        };
        let columns: Vec<ArrayRef> = (0..first.len()).map(column).collect::<Result<_>>()?;
        let arguments = self.state.kind.arguments.len();
        let mut rows: Vec<u32> = (0..columns[0].len() as u32).collect();
        if self.is_distinct {
            let canonical: Vec<ArrayRef> = columns[..arguments].iter().map(canonical_floats).collect();
            let fields = canonical.iter().map(|column| SortField::new(column.data_type().clone())).collect();
            let converter = RowConverter::new(fields)?;
            let bytes = converter.convert_columns(&canonical)?;
            let mut seen = HashSet::new();
            rows.retain(|row| seen.insert(bytes.row(*row as usize)));
        }
        let rows = UInt32Array::from(rows);
        let mut columns = columns.iter().map(|column| Ok(take(column, &rows, None)?)).collect::<Result<Vec<_>>>()?;
        let keys = columns.split_off(arguments);
        if !keys.is_empty() {
            let keys = keys.into_iter().zip(&self.order);
            let keys: Vec<_> = keys.map(|(values, options)| SortColumn { values, options: Some(*options) }).collect();
            let sorted = lexsort_to_indices(&keys, None)?;
            columns = columns.iter().map(|column| Ok(take(column, &sorted, None)?)).collect::<Result<_>>()?;
        }
        self.state.update_batch(&columns)
    }
}

impl Accumulator for Rows {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.rows.push(values.to_vec());
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.settle()?;
        self.state.evaluate()
    }

    /// Twice: they are copied where they are sorted.
    fn size(&self) -> usize {
        let rows = self.rows.iter().flatten().map(|array| array.get_array_memory_size());
        size_of_val(self) + self.state.size() + 2 * rows.sum::<usize>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.state.merge_batch(states)
    }
}

/// `finalize(state)` and `combine(a, b)`.
#[derive(Debug)]
struct OfStates {
    name: &'static str,
    known: Known,
    signature: Signature,
}

impl PartialEq for OfStates {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for OfStates {}

impl Hash for OfStates {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl OfStates {
    /// The kind of the states of all `fields`.
    fn kind(&self, fields: &[FieldRef]) -> Result<Kind> {
        let kind = Kind::of(&fields[0], &self.known)?;
        for field in &fields[1..] {
            let other = Kind::of(field, &self.known)?;
            if other.shown() != kind.shown() {
                return plan_err!("states of {} and {} are not combined", kind.shown(), other.shown());
            }
        }
        Ok(kind)
    }
}

impl ScalarUDFImpl for OfStates {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        internal_err!("the type of {} follows from the fields of its arguments", self.name)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let kind = self.kind(args.arg_fields)?;
        Ok(Arc::new(match self.name {
            "combine" => kind.field(self.name),
            _ => {
                kind.aggregate.return_field(&kind.arguments)?.as_ref().clone().with_name(self.name).with_nullable(true)
            }
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let kind = self.kind(&args.arg_fields)?;
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let states = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<ArrayRef>>>()?;
        let result = args.return_field.data_type();
        let value = |row: usize| {
            let mut merged: Option<(Box<dyn Accumulator>, Vec<ScalarValue>)> = None;
            for states in &states {
                if states.is_null(row) {
                    continue;
                }
                let (kept, constants) = kind.row(states.as_struct(), row)?;
                let (accumulator, _) = match &mut merged {
                    Some(merged) => merged,
                    None => merged.insert((kind.accumulator(&constants)?, constants)),
                };
                accumulator.merge_batch(&kept)?;
            }
            match merged {
                None => ScalarValue::try_from(result),
                Some((mut accumulator, constants)) if self.name == "combine" => {
                    kind.exported(&mut *accumulator, &constants)
                }
                Some((mut accumulator, _)) => accumulator.evaluate(),
            }
        };
        let values = (0..rows).map(value).collect::<Result<Vec<_>>>()?;
        let values = if values.is_empty() { new_empty_array(result) } else { ScalarValue::iter_to_array(values)? };
        let values = cast(&values, result)?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
            false => ColumnarValue::Array(values),
        })
    }
}

/// `combine_aggr(state, n)`: one state of those of a group, each so many times.
#[derive(Debug)]
struct Combined {
    known: Known,
    signature: Signature,
}

impl PartialEq for Combined {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Combined {}

impl Hash for Combined {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl AggregateUDFImpl for Combined {
    fn name(&self) -> &str {
        "combine_aggr"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [state] => Ok(vec![state.clone()]),
            [state, count] if count.is_integer() || count.is_null() => Ok(vec![state.clone(), DataType::Int64]),
            _ => plan_err!("combine_aggr takes states, and how many times each counts"),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        internal_err!("the type of a state follows from the fields of the arguments")
    }

    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        Ok(Arc::new(Kind::of(&arg_fields[0], &self.known)?.field(self.name())))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Kind::of(&args.input_fields[0], &self.known)?.field("state"))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let kind = Kind::of(&args.expr_fields[0], &self.known)?;
        Ok(Box::new(Merged { kind, merged: None }))
    }
}

/// The states of a group so far, as one.
struct Merged {
    kind: Kind,
    merged: Option<(Box<dyn Accumulator>, Vec<ScalarValue>)>,
}

impl fmt::Debug for Merged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "states of {}", self.kind.shown())
    }
}

impl Merged {
    /// Adds row `row` of `states`, `count` times: a state is doubled for each digit of that.
    fn add(&mut self, states: &StructArray, row: usize, mut count: u64) -> Result<()> {
        let Self { kind, merged } = self;
        let (mut kept, constants) = kind.row(states, row)?;
        let (accumulator, _) = match merged {
            Some(merged) => merged,
            None => merged.insert((kind.accumulator(&constants)?, constants.clone())),
        };
        loop {
            if count & 1 == 1 {
                accumulator.merge_batch(&kept)?;
            }
            count >>= 1;
            if count == 0 {
                return Ok(());
            }
            let mut twice = kind.accumulator(&constants)?;
            twice.merge_batch(&kept)?;
            twice.merge_batch(&kept)?;
            let state = twice.state()?.into_iter().zip(&kind.kept);
            kept =
                state.map(|(value, field)| Ok(cast(&value.to_array()?, field.data_type())?)).collect::<Result<_>>()?;
        }
    }
}

impl Accumulator for Merged {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let states = values[0].as_struct();
        let counts = values.get(1).map(|counts| counts.as_primitive::<Int64Type>());
        for row in (0..states.len()).filter(|row| states.is_valid(*row)) {
            let count = match counts {
                Some(counts) if counts.is_null(row) => 0,
                Some(counts) => counts.value(row),
                None => 1,
            };
            let Ok(count) = u64::try_from(count) else {
                return exec_err!("combine_aggr takes a state 0 times or more, not {count} times");
            };
            if count > 0 {
                self.add(states, row, count)?;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match &mut self.merged {
            Some((accumulator, constants)) => self.kind.exported(&mut **accumulator, constants),
            None => {
                let constants =
                    self.kind.arguments.iter().skip(1).map(|field| ScalarValue::try_from(field.data_type()));
                let constants = constants.collect::<Result<Vec<_>>>()?;
                match self.kind.accumulator(&constants) {
                    Ok(mut accumulator) => self.kind.exported(&mut *accumulator, &constants),
                    Err(_) => self.kind.none(),
                }
            }
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.merged.as_ref().map_or(0, |(accumulator, _)| accumulator.size())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(&states[..1])
    }
}
