//! Aggregates whose results depend on the order of rows where nobody says which: the order is that in which the rows lie where they come from, if it can be had.
//!
//! The place of each row is then one more column. A first value is the one with the least place; what is collected is handed over by place.
//!
//! Not here: what a place is (`places`).

use arrow_schema::SortOptions;

use super::{AggregateCall, AggregateFunction, AggregateMode, AggregateSpec};
use crate::{ExecContext, ExecSettings, Expr, OpenPipeline, places::Places};

/// Whether results of `spec` depend on an order that it does not say.
fn depends_on_order(spec: &AggregateSpec) -> bool {
    let is_first = |call: &AggregateCall| matches!(call.function, AggregateFunction::FirstValue { .. });
    let collects = spec.collected.as_ref().is_some_and(|collected| {
        // An order that was asked for is not all of it: values with equal keys come as they lie there.
        collected.aggregates.depends_on_order()
    });
    spec.mode == AggregateMode::Single && (collects || spec.aggregates.iter().any(is_first))
}

/// `spec` over `input`, with the places of its rows if results depend on them and the order is to be had.
pub(super) fn by_places(mut spec: AggregateSpec, input: &mut OpenPipeline, ctx: &ExecContext) -> AggregateSpec {
    if !depends_on_order(&spec) {
        return spec;
    }
    let ExecSettings { keeps_order, threads, .. } = *ctx.settings;
    let place = if keeps_order { input.number_rows(threads) } else { None };
    for call in &mut spec.aggregates {
        let AggregateFunction::FirstValue { ignore_nulls } = call.function else { continue };
        match place {
            Some(place) => {
                call.function = if ignore_nulls { AggregateFunction::ArgMin } else { AggregateFunction::FirstBy };
                call.args.push(Expr::Column(place));
                call.arg_types.push(Places::TYPE);
            }
            None => call.function = AggregateFunction::AnyValue,
        }
    }
    if let (Some(place), Some(collected)) = (place, &mut spec.collected) {
        collected.order.push((collected.columns.len(), SortOptions { descending: false, nulls_first: false }));
        collected.columns.push((Expr::Column(place), Places::TYPE));
    }
    spec
}
