//! One query for each operator that must have seen all its rows before it gives the first, over tables of TPC-H: what it keeps is most of
//! what the query needs. To be run with a fraction of that memory.
//!
//! Not here: groupings, which have a suite of their own.

use std::path::Path;

use crate::queries::Query;

/// The queries over the tables below `data`: lineitem, orders and partsupp.
pub fn queries(data: &Path) -> Vec<Query> {
    let table = |name: &str| format!("'{}/*.parquet'", data.join(name).display());
    let (lineitem, orders, partsupp) = (table("lineitem"), table("orders"), table("partsupp"));
    let all = [
        // Rows of strings on both sides, as many matches as rows.
        (
            "join",
            format!(
                "SELECT count(*) AS n, sum(a.o_totalprice) AS price, max(a.o_comment) AS a, min(b.o_comment) AS b \
                 FROM {orders} AS a JOIN {orders} AS b ON a.o_orderkey = b.o_orderkey"
            ),
            "max(n), max(price), max(a), max(b)",
        ),
        // The larger side is probed, and waits for what is absent.
        (
            "join-probe",
            format!(
                "SELECT count(*) AS n, sum(l_extendedprice) AS price, max(l_comment) AS a, max(o_comment) AS b \
                 FROM {lineitem} AS l JOIN {orders} AS o ON l_orderkey = o_orderkey"
            ),
            "max(n), max(price), max(a), max(b)",
        ),
        // No partitioning divides the rows of one key.
        (
            "join-key",
            format!(
                "SELECT count(*) AS n, sum(ps_supplycost) AS cost, max(ps_comment) AS a FROM {orders} AS o JOIN \
                 (SELECT ps_partkey * 0 + 1 AS k, ps_supplycost, ps_comment FROM {partsupp}) AS p ON o_orderkey = k"
            ),
            "max(n), max(cost), max(a)",
        ),
        ("sort", format!("SELECT l_extendedprice, l_orderkey FROM {lineitem} ORDER BY 1, 2"), "sum(l_orderkey)"),
        (
            "sort-wide",
            format!("SELECT * FROM {lineitem} ORDER BY l_shipdate, l_orderkey, l_linenumber"),
            "sum(l_orderkey), max(l_comment)",
        ),
        ("sort-strings", format!("SELECT l_comment, l_partkey FROM {lineitem} ORDER BY 1, 2"), "sum(l_partkey)"),
        // One partition.
        (
            "window",
            format!(
                "SELECT max(total) AS total, sum(place % 10) AS places FROM (SELECT \
                 sum(l_quantity) OVER (ORDER BY l_orderkey, l_linenumber) AS total, \
                 row_number() OVER (ORDER BY l_orderkey, l_linenumber) AS place FROM {lineitem}) AS numbered"
            ),
            "max(total), max(places)",
        ),
        (
            "distinct",
            format!("SELECT l_suppkey % 1000 AS k, count(DISTINCT l_orderkey) AS n FROM {lineitem} GROUP BY 1"),
            "sum(n)",
        ),
        ("median", format!("SELECT l_suppkey, median(l_orderkey) AS m FROM {lineitem} GROUP BY l_suppkey"), "sum(m)"),
    ];
    let query = |(name, sql, checks): (&str, String, &str)| Query {
        name: name.to_owned(),
        check: format!("SELECT count(*) AS rows, {checks} FROM ({sql}) AS result"),
        sql,
    };
    all.into_iter().map(query).collect()
}
