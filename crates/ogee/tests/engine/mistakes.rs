//! Common mistakes, and what users are told of them: `data/mistakes.txt` has each statement behind `> `, and below it the error.
//!
//! `OGEE_BLESS=1` writes the file anew, to be read.

use std::{fmt::Write as _, fs, path::Path};

use crate::common::{connect, query, try_query};

const TABLE: &str = "CREATE TABLE orders (id INT, name VARCHAR, price DECIMAL(9, 2))";

#[test]
fn mistakes_are_told_in_the_words_of_sql() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/data/mistakes.txt");
    let expected = fs::read_to_string(&file).unwrap();
    let connection = connect();
    query(&connection, TABLE);
    let (mut found, mut strange) = (String::new(), String::new());
    let statements = expected.lines().filter_map(|line| line.strip_prefix("> "));
    for statement in statements {
        let Err(error) = try_query(&connection, statement) else {
            writeln!(strange, "{statement}: done").unwrap();
            continue;
        };
        let said = error.to_string();
        let foreign = ["internal error", "DataFusion", "Arrow", "{ ", "Int32", "Int64", "Utf8", "Some("];
        if foreign.iter().any(|word| said.contains(word)) {
            writeln!(strange, "{statement}: {said}").unwrap();
        }
        writeln!(found, "> {statement}\n[{}] {said}\n", error.code()).unwrap();
    }
    assert!(strange.is_empty(), "not in the words of SQL:\n{strange}");
    if std::env::var_os("OGEE_BLESS").is_some() {
        fs::write(&file, &found).unwrap();
    }
    assert_eq!(found, expected, "what is said has changed: read it, and write it down with OGEE_BLESS=1");
}
