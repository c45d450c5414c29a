//! The 13 groupings of paper B, thin and wide, and their checks.
//!
//! Each has two queries: the *timed* one gives out all groups but skips all of them except the last (`OFFSET n - 1`), as in
//! the paper, and the *check* aggregates every output column over all groups: count, minimum and maximum, and the sum of numbers.
//! `min` stands for `any_value`, so that there is one right answer.
//!
//! After "Robust external hash aggregation in the solid state age", ICDE 2024, section VI, in the order of its table I.
//!
//! Not here: running them.

use std::path::Path;

use crate::Variant;
use crate::queries::Query;

/// The group keys, in the paper's order.
pub const KEYS: [&[&str]; 13] = [
    &["l_returnflag", "l_linestatus"],
    &["l_partkey"],
    &["l_partkey", "l_returnflag", "l_linestatus"],
    &["l_suppkey", "l_partkey"],
    &["l_orderkey"],
    &["l_orderkey", "l_returnflag", "l_linestatus"],
    &["l_suppkey", "l_partkey", "l_returnflag", "l_linestatus"],
    &["l_suppkey", "l_partkey", "l_shipinstruct"],
    &["l_suppkey", "l_partkey", "l_shipmode"],
    &["l_suppkey", "l_partkey", "l_shipinstruct", "l_shipmode"],
    &["l_orderkey", "l_partkey"],
    &["l_orderkey", "l_suppkey"],
    &["l_suppkey", "l_partkey", "l_orderkey"],
];

/// Columns of lineitem in schema order, and whether they can be summed.
const COLUMNS: [(&str, bool); 16] = [
    ("l_orderkey", true),
    ("l_partkey", true),
    ("l_suppkey", true),
    ("l_linenumber", true),
    ("l_quantity", true),
    ("l_extendedprice", true),
    ("l_discount", true),
    ("l_tax", true),
    ("l_returnflag", false),
    ("l_linestatus", false),
    ("l_shipdate", false),
    ("l_commitdate", false),
    ("l_receiptdate", false),
    ("l_shipinstruct", false),
    ("l_shipmode", false),
    ("l_comment", false),
];

/// Left out of the 14-column variant.
const LEFT_OUT: [&str; 2] = ["l_shipinstruct", "l_comment"];

/// The place of a table's files, for `FROM`.
pub fn source(data: &Path) -> String {
    format!("'{}/*.parquet'", data.join("lineitem").display())
}

/// Grouping `number` over the files of `source`.
pub fn grouping(number: usize, variant: Variant, source: &str) -> Query {
    let keys = KEYS[number - 1];
    let others = COLUMNS.iter().filter(|(column, _)| match variant {
        Variant::Thin => false,
        Variant::Wide14 => !keys.contains(column) && !LEFT_OUT.contains(column),
        Variant::Wide16 => !keys.contains(column),
    });
    let mut select: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    let mut outputs: Vec<&str> = keys.to_vec();
    for (column, _) in others {
        select.push(format!("min({column}) AS {column}"));
        outputs.push(column);
    }
    let sql = format!("SELECT {} FROM {source} GROUP BY {}", select.join(", "), keys.join(", "));
    let mut checks = vec!["count(*) AS groups".to_owned()];
    for output in outputs {
        checks.push(format!("count({output}) AS {output}_count"));
        checks.push(format!("min({output}) AS {output}_min"));
        checks.push(format!("max({output}) AS {output}_max"));
        if COLUMNS.iter().any(|(column, sums)| *column == output && *sums) {
            checks.push(format!("sum({output}) AS {output}_sum"));
        }
    }
    let check = format!("SELECT {} FROM ({sql}) AS groups", checks.join(", "));
    let suffix = match variant {
        Variant::Thin => "thin",
        Variant::Wide14 => "wide14",
        Variant::Wide16 => "wide16",
    };
    Query { name: format!("g{number}-{suffix}"), sql, check }
}

/// All of them over the table below `data`.
pub fn all(data: &Path) -> Vec<Query> {
    let source = source(data);
    let variants = [Variant::Thin, Variant::Wide14, Variant::Wide16];
    let of = |variant| (1..=KEYS.len()).map(move |number| (number, variant));
    variants.into_iter().flat_map(of).map(|(number, variant)| grouping(number, variant, &source)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_has_every_column_once() {
        for number in 1..=13 {
            for (variant, columns) in [(Variant::Wide14, 14), (Variant::Wide16, 16), (Variant::Thin, 0)] {
                let grouping = grouping(number, variant, "t");
                let counted = grouping.check.matches("_count").count();
                let expected = match variant {
                    Variant::Thin => KEYS[number - 1].len(),
                    // A key that would be left out is a column all the same.
                    _ => columns + usize::from(variant == Variant::Wide14 && [8, 10].contains(&number)),
                };
                assert_eq!(counted, expected, "{}", grouping.name);
            }
        }
    }
}
