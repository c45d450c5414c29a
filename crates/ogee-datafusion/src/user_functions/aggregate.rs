//! Aggregates: a value for each group, of the values of its rows.

use std::{
    collections::HashSet,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, new_empty_array},
        compute::{SortColumn, SortOptions, cast, concat, lexsort_to_indices, take},
        datatypes::{DataType, Field, FieldRef},
    },
    common::{ScalarValue, internal_err, utils::SingleRowListArrayBuilder},
    error::Result as PlanResult,
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::{AggregateOrderSensitivity, format_state_name},
    },
};
use ogee_functions::{Error, Result};

use super::{UserError, called, coerced, new_number, of_type, rows_without_null, some_rows};

/// What an aggregate knows of the rows of one group.
pub trait AggregateState: Send + Sync {
    /// Adds rows: a column for each argument, all of the same length.
    ///
    /// # Errors
    /// Any; the statement ends with it.
    fn update(&mut self, arguments: &[ArrayRef]) -> Result<(), UserError>;

    /// All that it knows, in values of the types that the function was made with.
    ///
    /// # Errors
    /// Any; the statement ends with it.
    fn state(&self) -> Result<Vec<ScalarValue>, UserError>;

    /// Adds what others know: a column for each value of [`state`](Self::state), and a row for each of the others.
    ///
    /// # Errors
    /// Any; the statement ends with it.
    fn merge(&mut self, states: &[ArrayRef]) -> Result<(), UserError>;

    /// The value of the group. Asked again after further rows in windows.
    ///
    /// # Errors
    /// Any; the statement ends with it.
    fn finish(&self) -> Result<ScalarValue, UserError>;

    /// Bytes that it holds, which are counted against the memory limit. The rows of an aggregation spill, and states do not: a state that grows with its rows says so here, or it is
    /// seen only by the account of the whole process.
    fn size(&self) -> usize {
        size_of_val(self)
    }
}

type Make = Arc<dyn Fn() -> Box<dyn AggregateState> + Send + Sync>;

/// An aggregate of a program.
#[derive(Clone)]
pub struct AggregateFunction {
    number: u64,
    name: String,
    arguments: Vec<DataType>,
    returns: DataType,
    state: Vec<DataType>,
    signature: Signature,
    sees_nulls: bool,
    make: Make,
}

impl AggregateFunction {
    /// An aggregate called `name`, of arguments of these types, that gives a value of type `returns`: `make` makes the state of a group without rows, which can be told in values of
    /// types `state`.
    ///
    /// Rows with a NULL among their arguments are left out, unless it [sees NULLs](Self::sees_nulls). `DISTINCT`, `FILTER`, `ORDER BY` and `OVER` behind a call are seen to by the engine.
    pub fn new<S: AggregateState + 'static>(
        name: impl Into<String>,
        arguments: impl IntoIterator<Item = DataType>,
        returns: DataType,
        state: impl IntoIterator<Item = DataType>,
        make: impl Fn() -> S + Send + Sync + 'static,
    ) -> Self {
        Self {
            number: new_number(),
            name: name.into().to_ascii_lowercase(),
            arguments: arguments.into_iter().collect(),
            returns,
            state: state.into_iter().collect(),
            signature: Signature::user_defined(Volatility::Immutable),
            sees_nulls: false,
            make: Arc::new(move || Box::new(make())),
        }
    }

    /// Rows with a NULL among their arguments are not left out.
    #[must_use]
    pub fn sees_nulls(mut self) -> Self {
        self.sees_nulls = true;
        self
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many arguments it takes.
    pub(crate) fn arguments(&self) -> usize {
        self.arguments.len()
    }

    pub(crate) fn registered(self) -> AggregateUDF {
        AggregateUDF::new_from_impl(self)
    }

    /// What takes the rows of a group.
    fn rows(&self, is_distinct: bool) -> Result<Box<dyn Accumulator>> {
        let group = self.group()?;
        Ok(match is_distinct {
            true => Box::new(Distinct { group, rows: Vec::new(), seen: HashSet::new(), bytes: 0 }),
            false => Box::new(group),
        })
    }

    fn group(&self) -> Result<Group> {
        let state = called(&self.name, || Ok((self.make)()))?;
        Ok(Group { function: self.clone(), state, failed: false })
    }
}

impl fmt::Debug for AggregateFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AggregateFunction")
            .field("name", &self.name)
            .field("arguments", &self.arguments)
            .field("returns", &self.returns)
            .finish_non_exhaustive()
    }
}

impl PartialEq for AggregateFunction {
    fn eq(&self, other: &Self) -> bool {
        (self.number, self.sees_nulls) == (other.number, other.sees_nulls)
    }
}

impl Eq for AggregateFunction {}

impl Hash for AggregateFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl AggregateUDFImpl for AggregateFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> PlanResult<DataType> {
        Ok(self.returns.clone())
    }

    fn coerce_types(&self, given: &[DataType]) -> PlanResult<Vec<DataType>> {
        coerced(&self.name, given, &self.arguments)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> PlanResult<Box<dyn Accumulator>> {
        if args.order_bys.is_empty() {
            return Ok(self.rows(args.is_distinct)?);
        }
        let options = args.order_bys.iter().map(|by| by.options).collect();
        let (function, is_distinct) = (self.clone(), args.is_distinct);
        Ok(Box::new(Ordered { function, is_distinct, options, held: Vec::new(), bytes: 0 }))
    }

    /// It sorts its rows itself: DataFusion forgets what a function requires that has no reverse.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Beneficial
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        _beneficial_ordering: bool,
    ) -> PlanResult<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> PlanResult<Box<dyn Accumulator>> {
        let held = args.expr_fields.iter().map(|field| new_empty_array(field.data_type())).collect();
        Ok(Box::new(Frame { function: self.clone(), is_distinct: args.is_distinct, held }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> PlanResult<Vec<FieldRef>> {
        let list = |data_type: &DataType| DataType::new_list(data_type.clone(), true);
        let keys = args.ordering_fields.iter().map(|field| field.data_type());
        let types: Vec<DataType> = match args.is_distinct || !args.ordering_fields.is_empty() {
            true => self.arguments.iter().chain(keys).map(list).collect(),
            false => self.state.clone(),
        };
        let field = |(at, data_type)| {
            Arc::new(Field::new(format_state_name(args.name, &format!("state {at}")), data_type, true))
        };
        Ok(types.into_iter().enumerate().map(field).collect())
    }

    fn default_value(&self, _data_type: &DataType) -> PlanResult<ScalarValue> {
        self.group()?.value().map_err(Into::into)
    }
}

/// The rows of one group.
struct Group {
    function: AggregateFunction,
    state: Box<dyn AggregateState>,
    /// It is as a panic or an error has left it.
    failed: bool,
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({})", self.function.name)
    }
}

impl Group {
    /// What `call` gives, of a state that nothing has gone wrong with.
    fn with<T>(&mut self, call: impl FnOnce(&mut dyn AggregateState) -> Result<T, UserError>) -> Result<T> {
        let name = &self.function.name;
        if self.failed {
            return Err(Error::Execution(format!("function '{name}' failed before")));
        }
        let state = &mut *self.state;
        let given = called(name, || call(state));
        self.failed = given.is_err();
        given
    }

    fn update(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let typed = columns.iter().zip(&self.function.arguments).map(|(column, declared)| {
            Ok(if column.data_type() == declared { Arc::clone(column) } else { cast(column, declared)? })
        });
        let mut columns = typed.collect::<PlanResult<Vec<ArrayRef>>>()?;
        if !self.function.sees_nulls
            && let Some(seen) = rows_without_null(&columns)
        {
            columns = some_rows(&columns, &seen)?;
        }
        if columns.first().is_some_and(|column| column.is_empty()) {
            return Ok(());
        }
        self.with(|state| state.update(&columns))
    }

    fn value(&mut self) -> Result<ScalarValue> {
        let value = self.with(|state| state.finish())?;
        if value.is_null() {
            return Ok(ScalarValue::try_from(&self.function.returns)?);
        }
        if value.data_type() == self.function.returns {
            return Ok(value);
        }
        let array = of_type(&self.function.name, value.to_array()?, &self.function.returns)?;
        Ok(ScalarValue::try_from_array(&array, 0)?)
    }
}

impl Accumulator for Group {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> PlanResult<()> {
        Ok(self.update(columns)?)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> PlanResult<()> {
        Ok(self.with(|state| state.merge(states))?)
    }

    fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
        let state = self.with(|state| state.state())?;
        let types: Vec<DataType> = state.iter().map(ScalarValue::data_type).collect();
        if types != self.function.state {
            let name = &self.function.name;
            return Err(Error::Execution(format!(
                "function '{name}' told its state as {types:?}, and it was declared to be {:?}",
                self.function.state
            ))
            .into());
        }
        Ok(state)
    }

    fn evaluate(&mut self) -> PlanResult<ScalarValue> {
        Ok(self.value()?)
    }

    fn size(&self) -> usize {
        // A panic here has no statement that could be told; the next call tells of it.
        let size = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.state.size()));
        size_of_val(self) + size.unwrap_or(0)
    }
}

/// The rows of a group of `agg(DISTINCT ..)`, each once, in the order in which they came. The function sees them when it is asked.
#[derive(Debug)]
struct Distinct {
    group: Group,
    rows: Vec<Vec<ScalarValue>>,
    seen: HashSet<Vec<ScalarValue>>,
    bytes: usize,
}

impl Distinct {
    fn columns(&self) -> PlanResult<Vec<ArrayRef>> {
        let column = |at: usize| ScalarValue::iter_to_array(self.rows.iter().map(|row| row[at].clone()));
        (0..self.group.function.arguments.len()).map(column).collect()
    }
}

/// Hands the rows of each group, of which `states` have a list for each column, to `add`.
fn each_group(states: &[ArrayRef], mut add: impl FnMut(&[ArrayRef]) -> PlanResult<()>) -> PlanResult<()> {
    let lists: Vec<_> = states.iter().map(|state| state.as_list::<i32>()).collect();
    (0..lists.first().map_or(0, |list| list.len())).try_for_each(|group| {
        let columns: Vec<ArrayRef> = lists.iter().map(|list| list.value(group)).collect();
        add(&columns)
    })
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> PlanResult<()> {
        // What it is ordered by may follow.
        let columns = &columns[..self.group.function.arguments.len()];
        for row in 0..columns.first().map_or(0, |column| column.len()) {
            let values = columns.iter().map(|column| ScalarValue::try_from_array(column, row));
            let values = values.collect::<PlanResult<Vec<_>>>()?;
            if self.seen.insert(values.clone()) {
                self.bytes += 2 * values.iter().map(ScalarValue::size).sum::<usize>() + 4 * size_of::<usize>();
                self.rows.push(values);
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> PlanResult<()> {
        each_group(states, |columns| self.update_batch(columns))
    }

    fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
        let list = |(at, data_type): (usize, &DataType)| {
            let values: Vec<ScalarValue> = self.rows.iter().map(|row| row[at].clone()).collect();
            ScalarValue::List(ScalarValue::new_list_nullable(&values, data_type))
        };
        Ok(self.group.function.arguments.iter().enumerate().map(list).collect())
    }

    fn evaluate(&mut self) -> PlanResult<ScalarValue> {
        // In windows it is asked again after further rows.
        let mut group = self.group.function.group()?;
        if !self.rows.is_empty() {
            group.update(&self.columns()?)?;
        }
        Ok(group.value()?)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bytes
    }
}

/// The rows of a frame that leaves rows behind: nothing can be taken out of a state, so a new one is made of all of them.
#[derive(Debug)]
struct Frame {
    function: AggregateFunction,
    is_distinct: bool,
    held: Vec<ArrayRef>,
}

impl Accumulator for Frame {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> PlanResult<()> {
        for (held, new) in self.held.iter_mut().zip(columns) {
            *held = concat(&[&**held, &**new])?;
        }
        Ok(())
    }

    fn retract_batch(&mut self, columns: &[ArrayRef]) -> PlanResult<()> {
        // Those that came first go first.
        let gone = columns.first().map_or(0, |column| column.len());
        for held in &mut self.held {
            *held = held.slice(gone, held.len() - gone);
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> PlanResult<()> {
        internal_err!("frames are not merged")
    }

    fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
        internal_err!("frames are not merged")
    }

    fn evaluate(&mut self) -> PlanResult<ScalarValue> {
        let mut rows = self.function.rows(self.is_distinct)?;
        if self.held.first().is_some_and(|column| !column.is_empty()) {
            rows.update_batch(&self.held)?;
        }
        rows.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.held.iter().map(|column| column.get_array_memory_size()).sum::<usize>()
    }
}

/// The rows of a group of `agg(x ORDER BY y)`, with what they are ordered by behind their arguments. The function sees them when it is asked.
#[derive(Debug)]
struct Ordered {
    function: AggregateFunction,
    is_distinct: bool,
    options: Vec<SortOptions>,
    held: Vec<Vec<ArrayRef>>,
    bytes: usize,
}

impl Ordered {
    fn width(&self) -> usize {
        self.function.arguments.len() + self.options.len()
    }

    /// All columns, in one piece; none if there are no rows.
    fn columns(&self) -> PlanResult<Vec<ArrayRef>> {
        if self.held.is_empty() {
            return Ok(Vec::new());
        }
        let column = |at: usize| {
            let parts: Vec<&dyn Array> = self.held.iter().map(|columns| &*columns[at]).collect();
            Ok(concat(&parts)?)
        };
        (0..self.width()).map(column).collect()
    }
}

impl Accumulator for Ordered {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> PlanResult<()> {
        if columns.len() < self.width() {
            return internal_err!("'{}' is ordered by what it is not given", self.function.name);
        }
        if columns[0].is_empty() {
            return Ok(());
        }
        let columns = columns[..self.width()].to_vec();
        let bytes = columns.iter().map(|column| column.to_data().get_slice_memory_size());
        self.bytes += bytes.sum::<Result<usize, _>>()? + columns.len() * size_of::<ArrayRef>();
        self.held.push(columns);
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> PlanResult<()> {
        each_group(states, |columns| self.update_batch(columns))
    }

    fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
        let list =
            |column: ArrayRef| ScalarValue::List(Arc::new(SingleRowListArrayBuilder::new(column).build_list_array()));
        let columns = self.columns()?;
        match columns.is_empty() {
            true => internal_err!("a group of no rows has no state"),
            false => Ok(columns.into_iter().map(list).collect()),
        }
    }

    fn evaluate(&mut self) -> PlanResult<ScalarValue> {
        let mut rows = self.function.rows(self.is_distinct)?;
        let columns = self.columns()?;
        if !columns.is_empty() {
            let (arguments, keys) = columns.split_at(self.function.arguments.len());
            let by = keys.iter().zip(&self.options);
            let by = by.map(|(key, options)| SortColumn { values: Arc::clone(key), options: Some(*options) });
            let order = lexsort_to_indices(&by.collect::<Vec<_>>(), None)?;
            let sorted = arguments.iter().map(|column| Ok(take(column, &order, None)?));
            rows.update_batch(&sorted.collect::<PlanResult<Vec<_>>>()?)?;
        }
        rows.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bytes
    }
}
