//! Times in statements and plans: where the functions of times (`ogee_functions::times`) stand in for operators, casts and comparisons of DataFusion's.
//!
//! What depends on the zone of the session is a function that an analyzer rule puts in, with the zone in it (`zone_rule`). Two intervals are compared by their
//! length, a month for 30 days and a day for 24 hours (`order_rule`).
//!
//! Not here: dates and timestamps without a zone, which DataFusion computes with.

mod literals;
mod order_rule;
mod planner;
pub(crate) mod zone_rule;

use std::{ops::ControlFlow, sync::Arc};

use datafusion::{
    arrow::{
        array::RecordBatch,
        compute::cast,
        datatypes::{DataType, Schema},
    },
    common::{Result, config::ConfigOptions},
    error::DataFusionError,
    execution::{FunctionRegistry, SendableRecordBatchStream},
    logical_expr::Statement,
    physical_plan::stream::RecordBatchStreamAdapter,
    prelude::SessionContext,
    sql::sqlparser::ast::{self, Set},
};
use futures::TryStreamExt;
use ogee_functions::times::{
    Zone, extremum,
    truncated::{in_micros, in_range_only},
};

use crate::visitors;

pub(crate) use self::{
    literals::{in_interval, in_minus},
    order_rule::{IntervalOrder, IntervalWindows, length_of_text},
    planner::TimePlanner,
    zone_rule::ZoneRule,
};

/// `SET TimeZone` with the zone's own spelling of its name; other statements as they are.
///
/// # Errors
/// If there is no such zone.
pub fn with_known_zone(statement: Statement) -> Result<Statement> {
    Ok(match statement {
        Statement::SetVariable(mut set) if set.variable == "datafusion.execution.time_zone" => {
            set.value = Zone::named(&set.value)?.name();
            Statement::SetVariable(set)
        }
        other => other,
    })
}

/// Has functions that give instants give them in UTC, as all are: `SET TimeZone` makes them anew with the zone of the session.
pub fn keep_instants(context: &SessionContext) {
    let mut options = ConfigOptions::default();
    options.execution.time_zone = Some("UTC".to_owned());
    for name in ["now", "to_timestamp_seconds", "to_timestamp_millis", "to_timestamp_micros", "to_timestamp_nanos"] {
        let kept = context.udf(name).ok().and_then(|function| function.inner().with_updated_config(&options));
        match kept {
            Some(now) if name == "now" => context.register_udf(in_micros(Arc::new(now))),
            Some(kept) => context.register_udf(in_range_only(Arc::new(kept))),
            None => {}
        }
    }
}

/// `SET TIME ZONE` as the setting that it is of.
pub(crate) fn in_set(set: &mut Set) {
    if let Set::SetTimeZone { local: false, value } = set {
        let value = std::mem::replace(value, ast::Expr::value(ast::Value::Null));
        let variable = ast::ObjectName::from(vec![ast::Ident::new("TimeZone")]);
        *set = Set::SingleAssignment { scope: None, hivevar: false, variable, values: vec![value] };
    }
}

/// Whether a statement was refused for an average of intervals, for which DataFusion has none.
pub(crate) fn averages_intervals(error: &DataFusionError) -> bool {
    let message = error.to_string();
    message.contains("'avg'") && message.contains("Interval(")
}

/// Has all averages in `statement` be those of intervals.
pub(crate) fn name_averages(statement: &mut ast::Statement) {
    struct Averages;

    impl ast::VisitorMut for Averages {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
            if let ast::Expr::Function(function) = expr
                && function.name.to_string().eq_ignore_ascii_case("avg")
            {
                function.name = ast::ObjectName::from(vec![ast::Ident::new(extremum::INTERVAL_AVERAGE)]);
            }
            ControlFlow::Continue(())
        }
    }

    let visited = visitors::visit_mut(statement, &mut Averages);
    debug_assert!(visited.is_continue(), "the visitor never stops");
}

/// `rows` with instants shown in the zone of the session.
pub fn in_zone(rows: SendableRecordBatchStream, options: &ConfigOptions) -> SendableRecordBatchStream {
    let name = options.execution.time_zone.clone().unwrap_or_else(|| "UTC".to_owned());
    let schema = rows.schema();
    let elsewhere = |data_type: &DataType| match data_type {
        DataType::Timestamp(_, Some(zone)) => **zone != *name,
        _ => false,
    };
    if !schema.fields().iter().any(|field| elsewhere(field.data_type())) {
        return rows;
    }
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Timestamp(unit, Some(_)) => {
            let data_type = DataType::Timestamp(*unit, Some(name.as_str().into()));
            Arc::new(field.as_ref().clone().with_data_type(data_type))
        }
        _ => Arc::clone(field),
    });
    let shown = Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()));
    let to = Arc::clone(&shown);
    let rows = rows.and_then(move |batch| {
        let columns = batch.columns().iter().zip(to.fields()).map(|(column, field)| match column.data_type() {
            same if same == field.data_type() => Ok(Arc::clone(column)),
            // Another name for the zone; the instants stay.
            _ => cast(column, field.data_type()),
        });
        let columns = columns.collect::<Result<Vec<_>, _>>();
        let batch = columns.and_then(|columns| RecordBatch::try_new(Arc::clone(&to), columns));
        futures::future::ready(batch.map_err(Into::into))
    });
    Box::pin(RecordBatchStreamAdapter::new(shown, rows))
}
