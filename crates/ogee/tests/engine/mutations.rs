//! Statements of the SQL suite with their tokens deleted, doubled, swapped and replaced: whatever comes of it is an answer or an error, never a
//! panic or an internal error. `OGEE_SEED` repeats a run, `OGEE_ROUNDS` is the number of statements; without it the run is bounded in time.
//!
//! A record that is added to the suite changes a few of a seed's mutants, not all of them, so that a change is not held up by what it did not do.
//!
//! Not here: right answers (`differential`, `oracles`, the SQL suite).

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::mpsc,
    time::{Duration, Instant},
};

use ogee::{Config, Connection, Database};

use crate::{
    common::{open, query},
    differential::Random,
};

/// Statements without `OGEE_ROUNDS`, and the time after which no more are begun.
const STATEMENTS: u64 = 3000;
const SECONDS: u64 = 20;

/// A statement that runs for longer is interrupted.
const PATIENCE: Duration = Duration::from_secs(2);

/// Statements in one database: what they made is gone after these.
const STATEMENTS_A_DATABASE: u64 = 200;

/// Longer statements are left alone: most of their mutants do not parse.
const LENGTH_MAX: usize = 600;

const SETUP: [&str; 4] = [
    "CREATE TABLE t AS SELECT i, i % 7 AS k, i * 0.5 AS f, 'v' || (i % 5) AS s, DATE '2020-01-01' + i::INTEGER AS d FROM range(50) AS r(i)",
    "CREATE TABLE u AS SELECT i AS a, CASE WHEN i % 3 > 0 THEN i END AS b FROM range(20) AS r(i)",
    "CREATE TABLE one AS SELECT 1 AS x, [1, 2, NULL] AS l, TIMESTAMP '2020-02-03 04:05:06' AS m",
    "CREATE TABLE nothing AS SELECT 1 AS x WHERE false",
];

/// What the suite may lack: nesting, lists, maps, times, and what panicked once.
const SEEDS: [&str; 24] = [
    "SELECT k, sum(i), list(s ORDER BY i DESC) FROM t GROUP BY CUBE (k, s) HAVING count(*) > 1 ORDER BY ALL LIMIT 5",
    "SELECT i, (SELECT max(b) FROM u WHERE u.a < t.i) FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.b = t.k) ORDER BY i LIMIT 3",
    "SELECT row_number() OVER (PARTITION BY k ORDER BY i DESC ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) FROM t",
    "SELECT * FROM t LEFT JOIN u ON t.k = u.a AND u.b > 3 WHERE (t.k, t.i) NOT IN (SELECT a, b FROM u)",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 10) SELECT sum(n) FILTER (WHERE n > 3) FROM r",
    "SELECT * FROM (SELECT k FROM t EXCEPT ALL SELECT b FROM u ORDER BY 1 LIMIT 4) x INTERSECT SELECT a FROM u",
    "SELECT unnest(l), l[1], l[1:2], list_contains(l, 2), [x + 1 FOR x IN l] FROM one",
    "SELECT map([1, 2], ['a', 'b'])[1], {'a': 1, 'b': [2]}.b[1], struct_pack(x := 1)",
    "SELECT m + INTERVAL 3 DAY, m - TIMESTAMP '2019-01-01', extract('year' FROM m), m AT TIME ZONE 'Europe/Berlin' FROM one",
    "SELECT date_trunc('month', d), strftime(d, '%Y-%m'), date_part('dow', d), d - DATE '2019-01-01' FROM t LIMIT 2",
    "SELECT CAST(s AS INTEGER), TRY_CAST(s AS DATE), i::DECIMAL(10, 2) / 3, f ** 2, i // 3, i % 0 FROM t",
    "SELECT first(i ORDER BY i, i DESC), any_value(s), mode(k), median(f), quantile_cont(f, 0.3), histogram(k) FROM t",
    "SELECT DISTINCT ON (k) k, i FROM t ORDER BY k, i DESC",
    "SELECT k FROM t GROUP BY GROUPING SETS ((), (k), (k, s)) ORDER BY grouping(k), k NULLS FIRST",
    "SELECT * FROM t NATURAL JOIN t AS v JOIN u USING (a)",
    "SELECT x.* FROM u, LATERAL (SELECT count(*) AS n FROM t WHERE t.k = u.a) x",
    "SELECT CASE k WHEN 1 THEN 'a' WHEN 2 THEN s ELSE NULL END, coalesce(s, 'x'), nullif(k, 3) FROM t",
    "SELECT s LIKE 'v_' ESCAPE '!', s SIMILAR TO '.*', regexp_replace(s, 'v(\\d)', '\\1'), s[1], substr(s, -1, 2) FROM t",
    "SELECT 4 = ANY([1, 2, NULL]), 5 > ALL(SELECT b FROM u), (1, 2) IN ((1, 2), (3, NULL))",
    "PIVOT t ON k USING sum(i) GROUP BY s",
    "SELECT COLUMNS('i|k'), * EXCLUDE (s) REPLACE (i + 1 AS i) FROM t QUALIFY rank() OVER (ORDER BY k) = 1",
    "INSERT INTO u VALUES (1, 2), (NULL, 3)",
    "VALUES (1, 'a', NULL), (2, 'b', 1.5)",
    "SELECT 'nan'::DOUBLE, 'inf'::DOUBLE - 'inf'::DOUBLE, -0.0 = 0.0, greatest(1, NULL), 1e308 * 10",
];

/// Statements in tokens, on a ring in the order of their hashes: what is picked stays the same wherever none is added right before it.
struct Ring(Vec<(u64, Vec<String>)>);

impl Ring {
    fn new(statements: &[String]) -> Self {
        let mut all: Vec<(u64, Vec<String>)> = statements
            .iter()
            .map(|sql| {
                let mut hasher = DefaultHasher::new();
                sql.hash(&mut hasher);
                (hasher.finish(), tokens(sql))
            })
            .filter(|(_, tokens)| !tokens.is_empty())
            .collect();
        all.sort();
        all.dedup();
        Self(all)
    }

    fn pick(&self, random: &mut Random) -> &[String] {
        let place = random.below(u64::MAX);
        let at = self.0.partition_point(|(hash, _)| *hash < place);
        &self.0[at % self.0.len()].1
    }
}

/// The statements of the suite's files.
fn statements() -> Vec<String> {
    let mut found: Vec<String> = SEEDS.iter().map(|&seed| seed.to_owned()).collect();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sql");
    let mut files: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "slt")) {
        for record in std::fs::read_to_string(file).unwrap().split("\n\n") {
            let lines: Vec<&str> = record.lines().collect();
            let Some(head) = lines.iter().position(|line| line.starts_with("query ") || line.starts_with("statement "))
            else {
                continue;
            };
            let end = lines.iter().position(|line| *line == "----").unwrap_or(lines.len());
            found.push(lines[head + 1..end.max(head + 1)].join("\n"));
        }
    }
    found.retain(|sql| sql.len() <= LENGTH_MAX && is_harmless(sql));
    found
}

/// Whether a statement neither writes files nor changes settings.
fn is_harmless(sql: &str) -> bool {
    let sql = sql.to_ascii_lowercase();
    !["copy", "external", "set ", "reset", "attach", "$", "://", "'/", "pragma"].iter().any(|word| sql.contains(word))
}

/// Words, numbers, quoted texts and signs, with the white space between them left out.
fn tokens(sql: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = sql.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if first == '\'' || first == '"' {
            rest[1..].find(first).map_or(rest.len(), |end| end + 2)
        } else if first.is_alphanumeric() || first == '_' {
            let number = first.is_ascii_digit();
            rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || number && c == '.')).unwrap_or(rest.len())
        } else if ["<=", ">=", "<>", "!=", "::", "||", "//", "**", "->", ":="].iter().any(|sign| rest.starts_with(sign))
        {
            2
        } else {
            first.len_utf8()
        };
        tokens.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    tokens
}

/// A statement with a few of its tokens changed.
fn mutant(random: &mut Random, all: &Ring) -> String {
    let mut tokens = all.pick(random).to_vec();
    for _ in 0..=random.below(4) {
        if tokens.is_empty() {
            break;
        }
        let at = random.below(tokens.len() as u64) as usize;
        let other = random.below(tokens.len() as u64) as usize;
        let from = all.pick(random);
        match random.below(8) {
            0 => drop(tokens.remove(at)),
            1 => tokens.insert(at, tokens[at].clone()),
            2 => tokens.swap(at, other),
            3 => tokens[at] = tokens[other].clone(),
            4 => tokens[at] = random.pick(from).clone(),
            5 => tokens.insert(at, random.pick(from).clone()),
            6 => {
                let odd = [
                    "NULL",
                    "0",
                    "-1",
                    "''",
                    "[]",
                    "9223372036854775807",
                    "1e308",
                    "'nan'",
                    "(SELECT 1)",
                    "*",
                    "()",
                    "true",
                    "x",
                ];
                tokens[at] = (*random.pick(&odd)).to_owned();
            }
            _ => {
                // A part of another statement, such as a clause.
                let start = random.below(from.len() as u64) as usize;
                let length = 1 + random.below(6) as usize;
                let part = from[start..].iter().take(length).cloned();
                tokens.splice(at..at, part);
            }
        }
    }
    tokens.join(" ")
}

/// A database with the tables of `SETUP` that cannot use much.
fn database() -> Database {
    let config = Config::default().threads(2).memory_limit(96 << 20).counts_process(false).max_temp_size(16 << 20);
    let database = open(config);
    let connection = database.connect();
    SETUP.iter().for_each(|sql| drop(query(&connection, sql)));
    database
}

/// Runs a statement to its end; what is wrong with how it ended.
fn run(connection: &Connection, sql: &str) -> Option<String> {
    let end = catch_unwind(AssertUnwindSafe(|| -> Result<(), ogee::Error> {
        for (number, batch) in connection.execute(sql)?.enumerate() {
            batch?;
            if number > 20 {
                break;
            }
        }
        Ok(())
    }));
    match end {
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            Some(format!("panicked: {}", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?")))
        }
        Ok(Err(error)) => {
            let text = error.to_string();
            let bad = error.code() == "OGEE_Q008" || text.contains("nternal error") || text.contains("panicked");
            bad.then(|| format!("[{}] {text}", error.code()))
        }
        Ok(Ok(())) => None,
    }
}

#[test]
fn mutated_statements_do_not_panic() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("OGEE_SEED").unwrap_or(1);
    let rounds = number("OGEE_ROUNDS");
    let all = Ring::new(&statements());
    assert!(all.0.len() > 500, "{} statements of the suite", all.0.len());
    let started = Instant::now();
    let mut failures: Vec<String> = Vec::new();
    let mut open = database();
    let mut ran = 0;
    for round in 0..rounds.unwrap_or(STATEMENTS) {
        if rounds.is_none() && started.elapsed().as_secs() >= SECONDS {
            break;
        }
        // Each by its own seed, so that one can be repeated alone.
        let mut random = Random::new(seed + round);
        let sql = mutant(&mut random, &all);
        if !is_harmless(&sql) {
            continue;
        }
        if ran % STATEMENTS_A_DATABASE == 0 {
            open = database();
        }
        ran += 1;
        let connection = open.connect();
        let handle = connection.interrupt_handle();
        let (done, over) = mpsc::channel::<()>();
        let guard = std::thread::spawn(move || {
            while over.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                handle.interrupt();
            }
        });
        let begun = Instant::now();
        if let Some(failure) = run(&connection, &sql) {
            failures.push(format!("seed {}: {sql}\n    {failure}", seed + round));
        }
        drop(done);
        guard.join().unwrap();
        if begun.elapsed() > PATIENCE * 5 {
            failures.push(format!("seed {}: {sql}\n    took {:?}, interrupts or not", seed + round, begun.elapsed()));
        }
    }
    eprintln!("{ran} mutated statements in {:?}", started.elapsed());
    assert!(failures.is_empty(), "{} of {ran} statements:\n{}", failures.len(), failures.join("\n"));
}
