//! Queries whose answers must not depend on how they are planned and run: with every optimizer rule left out in turn, without other join orders, and
//! under other threads, limits and chunk sizes. The statements are those of `tests/differential/seeds`, which `tests/differential/small.py --write`
//! makes. `OGEE_SEED` and `OGEE_ROUNDS` choose which rules and statements a longer run takes.
//!
//! Not here: a second engine's answers (`tests/differential`).

use std::{path::Path, time::Instant};

use ogee::{Config, Connection, Database};

use crate::{
    common::{open, query, try_query},
    differential::Random,
};

/// Rules that are no optimizations: without them, plans cannot be run, or mean something else.
const NEEDED: [&str; 0] = [];

/// Statements and rules of one run without `OGEE_ROUNDS`, by the time that they may take.
const SECONDS: u64 = 15;

/// What makes the tables, and the queries.
fn seeds() -> Vec<(String, Vec<String>, Vec<String>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/differential/seeds");
    let mut files: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        let statements = text.split(";\n").map(str::trim).filter(|sql| !sql.is_empty()).map(str::to_owned);
        let (setup, queries) = statements.partition(|sql| sql.starts_with("CREATE") || sql.starts_with("INSERT"));
        (path.file_name().unwrap().to_string_lossy().into_owned(), setup, queries)
    };
    files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "sql")).map(read).collect()
}

fn prepared(config: Config, setup: &[String]) -> (Database, Connection) {
    let database = open(config.counts_process(false));
    let connection = database.connect();
    for sql in setup {
        query(&connection, sql);
    }
    (database, connection)
}

fn answer(connection: &Connection, sql: &str) -> Result<Vec<String>, ogee::Error> {
    let mut rows = try_query(connection, sql)?;
    rows.sort();
    Ok(rows)
}

/// Equal, but for the last digits of floats.
fn same(one: &[String], other: &[String]) -> bool {
    let near = |a: &str, b: &str| {
        a == b
            || match (a.parse::<f64>(), b.parse::<f64>()) {
                (Ok(a), Ok(b)) => (a - b).abs() <= 1e-9 * a.abs().max(1.0),
                _ => false,
            }
    };
    let rows = |a: &String, b: &String| {
        a.split('|').count() == b.split('|').count() && a.split('|').zip(b.split('|')).all(|(a, b)| near(a, b))
    };
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| rows(a, b))
}

#[test]
fn no_answer_depends_on_one_rule_or_setting() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (seed, rounds) = (number("OGEE_SEED").unwrap_or(1), number("OGEE_ROUNDS"));
    let mut random = Random::new(seed);
    let started = Instant::now();
    let over = |rounds: Option<u64>| rounds.is_none() && started.elapsed().as_secs() >= SECONDS;
    let (mut compared, mut refused) = (0, 0);
    let mut failures = Vec::new();
    let files = seeds();
    assert!(!files.is_empty());
    'all: for round in 0..rounds.unwrap_or(u64::MAX) {
        let (file, setup, queries) = random.pick(&files);
        let (base, plain) = prepared(Config::default().threads(2), setup);
        let rules: Vec<String> =
            base.session().context().state().optimizers().iter().map(|rule| rule.name().to_owned()).collect();
        let picked: Vec<&String> = (0..25).map(|_| random.pick(queries)).collect();
        let expected: Vec<_> = picked.iter().map(|sql| answer(&plain, sql)).collect();
        let mut variants: Vec<(String, Config, Option<String>, Option<&str>)> = Vec::new();
        for _ in 0..3 {
            let rule = random.pick(&rules).clone();
            if !NEEDED.contains(&rule.as_str()) {
                variants.push((format!("without {rule}"), Config::default().threads(2), Some(rule), None));
            }
        }
        let orders = "SET datafusion.optimizer.join_reordering = false";
        variants.push(("without join orders".to_owned(), Config::default().threads(2), None, Some(orders)));
        let threads = *random.pick(&[1, 2, 3, 8]);
        let chunk = *random.pick(&[1, 3, 64, 2048]);
        let spill = random.below(3) == 0;
        let mask = *random.pick(&[u64::MAX, 3]);
        let config = Config::default().threads(threads).chunk_capacity(chunk).spill_always(spill).hash_mask(mask);
        let config = config.memory_limit(*random.pick(&[64 << 20, 1 << 30]));
        variants.push((
            format!("{threads} threads, chunks of {chunk}, spill {spill}, mask {mask:x}"),
            config,
            None,
            None,
        ));
        for (name, config, rule, setting) in variants {
            let (database, connection) = prepared(config, setup);
            if let Some(rule) = &rule {
                database.session().context().remove_optimizer_rule(rule);
            }
            setting.iter().for_each(|sql| drop(query(&connection, sql)));
            for (sql, expected) in picked.iter().zip(&expected) {
                if over(rounds) {
                    break 'all;
                }
                match (expected, answer(&connection, sql)) {
                    (Ok(expected), Ok(actual)) if same(expected, &actual) => compared += 1,
                    (Ok(expected), Ok(actual)) => failures.push(format!(
                        "{file}, round {round}, {name}\n  {sql}\n  {} rows without: {expected:.5?}\n  {} rows: {actual:.5?}",
                        expected.len(),
                        actual.len(),
                    )),
                    // Without the rules that take subqueries apart, plans cannot be run; that is an error and no answer.
                    (Ok(_), Err(_)) if rule.is_some() => refused += 1,
                    (Ok(_), Err(error)) => failures.push(format!("{file}, {name}\n  {sql}\n  {error}")),
                    (Err(_), _) => refused += 1,
                }
            }
        }
    }
    eprintln!("{compared} answers equal, {refused} refused, in {:?}", started.elapsed());
    assert!(compared > 0);
    assert!(failures.is_empty(), "{} of {compared} answers (seed {seed}):\n{}", failures.len(), failures.join("\n"));
}
