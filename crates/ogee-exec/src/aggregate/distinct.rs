//! `DISTINCT` arguments and modes, by grouping twice.
//!
//! Rows are expanded into one set for each distinct argument and one for the aggregates without `DISTINCT`. The inner aggregation groups
//! by the keys, the distinct arguments (NULL but in their own set) and the set's number; so each value of an argument is left
//! once for each group, as a row that spills like any other. The outer aggregation groups by the keys and computes the functions
//! over what is left; results without `DISTINCT` are those of the inner one. A mode is the value of which the inner one counted most rows.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int8Array};
use arrow_schema::{DataType, Field, Schema};
use ogee_vector::PhysicalType;

use super::{
    AggregateCall, AggregateFunction, AggregateMode, AggregateSpec, GroupKey, RegrKind,
    expand::{Appended, Expand},
};
use crate::{CompareOp, Expr, Operator};

/// Whether `call` is over the different values of its argument.
pub(crate) fn is_over_values(call: &AggregateCall) -> bool {
    call.distinct || call.function == AggregateFunction::Mode
}

/// An aggregation with distinct arguments as two without.
pub(crate) struct TwoSteps {
    pub(crate) expand: Arc<dyn Operator>,
    pub(crate) inner: AggregateSpec,
    pub(crate) outer: AggregateSpec,
}

/// Splits `spec`, some of whose calls [are over values](is_over_values), over rows of `input_columns` columns.
pub(crate) fn split(spec: AggregateSpec, input_columns: usize) -> TwoSteps {
    assert!(spec.mode == AggregateMode::Single, "`supports` admits distinct arguments in one step only");
    let (distinct, plain): (Vec<_>, Vec<_>) = spec.aggregates.iter().partition(|call| is_over_values(call));
    let first_distinct = usize::from(!plain.is_empty());
    let sets = first_distinct + distinct.len();
    let literal = |set: usize| Arc::new(Int8Array::from(vec![set as i8])) as ArrayRef;

    // What is appended to the input: each distinct argument, and the number of the set.
    let mut appended = Vec::new();
    let mut inner_keys = spec.keys.clone();
    for (i, call) in distinct.iter().enumerate() {
        let nulls = (0..sets).map(|set| set != first_distinct + i).collect();
        let expr = match &call.filter {
            None => call.args[0].clone(),
            Some(filter) => {
                Expr::NullUnless { value: Box::new(call.args[0].clone()), condition: Box::new(filter.clone()) }
            }
        };
        appended.push(Appended::value(expr, &call.arg_types[0], nulls));
        inner_keys.push(GroupKey { expr: Expr::Column(input_columns + i), data_type: call.arg_types[0].clone() });
    }
    // Strings that only the set of the plain calls needs: rows of the other sets would carry them for nothing.
    let mut inner_calls: Vec<AggregateCall> = plain.into_iter().cloned().collect();
    for call in &mut inner_calls {
        for (arg, data_type) in call.args.iter_mut().zip(&call.arg_types) {
            if PhysicalType::of(data_type).is_ok_and(PhysicalType::has_heap) {
                let column = Expr::Column(input_columns + appended.len());
                let nulls = (0..sets).map(|set| set != 0).collect();
                appended.push(Appended::value(std::mem::replace(arg, column), data_type, nulls));
            }
        }
    }
    inner_keys.push(GroupKey { expr: Expr::Column(input_columns + appended.len()), data_type: DataType::Int8 });
    appended.push(Appended::PerSet((0..sets).map(literal).collect()));

    let keys = spec.keys.len();
    let set_column = keys + distinct.len();
    let mut fields: Vec<Field> = inner_keys
        .iter()
        .enumerate()
        .map(|(i, key)| Field::new(format!("k{i}"), key.data_type.clone(), true))
        .collect();
    let count_column = set_column + 1 + inner_calls.len();
    if distinct.iter().any(|call| call.function == AggregateFunction::Mode) {
        inner_calls.push(AggregateCall {
            function: AggregateFunction::CountStar,
            args: Vec::new(),
            arg_types: Vec::new(),
            filter: None,
            distinct: false,
            output: DataType::Int64,
        });
    }
    fields.extend(inner_calls.iter().enumerate().map(|(i, c)| Field::new(format!("a{i}"), c.output.clone(), true)));

    let (mut next_distinct, mut next_plain) = (keys, set_column + 1);
    let mut outer_calls = Vec::with_capacity(spec.aggregates.len());
    for call in &spec.aggregates {
        let over = |column: usize, function, arg_type: &DataType, filter| AggregateCall {
            function,
            args: vec![Expr::Column(column)],
            arg_types: vec![arg_type.clone()],
            filter,
            distinct: false,
            output: call.output.clone(),
        };
        outer_calls.push(if is_over_values(call) {
            next_distinct += 1;
            let mut outer = over(next_distinct - 1, call.function, &call.arg_types[0], None);
            if call.function == AggregateFunction::Mode {
                outer.function = AggregateFunction::MergeModes;
                outer.args.push(Expr::Column(count_column));
                outer.arg_types.push(DataType::Int64);
            }
            outer
        } else {
            next_plain += 1;
            let own_set = Expr::Compare { op: CompareOp::Eq, column: set_column, literal: literal(0) };
            let function = match call.function {
                // Of no rows it is 0, not NULL.
                AggregateFunction::Count
                | AggregateFunction::CountStar
                | AggregateFunction::Regression(RegrKind::Count) => AggregateFunction::MergeCounts,
                _ => AggregateFunction::AnyValue,
            };
            over(next_plain - 1, function, &call.output, Some(own_set))
        });
    }
    let inner = AggregateSpec {
        keys: inner_keys,
        grouping_sets: None,
        aggregates: inner_calls,
        collected: None,
        mode: AggregateMode::Single,
        schema: Arc::new(Schema::new(fields)),
    };
    let outer_keys = spec.keys.iter().enumerate();
    let outer = AggregateSpec {
        keys: outer_keys.map(|(i, k)| GroupKey { expr: Expr::Column(i), data_type: k.data_type.clone() }).collect(),
        grouping_sets: None,
        aggregates: outer_calls,
        collected: None,
        mode: AggregateMode::Single,
        schema: spec.schema,
    };
    TwoSteps { expand: Arc::new(Expand::new(sets, input_columns, appended)), inner, outer }
}
