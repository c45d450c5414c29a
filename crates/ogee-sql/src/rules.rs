//! The rules of a session, in their order, and what plans operators, types and relations that DataFusion does not.
//!
//! Not here: rules on physical plans.

use std::sync::Arc;

use datafusion::{
    logical_expr::planner::{ExprPlanner, RelationPlanner, TypePlanner},
    optimizer::{Analyzer, AnalyzerRule, OptimizerRule},
    prelude::SessionContext,
};
use ogee_functions::{
    bits::Bits,
    framed_rows,
    json::JsonAccess,
    lists::ListOperators,
    maps::MapAccess,
    marks::{Casts, bits::BitStrings},
    series::SeriesPlanner,
    text_parts::TextAccess,
};

pub use crate::deep_expressions::Planner as PiecePlanner;
use crate::{
    asof,
    casts::{NamedCasts, named_cast},
    checked::CheckedArithmetic,
    common_types::CommonTypes,
    computed::ComputedKeys,
    constant_keys::with_linking_keys,
    constants_last::ConstantsLast,
    deep_expressions::DeepExpressions,
    dependencies::with_dependencies,
    distinct_arguments::DistinctArguments,
    enum_order::EnumOrder,
    equal_windows::with_single_windows,
    failing_casts::FailingCasts,
    fields_of_any_case::FieldsOfAnyCase,
    filter_pushdown::with_filters_above_groups,
    float_order::FloatOrder,
    fresh_schemas::with_fresh_schemas,
    grouping_keys::GroupingKeys,
    guarded_rules::guarded,
    in_lists::InLists,
    joined_texts::TextOrders,
    lambda_types::LambdaTypes,
    marked_casts::MarkedCasts,
    misplaced_calls::MisplacedCalls,
    nested_order::NestedOrder,
    null_equality,
    parameters::ParameterPlanner,
    quantified,
    quotients::{Division, Quotients},
    range_offsets::RangeOffsets,
    recursions::{self, Recursions},
    recursive_types::{RecursiveTypes, TermTypes},
    repeated_orders::{RepeatedOrders, with_single_keys},
    samples::{self, Samples},
    set_operations::CountCopies,
    sliding_frames::SlidingFrames,
    sorted_rows::SortedRows,
    subqueries::{OuterAggregates, OuterTypes, Subqueries, SubqueriesBelow},
    syntax, times,
    truth_values::TruthValues,
    types,
    unordered_windows::UnorderedWindows,
    window_filters::WindowFilters,
};

/// All analyzer rules. Pieces of deep expressions are planned by `pieces`, casts are `casts`, and whole numbers are divided as `division` says.
pub fn analyzer_rules(
    pieces: PiecePlanner,
    casts: Casts,
    division: &Arc<Division>,
) -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    // Before types are coerced.
    let mut rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>> = vec![
        Arc::new(MisplacedCalls),
        Arc::new(Samples),
        Arc::new(MarkedCasts::new(casts.clone())),
        Arc::new(EnumOrder(casts.clone())),
        Arc::new(DeepExpressions::new(pieces)),
        Arc::new(OuterAggregates),
        Arc::new(quantified::QueriesOfLists),
        Arc::new(SubqueriesBelow),
        Arc::new(RangeOffsets),
        Arc::new(SortedRows),
        Arc::new(GroupingKeys),
        Arc::new(RecursiveTypes(Arc::clone(division))),
        Arc::new(CommonTypes(Arc::clone(division))),
        Arc::new(times::IntervalWindows),
    ];
    rules.extend(Analyzer::new().rules);
    let after: [Arc<dyn AnalyzerRule + Send + Sync>; 24] = [
        Arc::new(TermTypes),
        Arc::new(LambdaTypes),
        Arc::new(OuterTypes(Arc::clone(division))),
        Arc::new(RepeatedOrders),
        Arc::new(NamedCasts),
        Arc::new(times::ZoneRule),
        Arc::new(asof::AsofJoins),
        // As long as set operations are the only joins of their kind.
        Arc::new(CountCopies),
        Arc::new(Subqueries),
        Arc::new(FloatOrder),
        Arc::new(CheckedArithmetic(casts)),
        Arc::new(WindowFilters),
        Arc::new(times::IntervalOrder),
        Arc::new(NestedOrder),
        Arc::new(ConstantsLast),
        Arc::new(InLists),
        Arc::new(DistinctArguments),
        Arc::new(TextOrders),
        Arc::new(SlidingFrames),
        Arc::new(FailingCasts),
        Arc::new(UnorderedWindows),
        Arc::new(ComputedKeys),
        // Of queries whose subqueries are joins, and that other rules know as DataFusion's.
        Arc::new(Recursions),
        // What they have changed may be what a lambda gets.
        Arc::new(LambdaTypes),
    ];
    rules.extend(after);
    rules
}

/// All rules of the optimizer.
pub fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let rules = with_filters_above_groups(asof::with_left_filters(null_equality::optimizer_rules()));
    let rules = with_linking_keys(rules);
    guarded(with_dependencies(with_single_windows(with_single_keys(with_fresh_schemas(rules)))))
}

/// What plans operators before DataFusion does; parts of JSON are planned by `access`, bits by `bits`, and quotients as `division` says.
pub fn expr_planners(access: JsonAccess, bits: BitStrings, division: &Arc<Division>) -> Vec<Arc<dyn ExprPlanner>> {
    vec![
        Arc::new(ParameterPlanner),
        Arc::new(access),
        Arc::new(bits),
        Arc::new(FieldsOfAnyCase),
        Arc::new(times::TimePlanner),
        Arc::new(Quotients(Arc::clone(division))),
        Arc::new(TruthValues),
        Arc::new(Bits),
        Arc::new(ListOperators),
        Arc::new(MapAccess),
        Arc::new(TextAccess),
    ]
}

/// What plans types before DataFusion does.
pub fn type_planner() -> Arc<dyn TypePlanner> {
    Arc::new(types::Types)
}

/// What plans tables in `FROM` before DataFusion does.
pub fn relation_planners() -> Vec<Arc<dyn RelationPlanner>> {
    vec![Arc::new(syntax::samples::SamplePlanner), Arc::new(SeriesPlanner)]
}

/// Adds the functions to `context` that the text of statements is written with here, and that rules take out of plans again.
pub fn register_markers(context: &SessionContext) {
    let own = [asof::marker(), named_cast(), quantified::function(), recursions::marker(), samples::marker()];
    for function in own.into_iter().chain(framed_rows::functions()) {
        context.register_udf(function);
    }
}
