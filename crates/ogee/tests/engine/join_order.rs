//! Orders of joins: no answer depends on them, and bad ones are not taken. `OGEE_SEED` repeats a run.

use std::{fmt::Write, path::Path};

use datafusion::arrow::array::{Int32Array, Int64Array, StringArray};
use ogee::{Config, Connection};

use crate::common::{batch, column, open, query, query_sorted, try_query, write_parquet};

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// NULL now and then.
    fn value(&mut self, end: u64) -> Option<u64> {
        (self.below(12) > 0).then(|| self.below(end))
    }
}

/// Writes a table of `rows` rows with NULLs: `k` and `l` of few values, `u` unique, `s` a string.
fn table(path: &Path, rows: usize, random: &mut Random) {
    let k: Vec<_> = (0..rows).map(|_| random.value(12).map(|v| v as i32)).collect();
    let l: Vec<_> = (0..rows).map(|_| random.value(8).map(|v| v as i64)).collect();
    let u: Vec<_> = (0..rows).map(|row| row as i64).collect();
    let s: Vec<_> = (0..rows).map(|_| random.value(9).map(|v| format!("s{v}"))).collect();
    let rows = batch([
        ("k", column(Int32Array::from(k))),
        ("l", column(Int64Array::from(l))),
        ("u", column(Int64Array::from(u))),
        ("s", column(StringArray::from(s))),
    ]);
    write_parquet(path, &rows, 30, None);
}

/// A condition between alias `one` and the one before it.
fn condition(random: &mut Random, one: usize, other: usize) -> String {
    let (a, b) = (format!("t{one}"), format!("t{other}"));
    match random.below(10) {
        0..=3 => format!("{a}.k = {b}.k"),
        4 => format!("{a}.l = {b}.l AND {a}.k = {b}.k"),
        5 => format!("{a}.s = {b}.s"),
        // Different types: one side is cast.
        6 => format!("{a}.k = {b}.l"),
        7 => format!("{a}.k IS NOT DISTINCT FROM {b}.k"),
        8 => format!("{a}.k + 1 = {b}.l + 2 AND {a}.u <> {b}.u"),
        _ => format!("{a}.l = {b}.l AND {a}.u < {b}.u"),
    }
}

fn random_query(random: &mut Random) -> String {
    let names = [
        "a",
        "b",
        "c",
        "memory",
        "empty",
        "(SELECT * FROM b WHERE l > 2)",
        "(SELECT DISTINCT k, l, k + l AS u, s FROM a)",
    ];
    let tables = 2 + random.below(4) as usize;
    let mut from = String::new();
    let mut filters: Vec<String> = Vec::new();
    for one in 0..tables {
        let name = if random.below(12) == 0 { "empty" } else { *random.pick(&names[..4]) };
        let name = if random.below(6) == 0 { names[5 + random.below(2) as usize] } else { name };
        if one == 0 {
            write!(from, "{name} AS t0").unwrap();
            continue;
        }
        let other = random.below(one as u64) as usize;
        let on = condition(random, one, other);
        let on = match random.below(8) {
            // Over three relations.
            0 if one > 1 => format!("{on} AND t{one}.l <= t0.l + t1.l"),
            1 => format!("{on} AND t{one}.s <> 's3'"),
            _ => on,
        };
        match random.below(12) {
            0..=4 => write!(from, " JOIN {name} AS t{one} ON {on}").unwrap(),
            5..=6 => write!(from, " LEFT JOIN {name} AS t{one} ON {on}").unwrap(),
            7 => write!(from, " RIGHT JOIN {name} AS t{one} ON {on}").unwrap(),
            8 => write!(from, " FULL JOIN {name} AS t{one} ON t{one}.k = t{}.k", one - 1).unwrap(),
            9 => write!(
                from,
                " CROSS JOIN (SELECT max(k) AS k, min(l) AS l, max(u) AS u, max(s) AS s FROM {name}) AS t{one}"
            )
            .unwrap(),
            _ => {
                write!(from, " CROSS JOIN {name} AS t{one}").unwrap();
                filters.push(on);
            }
        }
    }
    let any = |random: &mut Random| random.below(tables as u64);
    for _ in 0..random.below(3) {
        let (one, other) = (any(random), any(random));
        filters.push(match random.below(12) {
            0 => format!("t{one}.k < 6"),
            1 => format!("t{one}.s IN ('s1', 's2', 's5')"),
            2 => format!("t{one}.s LIKE '%4'"),
            3 => format!("t{one}.l IS NULL"),
            4 => format!("coalesce(t{one}.k, 3) = coalesce(t{other}.l, 3)"),
            5 => format!("EXISTS (SELECT 1 FROM c WHERE c.k = t{one}.k AND c.l <> t{other}.l)"),
            6 => format!("t{one}.k IN (SELECT l FROM b WHERE s <> 's1')"),
            7 => format!("t{one}.k NOT IN (SELECT k FROM c WHERE k IS NOT NULL AND u < 9)"),
            8 => format!("NOT EXISTS (SELECT 1 FROM a WHERE a.s = t{one}.s AND a.k = 3)"),
            9 => format!("(t{one}.k = 3 OR EXISTS (SELECT 1 FROM b WHERE b.l = t{one}.l AND b.k > 9))"),
            10 => format!("t{one}.l > (SELECT avg(k) FROM c WHERE c.l = t{other}.l)"),
            _ => format!("(t{one}.k = 2 AND t{other}.l = 3 OR t{one}.k = 4 AND t{other}.l = 5)"),
        });
    }
    let filters = if filters.is_empty() { String::new() } else { format!(" WHERE {}", filters.join(" AND ")) };
    let columns: Vec<String> = (0..tables).map(|one| format!("t{one}.k, t{one}.u")).collect();
    match random.below(3) {
        0 => format!("SELECT count(*), sum(t0.u), count(t{}.s) FROM {from}{filters}", tables - 1),
        1 => format!("SELECT t0.s, count(*), sum(t{}.u) FROM {from}{filters} GROUP BY t0.s", tables - 1),
        _ => {
            // Too many rows to print say little more than their sums.
            let sums: Vec<String> = (0..tables).map(|one| format!("sum(u{one}), count(k{one})")).collect();
            let named: Vec<String> = (0..tables).map(|one| format!("t{one}.k AS k{one}, t{one}.u AS u{one}")).collect();
            match random.below(2) {
                0 => format!(
                    "SELECT count(*), {} FROM (SELECT {} FROM {from}{filters})",
                    sums.join(", "),
                    named.join(", ")
                ),
                _ => format!("SELECT DISTINCT {} FROM {from}{filters}", columns.join(", ")),
            }
        }
    }
}

#[test]
fn no_answer_depends_on_the_order() {
    let seed = std::env::var("OGEE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_250_607);
    let rounds = std::env::var("OGEE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3);
    for round in 0..rounds {
        let random = &mut Random(seed + round);
        let directory = tempfile::tempdir().unwrap();
        let connection = open(Config::default().threads(2)).connect();
        for (name, rows) in [("a", 70), ("b", 40), ("c", 25), ("empty", 0)] {
            let path = directory.path().join(format!("{name}.parquet"));
            table(&path, rows, random);
            let at = path.display();
            query(&connection, &format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{at}'"));
        }
        query(&connection, "CREATE TABLE memory AS SELECT * FROM c WHERE u % 3 > 0");
        for _ in 0..40 {
            let sql = random_query(random);
            query(&connection, "SET datafusion.optimizer.join_reordering = false");
            let textual = try_query(&connection, &sql);
            query(&connection, "SET datafusion.optimizer.join_reordering = true");
            let ordered = try_query(&connection, &sql);
            match (textual, ordered) {
                (Ok(mut textual), Ok(mut ordered)) => {
                    textual.sort();
                    ordered.sort();
                    assert_eq!(ordered, textual, "seed {seed} round {round}\n{sql}");
                }
                // What cannot be planned cannot be planned either way.
                (Err(textual), Err(ordered)) => assert_eq!(ordered.code(), textual.code(), "{sql}"),
                (textual, ordered) => {
                    panic!("seed {seed} round {round}\n{sql}\ntextual {:?}\nordered {:?}", textual.err(), ordered.err())
                }
            }
        }
    }
}

/// Rows that the joins of `sql` give, all together.
fn rows_joined(connection: &Connection, sql: &str) -> u64 {
    let plan = query(connection, &format!("EXPLAIN ANALYZE {sql}")).join("\n");
    let joins =
        plan.lines().filter(|line| line.trim_start().split(':').next().is_some_and(|name| name.contains("Join")));
    joins.map(|line| rows_after(line, "output_rows=")).sum::<f64>() as u64
}

/// The number of rows that stands behind `name` in a line of a plan.
fn rows_after(line: &str, name: &str) -> f64 {
    let rows = line.split(name).nth(1).unwrap_or_else(|| panic!("no {name} in {line}"));
    let rows = rows.split([',', ']']).next().unwrap().trim();
    match rows.split_once(' ') {
        None => rows.parse::<f64>().unwrap(),
        Some((rows, "K")) => rows.parse::<f64>().unwrap() * 1e3,
        Some((rows, "M")) => rows.parse::<f64>().unwrap() * 1e6,
        Some(_) => panic!("how many are {rows}"),
    }
}

/// A star: `fact` has 20,000 rows and keys of two dimensions of 2000 and 50 rows.
fn star(directory: &Path) -> Connection {
    let fact = batch([
        ("customer", column(Int64Array::from_iter_values((0..20_000).map(|row| row * 7919 % 2000)))),
        ("region", column(Int64Array::from_iter_values((0..20_000).map(|row| row * 104_729 % 50)))),
        ("amount", column(Int64Array::from_iter_values(0..20_000))),
    ]);
    let customers = batch([
        ("id", column(Int64Array::from_iter_values(0..2000))),
        ("name", column(StringArray::from_iter_values((0..2000).map(|row| format!("customer {row}"))))),
    ]);
    let regions = batch([
        ("id", column(Int64Array::from_iter_values(0..50))),
        ("name", column(StringArray::from_iter_values((0..50).map(|row| format!("region {row}"))))),
    ]);
    let connection = open(Config::default().threads(2)).connect();
    for (name, rows) in [("fact", &fact), ("customers", &customers), ("regions", &regions)] {
        let path = directory.join(format!("{name}.parquet"));
        write_parquet(&path, rows, 4000, None);
        let at = path.display();
        query(&connection, &format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{at}'"));
    }
    connection
}

#[test]
fn a_bad_textual_order_is_not_taken() {
    let directory = tempfile::tempdir().unwrap();
    let connection = star(directory.path());
    let queries = [
        // Two facts of the same region are 8 million pairs; the customer makes them few.
        "SELECT count(*) FROM fact AS f JOIN fact AS g ON f.region = g.region JOIN customers AS c ON c.id = f.customer \
         WHERE c.name = 'customer 7'",
        // A cross product of the dimensions is not needed.
        "SELECT count(*) FROM customers AS c CROSS JOIN regions AS r JOIN fact AS f \
         ON f.customer = c.id AND f.region = r.id WHERE r.name = 'region 3'",
        // The semi join leaves one row of a hundred, and comes before the join that it is written above.
        "SELECT count(*) FROM fact AS f JOIN fact AS g ON f.customer = g.customer \
         WHERE EXISTS (SELECT 1 FROM regions AS r WHERE r.id = f.region AND r.name = 'region 3')",
        // The outer join keeps no row without a partner, since the next one compares a column of the inner side.
        "SELECT count(*) FROM fact AS f LEFT JOIN customers AS c ON c.id = f.customer JOIN regions AS r ON r.id = c.id \
         WHERE r.name = 'region 3'",
    ];
    for sql in queries {
        query(&connection, "SET datafusion.optimizer.join_reordering = false");
        let (textual, expected) = (rows_joined(&connection, sql), query(&connection, sql));
        query(&connection, "SET datafusion.optimizer.join_reordering = true");
        let ordered = rows_joined(&connection, sql);
        assert_eq!(query(&connection, sql), expected, "{sql}");
        assert!(10 * ordered < textual, "{ordered} rows, {textual} as written: {sql}");
    }
}

#[test]
fn volatile_predicates_and_limits_stay_where_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let connection = star(directory.path());
    // The limit takes from the cross product, not from a side of it.
    let sql = "SELECT count(*) FROM (SELECT f.customer AS customer FROM fact AS f JOIN regions AS r ON r.id = f.region LIMIT 100) AS t \
               JOIN customers AS c ON c.id = t.customer";
    assert_eq!(query(&connection, sql), ["100"]);
    // Drawn for each pair, the join above included: about half of 20,000 are left, and neither none nor all.
    let sql = "SELECT count(*) FROM (SELECT * FROM fact AS f JOIN regions AS r ON r.id = f.region WHERE random() < 0.5) AS t \
               JOIN customers AS c ON c.id = t.customer";
    let rows: i64 = query(&connection, sql)[0].parse().unwrap();
    assert!((8000..12_000).contains(&rows), "{rows}");
}

#[test]
fn explain_shows_estimated_and_actual_rows() {
    let directory = tempfile::tempdir().unwrap();
    let connection = star(directory.path());
    let sql =
        "SELECT r.name, count(*) FROM fact AS f JOIN regions AS r ON r.id = f.region WHERE r.id < 5 GROUP BY r.name";
    let plan = query(&connection, &format!("EXPLAIN {sql}")).join("\n");
    assert!(plan.contains("estimated_rows=20000"), "{plan}");
    let plan = query(&connection, &format!("EXPLAIN ANALYZE {sql}")).join("\n");
    let filter = plan.lines().find(|line| line.contains("OgeeFilter")).unwrap_or_else(|| panic!("{plan}"));
    assert!(filter.contains("estimated_rows=5,") && filter.contains("output_rows=5"), "{plan}");
}

/// Estimated and actual rows of each join of `sql`, the topmost first.
fn rows_estimated(connection: &Connection, sql: &str) -> Vec<(f64, f64)> {
    let plan = query(connection, &format!("EXPLAIN ANALYZE {sql}")).join("\n");
    let joins = plan.lines().filter(|line| line.trim_start().starts_with("OgeeJoin"));
    joins.map(|line| (rows_after(line, "estimated_rows="), rows_after(line, "output_rows="))).collect()
}

#[test]
fn popular_values_are_known_to_be() {
    let directory = tempfile::tempdir().unwrap();
    let connection = open(Config::default().threads(2)).connect();
    // Every third use is of word 7, and all others are of any.
    let word = |row: i64| if row % 3 == 0 { 7 } else { row * 7919 % 2000 };
    let uses = batch([("word", column(Int64Array::from_iter_values((0..150_000).map(word))))]);
    let words = batch([
        ("id", column(Int64Array::from_iter_values(0..2000))),
        ("name", column(StringArray::from_iter_values((0..2000).map(|row| format!("word {row}"))))),
    ]);
    for (name, rows) in [("uses", &uses), ("words", &words)] {
        let path = directory.path().join(format!("{name}.parquet"));
        write_parquet(&path, rows, 20_000, None);
        let at = path.display();
        query(&connection, &format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{at}'"));
    }
    for (name, low, high) in [("word 7", 40_000.0, 60_000.0), ("word 8", 1.0, 200.0)] {
        let sql = format!("SELECT count(*) FROM uses AS u JOIN words AS w ON w.id = u.word WHERE w.name = '{name}'");
        let joins = rows_estimated(&connection, &sql);
        assert_eq!(joins.len(), 1);
        assert!((low..=high).contains(&joins[0].0), "{name}: {joins:?}");
    }
}

#[test]
fn parts_of_a_compound_key_are_not_independent() {
    let directory = tempfile::tempdir().unwrap();
    let connection = open(Config::default().threads(2)).connect();
    // 2000 parts are offered by four of 100 suppliers each, and all lines are of such a pair.
    let supplier = |part: i64, offer: i64| (part + 25 * offer) % 100;
    let offers = (0..8000).map(|row| (row / 4, supplier(row / 4, row % 4))).collect::<Vec<(i64, i64)>>();
    let random = &mut Random(7);
    let lines = (0..40_000).map(|_| *random.pick(&offers)).collect::<Vec<_>>();
    let pairs = |rows: &[(i64, i64)]| {
        batch([
            ("part", column(Int64Array::from_iter_values(rows.iter().map(|row| row.0)))),
            ("supplier", column(Int64Array::from_iter_values(rows.iter().map(|row| row.1)))),
        ])
    };
    let numbered = |rows: i64| batch([("id", column(Int64Array::from_iter_values(0..rows)))]);
    let tables =
        [("offers", pairs(&offers)), ("lines", pairs(&lines)), ("parts", numbered(2000)), ("suppliers", numbered(100))];
    for (name, rows) in tables {
        let path = directory.path().join(format!("{name}.parquet"));
        write_parquet(&path, &rows, 4000, None);
        let at = path.display();
        query(&connection, &format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{at}'"));
    }
    let sql = "SELECT count(*) FROM lines AS l JOIN parts AS p ON p.id = l.part JOIN suppliers AS s ON s.id = l.supplier \
               JOIN offers AS o ON o.part = l.part AND o.supplier = l.supplier WHERE s.id < 50 AND p.id < 1000";
    for reordering in [true, false] {
        query(&connection, &format!("SET datafusion.optimizer.join_reordering = {reordering}"));
        let joins = rows_estimated(&connection, sql);
        assert_eq!(joins.len(), 3);
        for (estimated, actual) in joins {
            assert!(estimated < 4.0 * actual && actual < 4.0 * estimated, "{estimated} are {actual}");
        }
    }
}

#[test]
fn names_and_types_of_the_result_stay() {
    let directory = tempfile::tempdir().unwrap();
    let connection = star(directory.path());
    let sql = "SELECT * FROM fact AS f JOIN fact AS g ON f.amount = g.amount JOIN customers AS c ON c.id = g.customer \
               JOIN regions AS r ON r.id = f.region WHERE c.id = 3 ORDER BY f.amount";
    let schema = |on: bool| {
        query(&connection, &format!("SET datafusion.optimizer.join_reordering = {on}"));
        connection.execute(sql).unwrap().schema()
    };
    assert_eq!(schema(true), schema(false));
    query(&connection, "SET datafusion.optimizer.join_reordering = false");
    let textual = query_sorted(&connection, sql);
    query(&connection, "SET datafusion.optimizer.join_reordering = true");
    assert_eq!(query_sorted(&connection, sql), textual);
    assert_eq!(textual.len(), 10);
}
