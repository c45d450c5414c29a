//! Tables and lists of hundreds of columns, which are planned another way: what they give is what narrow ones give.

use crate::common::{connect, query, try_query};
use ogee::Connection;

const NARROW: usize = 30;
const WIDE: usize = 210;

fn list(columns: usize, each: impl Fn(usize) -> String) -> String {
    (0..columns).map(each).collect::<Vec<_>>().join(", ")
}

/// `sql` with tables of so many columns, `w` and `u`.
fn written(sql: &str, columns: usize) -> String {
    sql.replace("$columns", &list(columns, |i| format!("c{i}")))
        .replace("$named", &list(columns, |i| format!("c{i} + 1 AS n{i}")))
        .replace("$computed", &list(columns, |i| format!("c{i} * 2 + c0")))
        .replace("$sums", &list(columns, |i| format!("sum(c{i})")))
        .replace("$w", &format!("w{columns}"))
        .replace("$u", &format!("u{columns}"))
        .replace("$v", &format!("v{columns}"))
}

/// Rows with the number of their columns, in thirties, the first of them and the last: it repeats every five columns what there is.
fn cut(rows: Vec<String>) -> Vec<String> {
    let cut = |row: String| {
        let values: Vec<&str> = row.split('|').collect();
        let (first, last) = (&values[..values.len().min(12)], values.last().copied().unwrap_or_default());
        format!("{} more: {} .. {last}", values.len() % NARROW, first.join("|"))
    };
    rows.into_iter().map(cut).collect()
}

fn tables(connection: &Connection) {
    for columns in [NARROW, WIDE] {
        let values = list(columns, |i| format!("(r * 7 + {i}) % 5 AS c{i}"));
        for (name, rows) in [("w", 6), ("u", 4)] {
            query(connection, &format!("CREATE TABLE {name}{columns} AS SELECT {values} FROM range({rows}) AS t(r)"));
        }
    }
}

#[test]
fn wide_lists_give_what_narrow_ones_give() {
    let connection = connect();
    tables(&connection);
    let mut different = Vec::new();
    for sql in [
        "SELECT * FROM $w ORDER BY c0, c1",
        "SELECT * FROM $w ORDER BY 2 DESC, 1",
        "SELECT * FROM $w ORDER BY c1 * -1 + c2, c0 LIMIT 3 OFFSET 1",
        "SELECT * FROM $w WHERE c0 > 1 AND c4 < 4 ORDER BY c3 DESC NULLS FIRST",
        "SELECT * FROM $w ORDER BY ALL",
        "SELECT *, c0 + 1 AS x FROM $w ORDER BY x DESC, c1",
        "SELECT *, c0 FROM $w ORDER BY c0, c1",
        "SELECT c1 AS c0, * EXCLUDE (c0) FROM $w ORDER BY c0",
        "SELECT * EXCLUDE (c3) FROM $w ORDER BY c3",
        "SELECT * REPLACE (c3 * 2 AS c3) FROM $w ORDER BY c3",
        "SELECT DISTINCT * FROM $w ORDER BY c0",
        "SELECT DISTINCT * FROM $w ORDER BY 3 DESC",
        "SELECT DISTINCT * FROM $w ORDER BY c0 + c7, c0",
        "SELECT count(*) FROM (SELECT DISTINCT * FROM $w)",
        "SELECT count(*) FROM (SELECT DISTINCT $columns FROM $w)",
        "SELECT DISTINCT ON (c0) * FROM $w ORDER BY c0, c1",
        "SELECT $columns FROM $w ORDER BY c2",
        "SELECT $named FROM $w ORDER BY n2, n0",
        "SELECT $computed FROM $w ORDER BY c2, c0 + 1 LIMIT 2",
        "SELECT n1 FROM (SELECT $named FROM $w) WHERE n0 > 1 ORDER BY n1",
        "SELECT $sums FROM $w",
        "SELECT $sums FROM $w HAVING count(*) > 10",
        "SELECT c0, $sums FROM $w GROUP BY c0 ORDER BY c0",
        "SELECT c0 AS k, $sums, count(*) AS n FROM $w GROUP BY k HAVING sum(c1) > 0 ORDER BY n DESC, 1 DESC",
        "SELECT c0, $sums FROM $w GROUP BY ROLLUP (c0) ORDER BY c0 NULLS FIRST",
        "SELECT $columns, count(*) FROM $w GROUP BY $columns ORDER BY c1",
        "SELECT $columns, count(*) FROM $w GROUP BY ALL ORDER BY c1",
        "SELECT *, row_number() OVER (ORDER BY c0, c1) AS r FROM $w ORDER BY r",
        "SELECT *, sum(c1) OVER (PARTITION BY c0) AS s FROM $w QUALIFY row_number() OVER (ORDER BY c1) < 4 ORDER BY c1",
        "SELECT *, unnest([c0, 9]) AS n FROM $w ORDER BY c0, c1, n",
        "SELECT a.* FROM $w AS a JOIN $u AS b ON a.c0 = b.c1 ORDER BY b.c2, a.c1",
        "SELECT * FROM $w JOIN $u USING (c0) ORDER BY c0",
        "SELECT * FROM $w NATURAL JOIN $u ORDER BY c0",
        "SELECT * FROM $w AS a LEFT JOIN $u AS b ON a.c0 = b.c0 + 2 ORDER BY a.c0, b.c1",
        "SELECT * FROM $w UNION ALL SELECT * FROM $u ORDER BY c0, c1",
        "SELECT * FROM $w EXCEPT SELECT * FROM $u ORDER BY 1",
        "SELECT * FROM $w INTERSECT ALL SELECT * FROM $u ORDER BY 1",
        "WITH q AS (SELECT * FROM $w WHERE c0 < 3) SELECT * FROM q JOIN q AS p USING (c1) ORDER BY c1, q.c2",
        "WITH RECURSIVE q AS (SELECT *, 0 AS n FROM $u UNION ALL SELECT * REPLACE (n + 1 AS n) FROM q WHERE n < 2) SELECT * FROM q ORDER BY n, c0",
        "SELECT (SELECT max(c1) FROM (SELECT * FROM $u) AS i WHERE i.c0 <= $w.c0) AS m, * FROM $w ORDER BY c0, c1",
        "SELECT * FROM $w WHERE EXISTS (SELECT * FROM $u WHERE $u.c0 = $w.c0 + 1) ORDER BY c0",
        "SELECT * FROM $w WHERE c0 IN (SELECT c1 FROM (SELECT * FROM $u WHERE c1 > 1)) ORDER BY c0",
        "SELECT * FROM $w, LATERAL (SELECT * FROM $u WHERE $u.c0 = $w.c1) AS l ORDER BY $w.c0",
        "SELECT first(c0 ORDER BY c1), * FROM $w GROUP BY ALL ORDER BY c0",
        "SELECT * FROM (SELECT * FROM $w ORDER BY c0 LIMIT 4) ORDER BY c1",
        "SELECT '\u{1}list' AS t, * FROM $w ORDER BY c0",
        "DESCRIBE SELECT * FROM $w",
        "CREATE VIEW $v AS SELECT *, c0 AS more FROM $w",
        "SELECT * FROM $v ORDER BY more DESC",
        "SELECT $v.*, n FROM $v, (SELECT count(*) AS n FROM $v) ORDER BY c0",
        "DROP VIEW $v",
        "CREATE TABLE $v AS SELECT * FROM $w WHERE c0 > 0",
        "INSERT INTO $v SELECT * FROM $u ORDER BY c0",
        "SELECT * FROM $v ORDER BY c0, c1",
        "PREPARE p$v AS SELECT * FROM $v WHERE c0 > $1 ORDER BY c0",
        "EXECUTE p$v(2)",
        "DEALLOCATE p$v",
    ] {
        let narrow = cut(query(&connection, &written(sql, NARROW)));
        let wide = cut(query(&connection, &written(sql, WIDE)));
        let differs = match sql.starts_with("DESCRIBE") {
            true => !wide.starts_with(&narrow) || wide.len() != WIDE,
            false => wide != narrow,
        };
        if differs {
            different.push(format!("{sql}\n{narrow:?}\n{wide:?}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n\n"));
}

#[test]
fn errors_of_wide_lists_are_those_of_narrow_ones() {
    let connection = connect();
    tables(&connection);
    for sql in [
        "SELECT *, missing FROM $w",
        "SELECT * FROM $w ORDER BY missing",
        "SELECT * FROM $w ORDER BY 1000",
        "SELECT * FROM $w AS a JOIN $w AS b ON a.c0 = b.c0 ORDER BY c1",
        "SELECT *, sum(c0) FROM $w",
        "SELECT * EXCLUDE (missing) FROM $w",
        "SELECT c0, $sums FROM $w",
        "SELECT * FROM $w UNION ALL SELECT c0 FROM $u",
        "SELECT c0 + 'a', * FROM $w",
    ] {
        let error = |columns| match try_query(&connection, &written(sql, columns)) {
            Ok(rows) => panic!("{sql} of {columns} columns gave {rows:?}"),
            Err(error) => (error.code(), error.message().replace(&columns.to_string(), "N")),
        };
        let ((narrow, _), (wide, message)) = (error(NARROW), error(WIDE));
        assert_eq!(wide, narrow, "{sql}");
        assert!(!message.contains('\u{1}') && !message.contains("DISTINCT ON"), "{sql}: {message}");
    }
}
