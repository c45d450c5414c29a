//! Times: zones, intervals, their texts and their parts, as DuckDB and PostgreSQL have them.
//!
//! A `TIMESTAMPTZ` is an instant: a number of microseconds since 1970 in UTC, of the type `Timestamp(us, "UTC")` whatever the session's zone. What depends on
//! the zone of the session is a function that has the zone in it. An interval is months, days and a time; two are compared by their length, a month for 30 days
//! and a day for 24 hours.
//!
//! Not here: dates and timestamps without a zone, which DataFusion computes with; where a plan needs these functions, which rules on plans know.

mod buckets;
mod differences;
pub mod extremum;
pub mod far;
pub mod formats;
pub mod infinite;
pub mod instants;
pub mod intervals;
mod made;
pub mod moments;
pub mod moved;
pub mod parts;
pub(crate) mod series;
pub mod truncated;
pub mod written;
mod zones;

use datafusion::{
    common::{Result, config::ConfigOptions},
    logical_expr::{AggregateUDF, ScalarUDF},
};

pub use self::zones::{Zone, zone_in_text};

/// The scalar functions that statements may name.
pub fn functions() -> Vec<ScalarUDF> {
    let mut functions = vec![parts::date_part(), instants::timezone(), truncated::date_trunc(), truncated::to_char()];
    functions.extend(intervals::functions());
    functions.extend(formats::functions());
    functions.extend(differences::functions());
    functions.extend(made::functions());
    functions.push(buckets::time_bucket());
    functions
}

/// The aggregates that statements may name.
pub fn aggregates() -> Vec<AggregateUDF> {
    vec![extremum::interval_average()]
}

/// The function that `AT TIME ZONE` becomes: of the zone and the moment.
pub const TIMEZONE: &str = "timezone";

/// The function of an interval of one unit and how many of them there are.
pub const INTERVAL_UNITS: &str = "ogee_interval_units";

/// The zone of a session with these options.
///
/// # Errors
/// If there is no zone of that name.
pub fn session_zone(options: &ConfigOptions) -> Result<Zone> {
    options.execution.time_zone.as_deref().map_or(Ok(Zone::UTC), Zone::named)
}
