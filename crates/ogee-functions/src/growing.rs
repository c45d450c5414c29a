//! Functions whose values may be far larger than their arguments: `repeat('x', 1000000000)`.
//!
//! Each looks at its arguments before it makes anything. Values of several rows that would take more than [`PART_BYTES`] are made of fewer rows at a time
//! ([`ExecError::Grown`]); where nobody asks for fewer, or there is one row only, the memory is promised first or the statement refused. A value of more
//! than 2 GiB, or a list of more than 2^31 - 1 elements, has no form at all and is an error.
//!
//! Not here: what is about as large as its arguments, which every expression is asked about (`ogee_planner::expr`), and groups that grow, which the engine reserves.

use std::{
    cell::Cell,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, OffsetSizeTrait},
        compute::cast,
        datatypes::{
            DataType, Field, FieldRef, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
            TimeUnit,
        },
    },
    common::{Result, ScalarValue, exec_err},
    config::ConfigOptions,
    execution::FunctionRegistry,
    logical_expr::{
        ColumnarValue, Documentation, Expr, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
        ScalarUDFImpl, Signature,
        interval_arithmetic::Interval,
        preimage::PreimageResult,
        simplify::{ExprSimplifyResult, SimplifyContext},
        sort_properties::{ExprProperties, SortProperties},
    },
    physical_expr::{PhysicalExpr, ScalarFunctionExpr, expressions::Literal},
    prelude::SessionContext,
};
use memchr::{memchr_iter, memmem};
use ogee_exec::{ExecError, Growth, PART_BYTES, value_bytes};
use ogee_memory::{BufferManager, Reservation, format_bytes};

use crate::{
    error::to_datafusion,
    function::Function,
    lists::coerced,
    replacements::{self, Texts},
    times::{instants::LOCAL, intervals::INTERVAL, series, session_zone},
};

/// Registers the functions of `context` that are concerned once more, each with a look at its arguments.
///
/// # Errors
/// If there is no function of a name.
pub fn register(context: &SessionContext, memory: &Arc<BufferManager>) -> Result<()> {
    for (name, kind) in KINDS {
        let function = context.udf(name)?;
        let signature = match kind {
            Kind::Series => Signature::user_defined(function.signature().volatility),
            _ => function.signature().clone(),
        };
        let memory = Arc::clone(memory);
        context.register_udf(ScalarUDF::new_from_impl(Growing { function, name, kind, signature, memory }));
    }
    Ok(())
}

const KINDS: [(&str, Kind); 12] = [
    ("repeat", Kind::Repeat),
    ("lpad", Kind::Pad),
    ("rpad", Kind::Pad),
    ("replace", Kind::Replace),
    ("string_to_array", Kind::Split),
    ("range", Kind::Series),
    ("generate_series", Kind::Series),
    ("array_repeat", Kind::RepeatElement),
    ("array_resize", Kind::Resize),
    ("array_to_string", Kind::JoinElements),
    ("concat_ws", Kind::JoinTexts),
    ("array_replace_all", Kind::ReplaceElements),
];

/// Bytes of a value, at most: positions in texts and lists are 32-bit numbers with a sign.
const VALUE_BYTES_MAX: u128 = i32::MAX as u128;

/// Of each byte of a value there are so many at a time: where it is made, and in the array.
const COPIES: usize = 2;

/// Bytes of a number that becomes text.
const NUMBER_BYTES: u128 = 24;

/// Bytes of a view of a text, an element of a list of texts.
const VIEW_BYTES: usize = size_of::<u128>();

thread_local! {
    static IS_PLANNING: Cell<bool> = const { Cell::new(false) };
}

/// Of the memory limit, a constant that a rule computes while a statement is planned takes one part in so many, at most: plans are copied, and each column that has no
/// name is called by its expression.
const CONSTANT_SHARE: usize = 64;

/// What `plan` gives; meanwhile, constants that would be large are none, and left to be computed when they are needed.
pub fn while_planning<T>(plan: impl FnOnce() -> T) -> T {
    struct Restored(bool);
    impl Drop for Restored {
        fn drop(&mut self) {
            IS_PLANNING.set(self.0);
        }
    }
    let _restored = Restored(IS_PLANNING.replace(true));
    plan()
}

/// Promises `bytes` for what function `name` makes of `rows` rows, if they are more than are made without.
///
/// # Errors
/// [`ExecError::Grown`] where fewer rows can be asked for; out of memory where not.
pub fn promise(
    memory: &Arc<BufferManager>,
    name: &'static str,
    bytes: u128,
    rows: usize,
) -> Result<Option<Reservation>> {
    if bytes <= PART_BYTES as u128 {
        return Ok(None);
    }
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    if IS_PLANNING.get() && bytes > memory.limit() / CONSTANT_SHARE {
        return exec_err!("a constant of {} is not computed while a statement is planned", format_bytes(bytes));
    }
    if rows > 1 && Growth::current() == Growth::InParts {
        return Err(to_datafusion(ExecError::Grown { bytes }));
    }
    // What the process holds beside pages counts as it is now: constants of the statement may have been made just before.
    memory.revise();
    memory.reserve(name, bytes.saturating_mul(COPIES)).map(Some).map_err(to_datafusion)
}

/// Promises of memory for values that a function makes row by row, and of which it knows only then how large they are.
pub struct Promises<'m> {
    memory: &'m Arc<BufferManager>,
    name: &'static str,
    rows: usize,
    /// Of the rows so far.
    bytes: u128,
    /// Of them, what is promised.
    promised: u128,
    promises: Vec<Option<Reservation>>,
}

impl<'m> Promises<'m> {
    /// For `rows` values of function `name`.
    pub fn new(memory: &'m Arc<BufferManager>, name: &'static str, rows: usize) -> Self {
        Self { memory, name, rows, bytes: 0, promised: 0, promises: Vec::new() }
    }

    /// Promises of the same memory, for no values yet.
    pub fn of_none(&self) -> Self {
        Self { promises: Vec::new(), bytes: 0, promised: 0, ..*self }
    }

    /// The function.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Promises `bytes` more, for row `row`, or a part of it; those before are made.
    ///
    /// # Errors
    /// [`ExecError::Grown`] where fewer rows can be asked for; out of memory where not.
    pub fn add(&mut self, row: usize, bytes: u128) -> Result<()> {
        self.bytes += bytes;
        if self.bytes - self.promised > PART_BYTES as u128 {
            let in_parts = self.rows > 1 && Growth::current() == Growth::InParts;
            self.promises.push(match in_parts {
                true => {
                    let of_all = self.bytes * self.rows as u128 / (row as u128 + 1);
                    promise(self.memory, self.name, of_all, self.rows)?
                }
                false => promise(self.memory, self.name, self.bytes - self.promised, 1)?,
            });
            self.promised = self.bytes;
        }
        Ok(())
    }
}

/// How values come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// A text so many times.
    Repeat,
    /// A text with others up to so many characters.
    Pad,
    /// A text with another for each occurrence of a third.
    Replace,
    /// The list of what is between occurrences of a text.
    Split,
    /// The list of numbers or times from one to another.
    Series,
    /// A list of a value so many times.
    RepeatElement,
    /// A list cut, or filled up with a value, to so many.
    Resize,
    /// The elements of a list with a text between them.
    JoinElements,
    /// Texts with another one between them.
    JoinTexts,
    /// A list with a value for each element that equals another.
    ReplaceElements,
}

impl Kind {
    /// What series of moments are lists of, if arguments of these types make one.
    fn moments(self, arg_types: &[DataType]) -> Option<DataType> {
        let [start, stop, _] = arg_types else { return None };
        let is_bound = |of: &DataType| of.is_null() || of.is_string() || series::is_moment(of);
        let are = self == Self::Series
            && is_bound(start)
            && is_bound(stop)
            && (series::is_moment(start) || series::is_moment(stop));
        are.then(|| series::moments_between(start, stop))
    }
}

/// What values would take.
struct Sizes {
    /// All together.
    bytes: u128,
    /// The largest one.
    largest: u128,
}

impl Sizes {
    fn of(rows: usize, bytes: impl Fn(usize) -> u128) -> Self {
        let none = Self { bytes: 0, largest: 0 };
        (0..rows).map(bytes).fold(none, |sizes, bytes| Self {
            bytes: sizes.bytes.saturating_add(bytes),
            largest: sizes.largest.max(bytes),
        })
    }

    /// Of so few it does not matter how many they are.
    fn are_small(&self) -> bool {
        self.bytes <= PART_BYTES as u128
    }
}

impl Kind {
    /// What the values for `rows` rows take, at most. `None` if these are no arguments that it takes, which the function says.
    fn sizes(self, args: &[ColumnarValue], rows: usize) -> Option<Sizes> {
        Some(match (self, args) {
            (Self::Repeat, [text, count]) => {
                let (text, count) = (bytes(text)?, counts(count)?);
                Sizes::of(rows, |row| text.at(row) * count.at(row))
            }
            (Self::Pad, [text, length, fill @ ..]) => {
                let (text, length) = (bytes(text)?, counts(length)?);
                let widest = if fill.iter().all(is_ascii) { 1 } else { char::MAX.len_utf8() as u128 };
                Sizes::of(rows, |row| text.at(row) + length.at(row) * widest)
            }
            (Self::Replace, [text, from, to]) => {
                let (text_bytes, from_bytes, to_bytes) = (bytes(text)?, bytes(from)?, bytes(to)?);
                let of = |row: usize, occurrences: u128| {
                    text_bytes.at(row) + occurrences * to_bytes.at(row).saturating_sub(from_bytes.at(row))
                };
                let most = Sizes::of(rows, |row| of(row, text_bytes.at(row) / from_bytes.at(row).max(1) + 1));
                if most.are_small() {
                    return Some(most);
                }
                let (text, from) = (Texts::of(text, rows).ok()?, Texts::of(from, rows).ok()?);
                Sizes::of(rows, |row| of(row, occurrences(text.at(row), from.at(row))))
            }
            (Self::Split, [text, between, ..]) => {
                let (text_bytes, between_bytes) = (bytes(text)?, bytes(between)?);
                let of = |row: usize, occurrences: u128| text_bytes.at(row) + (occurrences + 1) * VIEW_BYTES as u128;
                // Without a text between them, letters are the elements.
                let most = Sizes::of(rows, |row| of(row, text_bytes.at(row) / between_bytes.at(row).max(1)));
                if most.are_small() {
                    return Some(most);
                }
                let (text, between) = (Texts::of(text, rows).ok()?, Texts::of(between, rows).ok()?);
                Sizes::of(rows, |row| match between.at(row) {
                    Some(_) => of(row, occurrences(text.at(row), between.at(row))),
                    None => of(row, text_bytes.at(row)),
                })
            }
            (Self::Series, [to]) => {
                let to = places(to)?;
                series(rows, |row| Some((0, to.at(row)?, 1)))
            }
            (Self::Series, [from, to, step @ ..]) => {
                let (from, to) = (places(from)?, places(to)?);
                let step = step.first().map_or(Some(PerRow::All(Some(1))), places)?;
                series(rows, |row| Some((from.at(row)?, to.at(row)?, step.at(row)?)))
            }
            (Self::RepeatElement, [value, count]) => {
                let (value, count) = (bytes(value)?, counts(count)?);
                Sizes::of(rows, |row| value.at(row).max(1) * count.at(row))
            }
            (Self::Resize, [list, count, fill @ ..]) => {
                let (list, count) = (bytes(list)?, counts(count)?);
                let fill = fill.first().map_or(Some(PerRow::All(0)), bytes)?;
                Sizes::of(rows, |row| list.at(row) + count.at(row) * fill.at(row).max(size_of::<i64>() as u128))
            }
            (Self::JoinElements, [list, between, null @ ..]) => {
                let (elements, list, between) = (elements(list)?, bytes(list)?, bytes(between)?);
                let null = null.first().map_or(Some(PerRow::All(0)), bytes)?;
                Sizes::of(rows, |row| {
                    list.at(row) + elements.at(row) * (between.at(row) + null.at(row).max(NUMBER_BYTES))
                })
            }
            (Self::JoinTexts, [between, texts @ ..]) => {
                let between = bytes(between)?;
                let texts = texts.iter().map(bytes).collect::<Option<Vec<_>>>()?;
                Sizes::of(rows, |row| texts.iter().map(|text| text.at(row) + between.at(row)).sum())
            }
            (Self::ReplaceElements, [list, _, to]) => {
                let (elements, list, to) = (elements(list)?, bytes(list)?, bytes(to)?);
                Sizes::of(rows, |row| list.at(row) + elements.at(row) * to.at(row))
            }
            _ => return None,
        })
    }
}

/// What the numbers from one to another by a step take, of which a row has none if one of the three is NULL.
fn series(rows: usize, of: impl Fn(usize) -> Option<(i128, i128, i128)>) -> Sizes {
    let count = |row: usize| match of(row) {
        Some((from, to, step)) if (to >= from) == (step > 0) => to.abs_diff(from) / step.unsigned_abs().max(1) + 1,
        _ => 0,
    };
    Sizes::of(rows, |row| count(row).saturating_mul(size_of::<i64>() as u128))
}

/// How often `text` has `part` in it; an empty one is between all letters.
fn occurrences(text: Option<&str>, part: Option<&str>) -> u128 {
    let (Some(text), Some(part)) = (text, part) else { return 0 };
    let count = match part.as_bytes() {
        [] => text.len() + 1,
        [byte] => memchr_iter(*byte, text.as_bytes()).count(),
        part => memmem::find_iter(text.as_bytes(), part).count(),
    };
    count as u128
}

/// One value for all rows, or one for each.
enum PerRow<T> {
    All(T),
    Each(Vec<T>),
}

impl<T: Copy> PerRow<T> {
    fn of(arg: &ColumnarValue, each: impl FnOnce(&ArrayRef) -> Option<Vec<T>>) -> Option<Self> {
        match arg {
            ColumnarValue::Scalar(scalar) => each(&scalar.to_array().ok()?)?.first().copied().map(Self::All),
            ColumnarValue::Array(array) => each(array).map(Self::Each),
        }
    }

    fn at(&self, row: usize) -> T {
        match self {
            Self::All(value) => *value,
            Self::Each(values) => values[row],
        }
    }
}

/// The bytes of each value.
fn bytes(arg: &ColumnarValue) -> Option<PerRow<u128>> {
    PerRow::of(arg, |array| Some(bytes_of_each(array)))
}

fn bytes_of_each(array: &ArrayRef) -> Vec<u128> {
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().lengths().map(u128::from).collect(),
        DataType::BinaryView => array.as_binary_view().lengths().map(u128::from).collect(),
        DataType::Utf8 => differences(array.as_string::<i32>().offsets()),
        DataType::LargeUtf8 => differences(array.as_string::<i64>().offsets()),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            sums(list.offsets(), &bytes_of_each(list.values()))
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            sums(list.offsets(), &bytes_of_each(list.values()))
        }
        other => {
            let width = other.primitive_width().unwrap_or_else(|| value_bytes(array).div_ceil(array.len().max(1)));
            vec![width as u128; array.len()]
        }
    }
}

/// How many values that are no lists each list has, or lists within it have.
fn elements(arg: &ColumnarValue) -> Option<PerRow<u128>> {
    fn of_each(array: &ArrayRef) -> Vec<u128> {
        match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                sums(list.offsets(), &of_each(list.values()))
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                sums(list.offsets(), &of_each(list.values()))
            }
            DataType::FixedSizeList(_, size) => vec![*size as u128; array.len()],
            _ => vec![1; array.len()],
        }
    }
    PerRow::of(arg, |array| Some(of_each(array)))
}

fn differences<O: OffsetSizeTrait>(offsets: &[O]) -> Vec<u128> {
    offsets.windows(2).map(|ends| (ends[1] - ends[0]).as_usize() as u128).collect()
}

/// Of each list: what its elements have together.
fn sums<O: OffsetSizeTrait>(offsets: &[O], of_elements: &[u128]) -> Vec<u128> {
    offsets.windows(2).map(|ends| of_elements[ends[0].as_usize()..ends[1].as_usize()].iter().sum()).collect()
}

/// How many of something there are to be: none where that is NULL or negative.
fn counts(arg: &ColumnarValue) -> Option<PerRow<u128>> {
    PerRow::of(arg, |array| {
        let counts = cast(array, &DataType::Int64).ok()?;
        let counts = counts.as_primitive::<Int64Type>();
        Some(counts.iter().map(|count| count.unwrap_or(0).max(0) as u128).collect())
    })
}

/// Numbers as they are, days, times and what is between them in nanoseconds.
fn places(arg: &ColumnarValue) -> Option<PerRow<Option<i128>>> {
    const DAY: i128 = 86_400_000_000_000;
    PerRow::of(arg, |array| {
        let nanoseconds = match array.data_type() {
            DataType::Date32 => DAY,
            DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
            DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
            DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
            DataType::Interval(_) => {
                let intervals = cast(array, &DataType::Interval(IntervalUnit::MonthDayNano)).ok()?;
                let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
                // The shortest months.
                let length = |of: IntervalMonthDayNano| {
                    (i128::from(of.months) * 28 + i128::from(of.days)) * DAY + i128::from(of.nanoseconds)
                };
                return Some(intervals.iter().map(|interval| interval.map(length)).collect());
            }
            _ => 1,
        };
        let numbers = match array.data_type() {
            DataType::Date32 => cast(&cast(array, &DataType::Int32).ok()?, &DataType::Int64).ok()?,
            _ => cast(array, &DataType::Int64).ok()?,
        };
        let numbers = numbers.as_primitive::<Int64Type>();
        Some(numbers.iter().map(|number| Some(i128::from(number?) * nanoseconds)).collect())
    })
}

fn is_ascii(arg: &ColumnarValue) -> bool {
    let texts = match arg {
        ColumnarValue::Scalar(scalar) => scalar.to_array(),
        ColumnarValue::Array(array) => Ok(Arc::clone(array)),
    };
    let is_ascii = |array: &ArrayRef| match array.data_type() {
        DataType::Utf8View => array.as_string_view().is_ascii(),
        DataType::Utf8 => array.as_string::<i32>().is_ascii(),
        DataType::LargeUtf8 => array.as_string::<i64>().is_ascii(),
        _ => false,
    };
    texts.is_ok_and(|array| is_ascii(&array))
}

/// A function that looks at its arguments before it makes anything; else as it is.
struct Growing {
    function: Arc<ScalarUDF>,
    /// For promises of memory.
    name: &'static str,
    kind: Kind,
    /// The function's, but for series: those of moments are coerced here.
    signature: Signature,
    memory: Arc<BufferManager>,
}

impl fmt::Debug for Growing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Growing").field("function", &self.function).finish_non_exhaustive()
    }
}

impl PartialEq for Growing {
    fn eq(&self, other: &Self) -> bool {
        self.function == other.function
    }
}

impl Eq for Growing {}

impl Hash for Growing {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.hash(state);
    }
}

impl Growing {
    /// Memory for what is made of `args`, if that needs a promise.
    fn promise(&self, args: &[ColumnarValue], rows: usize) -> Result<Option<Reservation>> {
        let is_constant = args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { rows };
        let Some(Sizes { bytes, largest }) = self.kind.sizes(args, rows) else { return Ok(None) };
        let is_list = matches!(self.kind, Kind::Series | Kind::Resize);
        if largest > VALUE_BYTES_MAX * if is_list { size_of::<i64>() as u128 } else { 1 } {
            let bytes = format_bytes(usize::try_from(largest).unwrap_or(usize::MAX));
            let most = if is_list { "a list has at most 2147483647 elements" } else { "a value has at most 2 GiB" };
            return exec_err!("{} would make a value of {bytes}; {most}", self.name);
        }
        promise(&self.memory, self.name, bytes, rows)
    }
}

/// What the value of `call` takes, if it is one of these functions and its arguments are constants.
pub fn constant_bytes(call: &ScalarFunctionExpr) -> Option<usize> {
    let growing = call.fun().inner().downcast_ref::<Growing>()?;
    let constant =
        |arg: &Arc<dyn PhysicalExpr>| Some(ColumnarValue::Scalar(arg.downcast_ref::<Literal>()?.value().clone()));
    let args = call.args().iter().map(constant).collect::<Option<Vec<_>>>()?;
    Some(usize::try_from(growing.kind.sizes(&args, 1)?.bytes).unwrap_or(usize::MAX))
}

/// Bytes of a constant that is not to be written out for each row of a batch.
const LARGE_CONSTANT_BYTES: usize = 16 << 10;

/// Whether `expr` has one of these functions in it, or a constant that is as large as what they make.
pub fn has_growing(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let is_large = |literal: &Literal| literal.value().size() > LARGE_CONSTANT_BYTES;
    expr.downcast_ref::<ScalarFunctionExpr>().is_some_and(|call| looks_ahead(call.fun()))
        || expr.downcast_ref().is_some_and(is_large)
        || expr.children().into_iter().any(has_growing)
}

/// Whether `function` looks at its arguments before it makes anything, and may ask for fewer rows.
pub fn looks_ahead(function: &ScalarUDF) -> bool {
    let function_grows = || function.inner().downcast_ref::<Function>().is_some_and(Function::grows);
    function.inner().is::<Growing>() || function.name() == replacements::NAME || function_grows()
}

impl ScalarUDFImpl for Growing {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.function.inner().schema_name(args)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let Some(moments) = self.kind.moments(arg_types) else {
            return match self.kind {
                Kind::Series => coerced(arg_types, &self.function),
                _ => self.function.inner().coerce_types(arg_types),
            };
        };
        let bound = |of: &DataType| match of {
            DataType::Timestamp(..) => of.clone(),
            DataType::Null => moments.clone(),
            _ => LOCAL,
        };
        Ok(vec![bound(&arg_types[0]), bound(&arg_types[1]), INTERVAL])
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match self.kind.moments(arg_types) {
            Some(moments) => Ok(DataType::List(Arc::new(Field::new_list_field(moments, true)))),
            None => self.function.inner().return_type(arg_types),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<_> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        match self.kind.moments(&types) {
            Some(_) => Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, true))),
            None => self.function.inner().return_field_from_args(args),
        }
    }

    fn is_strict(&self) -> bool {
        self.function.inner().is_strict()
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let function = Arc::new(self.function.inner().with_updated_config(config)?);
        let Self { name, kind, signature, memory, .. } = self;
        let (signature, memory) = (signature.clone(), Arc::clone(memory));
        Some(ScalarUDF::new_from_impl(Self { function, name, kind: *kind, signature, memory }))
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.function.inner().simplify(args, info)
    }

    fn preimage(&self, args: &[Expr], literal: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        self.function.inner().preimage(args, literal, info)
    }

    fn evaluate_bounds(&self, input: &[&Interval]) -> Result<Interval> {
        self.function.inner().evaluate_bounds(input)
    }

    fn propagate_constraints(&self, interval: &Interval, inputs: &[&Interval]) -> Result<Option<Vec<Interval>>> {
        self.function.inner().propagate_constraints(interval, inputs)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.function.inner().output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.function.inner().preserves_lex_ordering(inputs)
    }

    fn strictly_order_preserving(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.function.inner().strictly_order_preserving(inputs)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.function.inner().placement(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let _promise = self.promise(&args.args, args.number_rows)?;
        let mut args = args;
        if self.kind == Kind::Pad {
            args.args[1] = not_negative(&args.args[1])?;
        }
        let types = || args.args.iter().map(ColumnarValue::data_type).collect::<Vec<_>>();
        if self.kind == Kind::Series && self.kind.moments(&types()).is_some() {
            let zone = session_zone(&args.config_options)?;
            let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
            let rows = if is_constant { 1 } else { args.number_rows };
            let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
            let lists = series::lists(&arrays, self.name != "range", &zone)?;
            return Ok(match is_constant {
                true => ColumnarValue::Scalar(ScalarValue::try_from_array(&lists, 0)?),
                false => ColumnarValue::Array(lists),
            });
        }
        self.function.inner().invoke_with_args(args)
    }
}

/// `lengths`, of which DataFusion takes negative ones of columns for very great ones.
fn not_negative(lengths: &ColumnarValue) -> Result<ColumnarValue> {
    Ok(match lengths {
        ColumnarValue::Array(array) if *array.data_type() == DataType::Int64 => {
            let lengths = array.as_primitive::<Int64Type>().unary::<_, Int64Type>(|length| length.max(0));
            ColumnarValue::Array(Arc::new(lengths))
        }
        other => other.clone(),
    })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, StringViewArray};
    use datafusion::common::ScalarValue;

    use super::*;

    fn text(text: &str) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::Utf8View(Some(text.to_owned())))
    }

    fn number(number: impl Into<Option<i64>>) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::Int64(number.into()))
    }

    fn of(kind: Kind, args: &[ColumnarValue]) -> (u128, u128) {
        let rows = args.iter().find_map(|arg| match arg {
            ColumnarValue::Array(array) => Some(array.len()),
            ColumnarValue::Scalar(_) => None,
        });
        let sizes = kind.sizes(args, rows.unwrap_or(1)).expect("arguments that the function takes");
        (sizes.bytes, sizes.largest)
    }

    #[test]
    fn sizes_are_those_of_the_values() {
        let counts = ColumnarValue::Array(Arc::new(Int64Array::from(vec![Some(3), None, Some(-5), Some(7)])));
        let texts = ColumnarValue::Array(Arc::new(StringViewArray::from(vec!["", "ab", "é", "a text of some length"])));
        assert_eq!(of(Kind::Repeat, &[text("xyz"), counts.clone()]), (30, 21));
        assert_eq!(of(Kind::Repeat, &[texts.clone(), number(i64::MAX)]).1, 21 * i64::MAX as u128);
        assert_eq!(of(Kind::Pad, &[text("xyz"), number(10), text("y")]), (13, 13));
        assert_eq!(of(Kind::Pad, &[text("xyz"), number(10), text("é")]), (43, 43));
        // Occurrences count where they may matter.
        let long = "ab".repeat(1 << 20);
        assert_eq!(of(Kind::Replace, &[text(&long), text("b"), text("0123456789")]).1, (2 << 20) + (9 << 20));
        assert_eq!(of(Kind::Replace, &[text(&long), text("c"), text("0123456789")]).1, 2 << 20);
        assert_eq!(of(Kind::Split, &[text(&long), text("c")]).1, (2 << 20) + 16);
        assert_eq!(of(Kind::Series, &[number(10)]).1, 88);
        assert_eq!(of(Kind::Series, &[number(i64::MIN), number(i64::MAX), number(2)]).1, 8 << 63);
        for nothing in [[number(5), number(1), number(1)], [number(None), number(i64::MAX), number(1)]] {
            assert_eq!(of(Kind::Series, &nothing), (0, 0));
        }
        assert_eq!(of(Kind::RepeatElement, &[texts.clone(), number(100)]), ((1 + 2 + 2 + 21) * 100, 2100));
        assert_eq!(of(Kind::JoinTexts, &[text(", "), texts, text("x")]), (25 + 4 * 2 + 4 * (1 + 2), 26));
    }

    #[test]
    fn lists_are_as_large_as_their_elements() {
        let list = ScalarValue::new_list_nullable(&[1i64, 2, 3].map(|n| ScalarValue::Int64(Some(n))), &DataType::Int64);
        let list = ColumnarValue::Scalar(ScalarValue::List(list));
        assert_eq!(of(Kind::RepeatElement, &[list.clone(), number(1000)]).1, 24_000);
        assert_eq!(of(Kind::Resize, &[list.clone(), number(1000), number(0)]).1, 24 + 8_000);
        assert_eq!(of(Kind::JoinElements, &[list.clone(), text("----")]).1, 24 + 3 * (4 + 24));
        assert_eq!(of(Kind::ReplaceElements, &[list.clone(), number(1), number(2)]).1, 48);
    }
}
