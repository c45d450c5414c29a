//! Aggregates whose states can leave their rows as columns, to be merged by a later aggregation.
//!
//! The columns hold all of a state: merged in any order they give the result that the rows would have given.

use arrow_schema::DataType;

use super::{AggregateCall, AggregateFunction as F, AggregateMode, RegrKind, accumulators::SUMMED_INTEGERS};
use crate::Expr;

/// Digits of a decimal that [`DataType::Decimal128`] can add up 2^64 times.
const SUMMED_DIGITS: u8 = 18;

/// Digits of a decimal that the same can add up 10^10 times: no fewer than its sum is allowed to have.
const SUMMED_DIGITS_ANYWAY: u8 = 28;

/// Types of the columns that hold the states of `call`; `None` if there are none.
pub fn state_types(call: &AggregateCall) -> Option<Vec<DataType>> {
    if call.distinct {
        return None;
    }
    let float = || DataType::Float64;
    match call.function {
        F::CountStar | F::Count => Some(vec![DataType::Int64]),
        F::Sum | F::Min | F::Max | F::AnyValue | F::BoolAnd | F::BoolOr | F::BitAnd | F::BitOr | F::BitXor => {
            Some(vec![call.output.clone()])
        }
        F::ArgMin | F::ArgMax => Some(call.arg_types.clone()),
        F::Avg => match call.arg_types[..] {
            [DataType::Float64] => Some(vec![DataType::UInt64, float()]),
            [ref value] if value.is_integer() => Some(vec![DataType::UInt64, SUMMED_INTEGERS]),
            [DataType::Decimal128(..=SUMMED_DIGITS, scale)] => {
                Some(vec![DataType::UInt64, DataType::Decimal128(38, scale)])
            }
            _ => None,
        },
        F::VarSample | F::VarPopulation | F::StddevSample | F::StddevPopulation => {
            Some(vec![DataType::UInt64, float(), float()])
        }
        F::CovarSample | F::CovarPopulation | F::Correlation | F::Regression(_) => {
            let mut types = vec![DataType::UInt64];
            types.resize_with(6, float);
            Some(types)
        }
        F::FirstValue { .. } | F::FirstBy | F::Mode | F::MergeCounts | F::MergeModes => None,
    }
}

/// `call` as the first of two steps with a join in between, over rows that the join may drop; `None` if there is none. Its states cannot overflow:
/// what a join drops must not be an error, nor a sum that later ones make smaller.
pub fn before_join(call: &AggregateCall) -> Option<AggregateCall> {
    if call.distinct {
        return None;
    }
    let mut first = call.clone();
    match (call.function, &call.arg_types[..]) {
        (F::CountStar | F::Count | F::Min | F::Max | F::Avg | F::BoolAnd | F::BoolOr, _) => {}
        (F::Sum, [DataType::Float64]) => {}
        (F::Sum, [value]) if value.is_integer() => first.output = SUMMED_INTEGERS,
        (F::Sum, [DataType::Decimal128(..=SUMMED_DIGITS_ANYWAY, scale)]) => {
            first.output = DataType::Decimal128(38, *scale);
        }
        _ => return None,
    }
    state_types(&first).map(|_| first)
}

/// `call`, of which `first` made columns from `column` on [before the join](before_join), as the second step.
pub fn after_join(call: &AggregateCall, first: &AggregateCall, column: usize) -> AggregateCall {
    over_states(call, &state_types(first).unwrap_or_default(), column)
}

/// Types of the columns in which groups with the states of `call` move between grouping sets, in an aggregation of mode `mode`. Where states come
/// in, they stay what they are, but for a sum, which is in its own type once no join can drop it.
pub(crate) fn kept_states(call: &AggregateCall, mode: AggregateMode) -> Option<Vec<DataType>> {
    match (mode, call.function) {
        (AggregateMode::Final, F::Sum) => Some(vec![call.output.clone()]),
        (AggregateMode::Final, _) => Some(call.arg_types.clone()),
        _ => state_types(call),
    }
}

/// Whether the first column of the states of `call` is its result.
pub(crate) fn begins_with_result(call: &AggregateCall) -> bool {
    match call.function {
        F::Regression(kind) => kind == RegrKind::Count,
        function => !matches!(
            function,
            F::Avg
                | F::VarSample
                | F::VarPopulation
                | F::StddevSample
                | F::StddevPopulation
                | F::CovarSample
                | F::CovarPopulation
                | F::Correlation
        ),
    }
}

/// `call` over its own states, which are columns of `types` from `first` on.
pub(crate) fn over_states(call: &AggregateCall, types: &[DataType], first: usize) -> AggregateCall {
    AggregateCall {
        args: (first..first + types.len()).map(Expr::Column).collect(),
        arg_types: types.to_vec(),
        filter: None,
        ..call.clone()
    }
}
