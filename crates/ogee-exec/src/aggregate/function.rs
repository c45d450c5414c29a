//! The aggregate functions and what they are computed over.

use std::{fmt, sync::Arc};

use arrow_array::ArrayRef;
use arrow_schema::{DataType, SchemaRef, SortOptions};

use crate::{ExecError, Expr};

/// Which of the `regr_*` functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as in SQL")]
pub enum RegrKind {
    Slope,
    Intercept,
    Count,
    R2,
    AvgX,
    AvgY,
    Sxx,
    Syy,
    Sxy,
}

/// An aggregate function with kernels over rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as in SQL")]
pub enum AggregateFunction {
    CountStar,
    Count,
    Sum,
    Avg,
    Min,
    Max,
    /// Some row's value, one that is not NULL if there is one.
    AnyValue,
    /// The value of the first row in the order in which rows lie where they come from, or of the first whose value is not NULL; where there is no such order, some row's.
    FirstValue {
        ignore_nulls: bool,
    },
    /// The first argument, or NULL, where the second is least; rows where that is NULL do not count.
    FirstBy,
    /// The first argument where the second is least; rows with a NULL in either do not count.
    ArgMin,
    /// The same where it is greatest.
    ArgMax,
    BoolAnd,
    BoolOr,
    BitAnd,
    BitOr,
    BitXor,
    VarSample,
    VarPopulation,
    StddevSample,
    StddevPopulation,
    CovarSample,
    CovarPopulation,
    Correlation,
    Regression(RegrKind),
    /// The most frequent value; of several, the least. Values are counted in a step of their own.
    Mode,
    /// Sum of counts, 0 of no rows: the outer step of a count beside distinct arguments.
    MergeCounts,
    /// The first argument where the second, its count, is greatest; of several, the least: the outer step of a mode.
    MergeModes,
}

/// One aggregate of an aggregation.
#[derive(Clone, Debug)]
pub struct AggregateCall {
    /// The function.
    pub function: AggregateFunction,
    /// Its arguments; in [`AggregateMode::Final`] the columns of its state.
    pub args: Vec<Expr>,
    /// Normalized types of the arguments.
    pub arg_types: Vec<DataType>,
    /// Only rows for which this is true count.
    pub filter: Option<Expr>,
    /// Equal arguments count once.
    pub distinct: bool,
    /// Normalized type of the result.
    pub output: DataType,
}

/// A key of the grouping.
#[derive(Clone, Debug)]
pub struct GroupKey {
    /// Its value.
    pub expr: Expr,
    /// Its normalized type.
    pub data_type: DataType,
}

/// One of several groupings that are computed over the same rows.
#[derive(Clone, Debug)]
pub struct GroupingSet {
    /// For each key: whether it is NULL in this set.
    pub nulls: Vec<bool>,
    /// What tells the groups of this set from those of others: one row, appended to the keys.
    pub id: ArrayRef,
}

/// What comes in and what goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateMode {
    /// Rows in, results out.
    Single,
    /// Rows in, states out.
    Partial,
    /// States in, results out.
    Final,
    /// States in, states out. For aggregates of which all of the state leaves the row; see [`AggregateSpec::grouping_sets`].
    Merge,
}

impl AggregateMode {
    /// Whether states come in.
    pub(crate) fn merges(self) -> bool {
        matches!(self, Self::Final | Self::Merge)
    }

    /// Whether states go out.
    pub(crate) fn gives_states(self) -> bool {
        matches!(self, Self::Partial | Self::Merge)
    }
}

/// Aggregates whose states grow with their values, brought by the front end: medians, lists, sketches, users' own.
///
/// What they read is kept as rows, which spill like all others; the functions themselves see the values of one partition only, and that
/// when no more will come.
#[derive(Clone, Debug)]
pub struct Collected {
    /// What they read, with normalized types.
    pub columns: Vec<(Expr, DataType)>,
    /// The order in which values of a group are handed over, by columns of [`Self::columns`]; any, if this is empty.
    pub order: Vec<(usize, SortOptions)>,
    /// Whether the statement asks for the order; if not, values come in it where those of a partition fit into memory.
    pub order_is_asked: bool,
    /// The functions.
    pub aggregates: Arc<dyn CollectedAggregates>,
}

/// The functions of a [`Collected`] aggregation.
pub trait CollectedAggregates: fmt::Debug + Send + Sync {
    /// Whether the result of one depends on the order in which values of a group come.
    fn depends_on_order(&self) -> bool {
        true
    }

    /// Accumulators without groups.
    ///
    /// # Errors
    /// As the functions fail.
    fn make(&self) -> Result<Box<dyn GroupAccumulators>, ExecError>;
}

/// States of all functions for the groups of a partition.
pub trait GroupAccumulators: Send {
    /// Before the first rows: that there will be `rows`, all of which are kept. Their states may take what they need at once.
    fn expect(&mut self, rows: usize) {
        let _ = rows;
    }

    /// Adds rows: `columns` as in [`Collected::columns`], and the number of each row's group, below `total_groups`.
    ///
    /// # Errors
    /// As the functions fail.
    fn update(&mut self, columns: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<(), ExecError>;

    /// Bytes that the states take.
    fn size(&self) -> usize;

    /// Before the first rows: there are too many to be kept. Whether [`Self::end_pass`] may ask for them again.
    fn begin_passes(&mut self) -> bool;

    /// All rows were there. Whether all of them must come again.
    fn end_pass(&mut self) -> bool;

    /// The results, one array for each function, one value for each group; the states are then empty.
    ///
    /// # Errors
    /// As the functions fail.
    fn evaluate(&mut self) -> Result<Vec<ArrayRef>, ExecError>;
}

/// A hash aggregation.
#[derive(Clone, Debug)]
pub struct AggregateSpec {
    /// What the rows are grouped by; none: one group, also of no rows.
    pub keys: Vec<GroupKey>,
    /// Several groupings at once, or one by all keys.
    pub grouping_sets: Option<Vec<GroupingSet>>,
    /// What is computed for each group while rows come.
    pub aggregates: Vec<AggregateCall>,
    /// What is computed once all rows of a group are there; then there are no others, and the mode is [`AggregateMode::Single`].
    pub collected: Option<Collected>,
    /// What comes in and goes out.
    pub mode: AggregateMode,
    /// The result: keys, the id of the grouping set if there are sets, then results or states.
    pub schema: SchemaRef,
}
