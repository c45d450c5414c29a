//! Functions with the meaning that they have in DuckDB, for any session of DataFusion: one family a file.
//!
//! [`register`] makes a session's functions those, where DataFusion has none or another answer. Others take the place of operators and casts
//! (`arithmetic`, `numbers`, `floats`); rules on plans put them in. What is about to grow is promised memory or refused ([`growing`]).
//!
//! 1. Numbers never wrap silently, and no cast loses digits without saying so.
//! 2. Errors keep the code of whoever raised them ([`error`]).
//!
//! Not here: where a plan needs a function that no statement names (`ogee-sql`), aggregates that the engine computes (`ogee-exec`).

mod abs;
pub mod aggregates;
mod arguments;
pub mod arithmetic;
mod averages;
mod bins;
pub mod bins_found;
pub mod bits;
mod bitstrings;
pub mod blobs;
mod checked_sum;
mod choices;
pub mod codes;
pub mod common;
mod decimal_average;
pub mod decimals;
pub mod error;
pub mod exclusions;
pub mod exported;
mod file_paths;
pub mod fill;
pub mod float_text;
pub mod floats;
mod formatted;
pub mod framed_rows;
pub mod function;
pub mod globs;
pub mod growing;
mod hashes;
pub mod histograms;
pub mod json;
pub mod letters;
mod list_aggregates;
mod list_functions;
mod list_orders;
mod list_picks;
pub mod list_places;
pub mod list_reductions;
pub mod lists;
mod lttb;
pub mod maps;
pub mod marks;
pub mod math;
mod median;
mod moments;
pub mod nested_text;
pub mod numbers;
pub mod ordered_mode;
pub mod ordered_windows;
mod pairs;
mod places;
mod quantiles;
pub mod randoms;
pub mod ranks;
pub mod re2;
mod regexes;
mod replacements;
mod rounding;
pub mod series;
pub mod sessions;
mod shapes;
mod shown;
mod similarity;
mod slices;
mod structs;
pub mod substrings;
pub mod text_casts;
pub mod text_parts;
pub mod times;
mod tops;
pub mod tried;
pub mod type_names;
mod vectors;

use std::sync::Arc;

use datafusion::prelude::SessionContext;
use ogee_memory::BufferManager;

pub use error::{Error, Result};

/// Makes the functions of `context` those of this crate, where they have the same name, and adds the others. What grows is promised memory of `memory`.
///
/// # Errors
/// If `context` lacks a function of DataFusion's that one of these rests on.
pub fn register(context: &SessionContext, memory: &Arc<BufferManager>) -> datafusion::error::Result<()> {
    let aggregates = [Arc::unwrap_or_clone(checked_sum::checked_sum()), averages::average(), median::function()];
    let aggregates = aggregates.into_iter().chain([ordered_mode::function()]).chain(times::aggregates());
    let aggregates = aggregates.chain(own_aggregates()).chain([bitstrings::function(memory)]);
    aggregates.for_each(|function| context.register_udaf(function));
    ranks::functions().for_each(|function| context.register_udwf(function));
    ordered_windows::functions().for_each(|function| context.register_udwf(function));
    context.register_udwf(fill::function());
    series::functions().into_iter().for_each(|(name, function)| context.register_udtf(name, function));
    let scalars = [
        abs::function(),
        replacements::function(memory),
        maps::map_concat(),
        maps::map_extract(),
        maps::map_from_entries(),
    ];
    let scalars = scalars
        .into_iter()
        .chain(maps::map_parts())
        .chain(choices::functions())
        .chain(numbers::functions())
        .chain(rounding::functions())
        .chain(lists::functions())
        .chain(list_functions::functions())
        .chain(letters::functions())
        .chain(math::functions(memory))
        .chain(codes::functions(memory))
        .chain(regexes::functions(memory))
        .chain(similarity::functions())
        .chain(shown::functions(memory))
        .chain(structs::functions())
        .chain(text_parts::functions())
        .chain(formatted::functions(memory))
        .chain(hashes::functions())
        .chain(file_paths::functions())
        .chain(blobs::functions(memory))
        .chain(vectors::functions())
        .chain(list_orders::functions())
        .chain(sessions::functions())
        .chain(randoms::functions())
        .chain(list_picks::functions())
        .chain(bins::functions(memory))
        .chain([globs::function(), substrings::function()])
        .chain(json::functions(memory))
        .chain(marks::functions(memory))
        .chain(marks::uuids::random_functions())
        .chain(type_names::functions(memory))
        .chain(times::functions());
    scalars.for_each(|function| context.register_udf(function));
    context.register_higher_order_function(list_reductions::function());
    list_places::functions().into_iter().for_each(|function| context.register_higher_order_function(function));
    context.register_higher_order_function(tried::function());
    list_aggregates::register(context)?;
    exported::register(context);
    growing::register(context, memory)
}

/// Aggregates of names that statements call, and that need nothing of a session.
fn own_aggregates() -> impl Iterator<Item = datafusion::logical_expr::AggregateUDF> {
    let functions = aggregates::functions().into_iter().chain(pairs::functions()).chain(shapes::functions());
    let functions = functions.chain(quantiles::functions()).chain(tops::functions()).chain(histograms::functions());
    functions.chain([lttb::function(), bins_found::function(), decimal_average::function()])
}

/// The names of the aggregates that [`register`] adds.
pub fn aggregate_names() -> Vec<String> {
    let names = own_aggregates().flat_map(|function| [function.aliases(), &[function.name().to_owned()]].concat());
    names.chain(["bitstring_agg", "combine_aggr"].map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
    use ogee_memory::MemoryConfig;

    use super::*;

    /// The one value that `sql` gives in a session of DataFusion's with these functions.
    fn value(sql: &str) -> datafusion::error::Result<String> {
        let config = MemoryConfig { limit: 64 << 20, ..MemoryConfig::default() };
        let context = SessionContext::new();
        register(&context, &BufferManager::new(config).unwrap())?;
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let batches = runtime.block_on(async { context.sql(sql).await?.collect().await })?;
        let text = ArrayFormatter::try_new(batches[0].column(0), &FormatOptions::default())?.value(0).to_string();
        Ok(text)
    }

    #[test]
    fn a_session_of_datafusion_has_them() {
        for (sql, expected) in [
            ("SELECT arg_max(x, y) FROM (VALUES (1, 10), (2, 20), (3, 15)) t(x, y)", "2"),
            ("SELECT mode(x) FROM (VALUES (1), (2), (2)) t(x)", "2"),
            ("SELECT round(2.5)", "3.0"),
            ("SELECT upper('straße')", "STRAẞE"),
            ("SELECT list_contains([1, NULL], 2)", "false"),
            ("SELECT strftime(TIMESTAMP '2024-01-02 03:04:05', '%d/%m')", "02/01"),
            ("SELECT -row_number() OVER () FROM (VALUES (1)) t", "-1"),
            ("SELECT count(*) FROM range(5)", "5"),
        ] {
            assert_eq!(value(sql).unwrap(), expected, "{sql}");
        }
    }

    #[test]
    fn what_grows_beyond_the_memory_is_refused() {
        assert_eq!(value("SELECT length(repeat('x', 1000))").unwrap(), "1000");
        let error = value("SELECT length(repeat('x', 1000000000))").unwrap_err();
        assert_eq!(Error::from(error).code(), "OGEE_M001");
    }
}
