//! The aggregate functions and what they are computed over.

use arrow_array::ArrayRef;
use arrow_schema::{DataType, SchemaRef};

use crate::Expr;

/// Which of the `regr_*` functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in SQL")]
pub enum AggregateFunction {
    CountStar,
    Count,
    Sum,
    Avg,
    Min,
    Max,
    /// Some row's value; `any_value` too. A value that is not NULL is preferred, which is a valid answer for both settings.
    FirstValue {
        ignore_nulls: bool,
    },
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
    /// Sum of counts, 0 of no rows: the outer step of a count beside distinct arguments.
    MergeCounts,
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
}

/// A hash aggregation.
#[derive(Clone, Debug)]
pub struct AggregateSpec {
    /// What the rows are grouped by; none: one group, also of no rows.
    pub keys: Vec<GroupKey>,
    /// Several groupings at once, or one by all keys.
    pub grouping_sets: Option<Vec<GroupingSet>>,
    /// What is computed for each group.
    pub aggregates: Vec<AggregateCall>,
    /// What comes in and goes out.
    pub mode: AggregateMode,
    /// The result: keys, the id of the grouping set if there are sets, then results or states.
    pub schema: SchemaRef,
}
