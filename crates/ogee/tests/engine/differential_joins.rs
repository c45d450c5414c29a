//! Joins of every kind against DataFusion's own execution, at random: what is joined and how, keys, residual conditions, subqueries,
//! aggregates below and above.

use std::fmt::Write;

use crate::differential::{Random, agree};

/// The relations of a query: three tables by name, and another that subqueries read.
const TABLES: [&str; 4] = ["p", "q", "r", "u"];

/// A condition that a hash table can look up.
fn key(random: &mut Random, left: &str, right: &str) -> String {
    let keys = [
        "{l}.i = {r}.i",
        "{l}.i = {r}.i",
        "{l}.t = {r}.t",
        "{l}.t = {r}.t",
        "{l}.s = {r}.s",
        "{l}.i = {r}.s",
        "{l}.d = {r}.d",
        "{l}.day = {r}.day",
        "{l}.ts = {r}.ts",
        "{l}.f = {r}.f",
        "{l}.flag = {r}.flag",
        "{l}.b % 50 = {r}.b % 50",
        "{l}.i + 1 = {r}.i",
        "upper({l}.t) = {r}.t",
        "substr({l}.t, 1, 3) = substr({r}.t, 1, 3)",
    ];
    random.pick(&keys).replace("{l}", left).replace("{r}", right)
}

/// A condition that is evaluated on pairs of rows.
fn residual(random: &mut Random, left: &str, right: &str) -> String {
    let conditions = [
        "{l}.b < {r}.b",
        "{l}.i + {r}.s > 3",
        "{l}.t <> {r}.t",
        "{l}.day >= {r}.day",
        "({l}.flag OR {r}.flag)",
        "({l}.s = 1 OR {r}.s = 2)",
        "{l}.d < {r}.d * 2",
        "length({l}.t) > {r}.s",
        "({l}.i = {r}.i OR {l}.t = {r}.t)",
        "({l}.i IS DISTINCT FROM {r}.i)",
        "{l}.s > 1",
        "{r}.s > 1",
        "{r}.t IS NOT NULL",
    ];
    random.pick(&conditions).replace("{l}", left).replace("{r}", right)
}

/// Keys and residual conditions: mostly both, sometimes only one of them.
fn condition(random: &mut Random, left: &str, right: &str) -> String {
    let keys = [0, 1, 1, 1, 2, 3][random.below(6) as usize];
    let others = if keys == 0 { 1 + random.below(2) } else { [0, 0, 1, 2][random.below(4) as usize] };
    let keys: Vec<String> = (0..keys).map(|_| key(random, left, right)).collect();
    let others: Vec<String> = (0..others).map(|_| residual(random, left, right)).collect();
    [keys, others].concat().join(" AND ")
}

/// A condition by which NULL equals NULL.
fn nulls_equal(random: &mut Random, left: &str, right: &str) -> String {
    let column = *random.pick(&["i", "t", "d", "day"]);
    format!("({left}.{column} IS NOT DISTINCT FROM {right}.{column})")
}

/// A table, or a grouping of one with the same columns, under the table's name.
fn relation(random: &mut Random, name: &str) -> String {
    match random.below(6) {
        0 => format!(
            "(SELECT i, s, max(b) AS b, min(t) AS t, max(f) AS f, min(d) AS d, max(day) AS day, min(ts) AS ts, bool_or(flag) AS flag
              FROM {name} GROUP BY i, s) AS {name}"
        ),
        1 => format!("(SELECT * FROM {name} WHERE s > 1 OR flag) AS {name}"),
        _ => name.to_owned(),
    }
}

/// A condition that holds by what another table has.
fn subquery(random: &mut Random, of: &str) -> String {
    match random.below(9) {
        0 => format!("{of}.i IN (SELECT i FROM u)"),
        1 => format!("{of}.i NOT IN (SELECT i FROM u WHERE s > 1)"),
        2 => format!("{of}.t NOT IN (SELECT t FROM u WHERE t IS NOT NULL)"),
        3 => format!("({of}.flag OR {of}.i IN (SELECT i FROM u WHERE s = 2))"),
        4 => format!("({of}.s = 1 OR EXISTS (SELECT 1 FROM u WHERE {}))", key(random, of, "u")),
        5 => format!("(SELECT count(*) FROM u WHERE u.i = {of}.i) > 1"),
        6 => format!("EXISTS (SELECT 1 FROM u WHERE {})", nulls_equal(random, of, "u")),
        7 => format!("EXISTS (SELECT 1 FROM u WHERE {})", condition(random, of, "u")),
        _ => format!("NOT EXISTS (SELECT 1 FROM u WHERE {})", condition(random, of, "u")),
    }
}

fn join(random: &mut Random) -> String {
    let kinds = ["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"];
    let (p, q, r) = (relation(random, "p"), relation(random, "q"), relation(random, "r"));
    let (first, second) = (*random.pick(&kinds), *random.pick(&kinds));
    let (from, names): (String, &[&str]) = match random.below(6) {
        0 | 1 => (format!("{p} {first} {q} ON {}", condition(random, "p", "q")), &["p", "q"]),
        // In a chain of inner joins DataFusion loses that NULL equals NULL.
        2 if random.below(2) == 0 => (format!("{p} {first} {q} ON {}", nulls_equal(random, "p", "q")), &["p", "q"]),
        2 => (
            format!(
                "{p} {first} ({q} {second} {r} ON {}) ON {}",
                condition(random, "q", "r"),
                condition(random, "p", "q")
            ),
            &["p", "q", "r"],
        ),
        3 => (p, &["p"]),
        _ => {
            let before = *random.pick(&["p", "q"]);
            (
                format!(
                    "{p} {first} {q} ON {} {second} {r} ON {}",
                    condition(random, "p", "q"),
                    condition(random, before, "r")
                ),
                &["p", "q", "r"],
            )
        }
    };
    let columns = ["i", "b", "s", "t", "d", "day", "flag"];
    let picked: Vec<String> =
        (0..2 + random.below(4)).map(|_| format!("{}.{}", random.pick(names), random.pick(&columns))).collect();
    let mut filters: Vec<String> = Vec::new();
    if names.len() == 1 || random.below(3) == 0 {
        let of = *random.pick(names);
        filters.push(subquery(random, of));
    }
    if random.below(4) == 0 {
        filters.push(format!("{}.i > 0", random.pick(names)));
    }
    if random.below(8) == 0 {
        filters.push(format!("{}.t IS NULL", random.pick(names)));
    }
    let filters = if filters.is_empty() { String::new() } else { format!(" WHERE {}", filters.join(" AND ")) };
    let mut sql = "SELECT ".to_owned();
    match random.below(3) {
        0 => {
            for (n, column) in picked.iter().enumerate() {
                write!(sql, "count({column}) AS n{n}, min({column}) AS l{n}, max({column}) AS g{n}, ").unwrap();
            }
            let key = format!("{}.{}", random.pick(names), random.pick(&["s", "i", "flag"]));
            write!(sql, "count(*) AS n, {key} AS k FROM {from}{filters} GROUP BY {key}").unwrap();
        }
        _ => {
            let picked: Vec<String> =
                picked.iter().enumerate().map(|(n, column)| format!("{column} AS c{n}")).collect();
            write!(sql, "{} FROM {from}{filters}", picked.join(", ")).unwrap();
        }
    }
    sql
}

#[test]
fn joins_agree_with_datafusion() {
    agree(20_261_121, &TABLES, &[1, 40, 300, 700], |random| (0..12).map(|_| join(random)).collect());
}
