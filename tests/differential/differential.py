#!/usr/bin/env python3
"""Random queries over random Parquet files, in the ogee shell and in DuckDB, must give the same answers.

Each round makes one table (types, NULLs, skew, string lengths, encodings and row groups at random), some groupings of it, some joins, set operations,
subqueries and windows (`relations.py`), and runs them in the shell under several limits and thread counts. Integers, decimals, strings, dates and booleans compare
exactly, floats to 1e-9 relative; rows as a multiset unless the query orders them. A failure prints the seed that repeats it.

Not here: settings that only the library has (tiny chunks, forced spilling); those are in the SQL suite.
"""

import argparse
import datetime
import decimal
import json
import math
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

import duckdb
import pyarrow.parquet as pq

import relations

LIMITS = [None, "512MB", "256MB"]
THREADS = [1, 2, 8]
ROWS = [0, 1, 60, 3000, 30000, 30000, 200000]
# Above this many rows a result is compared by a summary over all of its columns.
RESULT_ROWS_MAX = 40000

INTEGER, DECIMAL, FLOAT, TEXT, BYTES, DAY, MOMENT, BOOL = "integer decimal float text bytes day moment bool".split()
NUMERIC = (INTEGER, DECIMAL, FLOAT)


class Column:
    def __init__(self, name, kind, sql_type, expression):
        self.name, self.kind, self.sql_type, self.expression = name, kind, sql_type, expression


def make_columns(rng, rows):
    """Columns whose values follow from the row number and the seed alone."""
    seed = rng.randrange(1 << 30)

    def h(number):  # below 2^61
        return f"CAST(hash(i, {seed + number}) >> 3 AS BIGINT)"

    def cardinality():
        return rng.choice([1, 2, 7, 40, 1000, max(1, rows // 3), max(1, rows * 5)])

    def number(position):
        base = f"{h(position)} % {cardinality()}"
        if rng.random() < 0.3:
            base = f"CASE WHEN {h(position + 50)} % 10 < 8 THEN 3 ELSE {base} END"
        if rng.random() < 0.2:
            base = f"i * {cardinality()} // {max(1, rows)}"
        return base

    prefix = rng.choice(["", "k", "a prefix that is longer than twelve bytes "])
    columns = [
        Column("i32", INTEGER, "INTEGER", f"CAST({number(1)} AS INTEGER) - 20"),
        Column("i64", INTEGER, "BIGINT", f"CAST({number(2)} AS BIGINT) * {rng.choice([1, 1000003, -77777777])}"),
        Column("i16", INTEGER, "SMALLINT", f"CAST(({number(3)}) % 30000 AS SMALLINT)"),
        Column("i8", INTEGER, "TINYINT", f"CAST(({number(4)}) % 100 AS TINYINT)"),
        Column("u8", INTEGER, "UTINYINT", f"CAST(({number(5)}) % 250 AS UTINYINT)"),
        Column("u32", INTEGER, "UINTEGER", f"CAST(({number(6)}) % 4000000000 AS UINTEGER)"),
        Column("u64", INTEGER, "UBIGINT", f"CAST({number(7)} AS UBIGINT) * 1048576"),
        Column("money", DECIMAL, "DECIMAL(15,2)", f"CAST({number(8)} AS DECIMAL(13,0)) * 0.25"),
        Column("wide", DECIMAL, "DECIMAL(38,6)", f"CAST({number(9)} AS DECIMAL(28,0)) * 100000000000 + 0.000001"),
        Column("dbl", FLOAT, "DOUBLE", f"CAST({number(10)} AS DOUBLE) / 8 + 0.5"),
        Column("flt", FLOAT, "REAL", f"CAST(({number(11)}) % 4096 AS REAL) / 4 + 1"),
        Column("short", TEXT, "VARCHAR", f"'s' || CAST({number(12)} AS VARCHAR)"),
        Column("text", TEXT, "VARCHAR", f"'{prefix}' || CAST({number(13)} AS VARCHAR) || repeat('é', CAST({h(63)} % {rng.choice([1, 20, 90])} AS INTEGER))"),
        Column("bin", BYTES, "BLOB", f"CAST('b' || CAST({number(14)} AS VARCHAR) AS BLOB)"),
        Column("day", DAY, "DATE", f"DATE '1995-01-01' + CAST(({number(15)}) % 20000 AS INTEGER)"),
        Column("moment", MOMENT, "TIMESTAMP", f"TIMESTAMP '2001-02-03 04:05:06' + to_seconds(CAST({number(16)} AS BIGINT)) + to_microseconds({h(66)} % 3 * 500)"),
        Column("flag", BOOL, "BOOLEAN", f"{h(17)} % 3 = 0"),
    ]
    for position, column in enumerate(columns):
        share = rng.choice([0, 0, 0, 10, 50, 100])
        if share:
            column.expression = f"CASE WHEN {h(position + 200)} % 100 < {share} THEN NULL ELSE {column.expression} END"
    return columns


def write_table(rng, database, columns, rows, path):
    select = ", ".join(f"CAST({c.expression} AS {c.sql_type}) AS {c.name}" for c in columns)
    # No two rows alike, in no order: what decides where values are chosen by another.
    select += ", CAST((i * 7919) % 1000003 AS INTEGER) AS id"
    table = database.sql(f"SELECT {select} FROM range({rows}) AS r(i)").to_arrow_table()
    pq.write_table(
        table,
        path,
        row_group_size=rng.choice([max(1, rows // 7), max(1, rows // 2), 1 << 20]),
        compression=rng.choice(["snappy", "zstd", "lz4", "gzip", "none"]),
        use_dictionary=rng.random() < 0.7,
        data_page_version=rng.choice(["1.0", "2.0"]),
        data_page_size=rng.choice([1 << 12, 1 << 16, 1 << 20]),
        write_page_index=rng.random() < 0.5,
        write_statistics=rng.random() < 0.8,
        store_schema=rng.random() < 0.5,
    )


def literal(rng, column):
    n = rng.choice([0, 1, 3, 25, 500])
    return {
        INTEGER: str(n),
        DECIMAL: f"{n}.25",
        FLOAT: f"{n}.5",
        TEXT: f"'s{n}'",
        BYTES: f"CAST('b{n}' AS {'BYTEA'})",
        DAY: f"DATE '1995-{1 + n % 12:02d}-15'",
        MOMENT: f"TIMESTAMP '2001-02-03 04:{n % 60:02d}:07'",
        BOOL: "TRUE",
    }[column.kind]


def condition(rng, columns):
    column = rng.choice(columns)
    roll = rng.random()
    if roll < 0.2:
        return f"{column.name} IS {rng.choice(['', 'NOT '])}NULL"
    text = f"{column.name} {rng.choice(['<', '<=', '>', '>=', '=', '<>'])} {literal(rng, column)}"
    if roll < 0.4:
        return f"({text} {rng.choice(['AND', 'OR'])} {condition(rng, columns)})"
    return text


def aggregate(rng, columns, small):
    """SQL of one aggregate call, with results as large as the table if that is `small`, and
    the kind of its result."""
    column = rng.choice(columns)
    other = rng.choice([c for c in columns if c.kind in (INTEGER, FLOAT)])
    choices = [("count({c})", INTEGER), ("min({c})", column.kind), ("max({c})", column.kind), ("count({d}{c})", INTEGER)]
    if column.kind == BOOL:
        choices = [("count({c})", INTEGER), ("bool_and({c})", BOOL), ("bool_or({c})", BOOL), ("count({d}{c})", INTEGER)]
    if column.kind in NUMERIC:
        sum_kind = FLOAT if column.kind == FLOAT else column.kind
        choices += [("sum({c})", sum_kind), ("sum({d}{c})", sum_kind), ("avg(CAST({c} AS DOUBLE))", FLOAT), ("sum({c})", sum_kind)]
        if column.kind != DECIMAL:
            choices += [(f"{name}(CAST({{c}} AS DOUBLE) / 1024)", FLOAT) for name in
                        ("stddev", "stddev_pop", "var_samp", "var_pop")]
            choices += [(f"{name}(CAST({{c}} AS DOUBLE) / 1024, CAST({other.name} AS DOUBLE) / 1024)", FLOAT) for name in
                        ("covar_samp", "covar_pop", "regr_count", "regr_avgx", "regr_avgy")]
    if column.kind == INTEGER:
        choices += [(f"{name}({{c}})", INTEGER) for name in ("bit_and", "bit_or", "bit_xor")]
    by = rng.choice(["id", "id", "CAST(id AS DOUBLE)", "CAST(id AS DOUBLE) + 0.5", "'by ' || lpad(CAST(id AS VARCHAR), 15, '0')", "lpad(CAST(id AS VARCHAR), 8, '0')"])
    choices += [(f"arg_{rng.choice(['min', 'max'])}({{c}}, {by}){{f}}", column.kind)] * 2
    fraction = rng.choice(["0.25", "0.37", "0.5", "0.9", "1.0"])
    if column.kind in NUMERIC:
        choices += [("median(CAST({c} AS DOUBLE))", FLOAT), (f"quantile_cont(CAST({{c}} AS DOUBLE), {fraction})", FLOAT)]
    if column.kind in (INTEGER, DECIMAL, FLOAT, TEXT, DAY):
        choices += [(f"quantile_disc({{c}}, {fraction})", column.kind)]
    if column.kind in (INTEGER, TEXT, DAY) and small:
        choices += [("array_to_string(map_values(histogram({c}){f}), ',')", TEXT)]
    if column.kind == TEXT and small:
        choices += [("string_agg({c}, '; ' ORDER BY {c})", TEXT)]
    template, kind = rng.choice(choices)
    # A filter follows the aggregate, which may be inside of something else.
    template = template if "{f}" in template else template + "{f}"
    passes = f" FILTER (WHERE {condition(rng, columns)})" if rng.random() < 0.2 else ""
    return template.format(c=column.name, d="DISTINCT ", f=passes), kind


class Query:
    """A grouping: its SQL, the kinds of its columns, how many of the first ones identify a row, and whether it is ordered."""


def make_query(rng, columns, source, rows):
    keys = rng.sample(columns, rng.choice([0, 1, 1, 2, 2, 3, 5]))
    names = [key.name for key in keys]
    outputs = [(name, key.kind) for name, key in zip(names, keys)]
    group = ""
    where = f" WHERE {condition(rng, columns)}" if rng.random() < 0.4 else ""
    if keys:
        group = " GROUP BY " + ", ".join(names)
        if len(keys) in (2, 3) and rng.random() < 0.4:
            group = f" GROUP BY {rng.choice(['ROLLUP', 'CUBE'])} ({', '.join(names)})"
            outputs += [(f"grouping({name})", INTEGER) for name in names]
    identity = len(outputs)
    outputs += [aggregate(rng, columns, rows <= 3000) for _ in range(rng.randrange(0 if keys else 1, 6))]
    having = " HAVING count(*) > 2" if keys and rng.random() < 0.15 else ""
    select = ", ".join(f"{sql} AS c{position}" for position, (sql, _) in enumerate(outputs))
    query = Query()
    query.ordered = False
    query.identity = identity
    query.kinds = [kind for _, kind in outputs]
    query.sql = f"SELECT {select} FROM {source}{where}{group}{having}"
    if rows > RESULT_ROWS_MAX and keys:
        parts = ["count(*)"]
        kinds = [INTEGER]
        for position, kind in enumerate(query.kinds):
            name = f"c{position}"
            parts.append(f"count({name})")
            kinds.append(INTEGER)
            if kind == BOOL:
                parts.append(f"count(*) FILTER (WHERE {name})")
                kinds.append(INTEGER)
            else:
                parts += [f"min({name})", f"max({name})"]
                kinds += [kind, kind]
            if kind in NUMERIC:
                parts.append(f"sum(CAST({name} AS {'DOUBLE' if kind == FLOAT else 'DECIMAL(38,6)'}))")
                kinds.append(kind)
        summary = ", ".join(f"{part} AS s{position}" for position, part in enumerate(parts))
        query.sql = f"SELECT {summary} FROM ({query.sql})"
        query.kinds, query.identity = kinds, 0
    elif keys and rng.random() < 0.3:
        # All keys, so that there are no ties; the positions of grouping() too.
        order = ", ".join(f"{p + 1} {rng.choice(['ASC', 'DESC'])}" for p in range(identity))
        query.sql += f" ORDER BY {order} LIMIT {rng.choice([1, 10, 1000])}"
        query.ordered = True
    return query


def make_relation(rng, columns, source, rows):
    """A query of another family than groupings."""
    query = Query()
    query.sql, query.kinds = rng.choice(relations.FAMILIES)(rng, columns, source, rows)
    query.ordered, query.identity = False, len(query.kinds)
    # What tells rows apart comes first, or every column does.
    if query.sql.startswith(("SELECT id AS c0", "SELECT a.id")):
        query.identity = 2 if "LATERAL" in query.sql else 1
    return query


def plain(value, kind):
    """One form for values of both systems."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if kind == FLOAT:
        return float(value)
    if kind in (INTEGER, DECIMAL):
        return decimal.Decimal(value)
    if kind == BYTES:
        return value if isinstance(value, str) else value.hex()
    if kind == DAY:
        return value if isinstance(value, str) else value.isoformat()
    if kind == MOMENT:
        return datetime.datetime.fromisoformat(value) if isinstance(value, str) else value
    return value


def same(expected, actual, kind):
    if expected is None or actual is None:
        return expected is None and actual is None
    if kind == FLOAT:
        return expected == actual or abs(expected - actual) <= 1e-9 * max(1.0, abs(expected))
    return expected == actual


def sort_key(row, identity):
    return tuple((value is None, str(type(value)), value if value is not None else 0) for value in row[:identity])


def compare(query, expected, actual):
    """None, or what differs."""
    if len(expected) != len(actual):
        return f"{len(actual)} rows instead of {len(expected)}"
    if not query.ordered:
        expected = sorted(expected, key=lambda row: sort_key(row, query.identity))
        actual = sorted(actual, key=lambda row: sort_key(row, query.identity))
    for want, have in zip(expected, actual):
        if not all(same(w, h, kind) for w, h, kind in zip(want, have, query.kinds)):
            return f"expected {want}\n     got {have}"
    return None


def read_results(path, kinds):
    rows = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line, parse_float=decimal.Decimal)
            rows.append([plain(value, kind) for value, kind in zip(record.values(), kinds)])
    return rows


def run_shell(shell, directory, queries, settings):
    """Runs all queries in one shell. None, or the error."""
    script = directory / "script.sql"
    lines = []
    for number, query in enumerate(queries):
        lines += [f".output {directory / f'answer-{number}.ndjson'}", query.sql + ";"]
    script.write_text("\n".join(lines) + "\n.output\n", encoding="utf-8")
    command = [shell, "--no-init", "--format", "ndjson", "--temp-directory", str(directory / "spill"), *settings, "-f", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        return f"exit code {done.returncode}: {done.stderr.strip()}"
    spill = directory / "spill"
    left = list(spill.rglob("*")) if spill.exists() else []
    return f"left behind: {left}" if left else None


def run_round(shell, seed, directory):
    """Number of comparisons made. Raises AssertionError on the first difference."""
    rng = random.Random(seed)
    rows = rng.choice(ROWS)
    directory.mkdir()
    path = directory / "table.parquet"
    database = duckdb.connect(config={"threads": 2})
    database.execute("SET default_null_order = 'NULLS_LAST_ON_ASC_FIRST_ON_DESC'; SET TimeZone = 'UTC'")
    columns = make_columns(rng, rows)
    write_table(rng, database, columns, rows, path)
    queries = [make_query(rng, columns, f"'{path}'", rows) for _ in range(12 if rows < 100000 else 5)]
    queries += [make_relation(rng, columns, f"'{path}'", rows) for _ in range(10 if rows < 100000 else 4)]
    answers = []
    for query in queries:
        result = database.execute(query.sql).fetchall()
        answers.append([[plain(value, kind) for value, kind in zip(row, query.kinds)] for row in result])
    compared = 0
    for _ in range(3):
        limit, threads = rng.choice(LIMITS), rng.choice(THREADS)
        settings = ["--threads", str(threads)] + (["--memory-limit", limit] if limit else [])
        where = f"seed {seed}, {rows} rows, {' '.join(settings)}, {path}"
        error = run_shell(shell, directory, queries, settings)
        assert error is None, f"{where}\n{error}"
        for number, (query, answer) in enumerate(zip(queries, answers)):
            try:
                actual = read_results(directory / f"answer-{number}.ndjson", query.kinds)
                difference = compare(query, answer, actual)
            except ValueError as unreadable:
                difference = f"an answer that is no value: {unreadable}"
            assert difference is None, f"{where}\n{query.sql}\n{difference}"
            compared += 1
    return compared


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shell", default="target/debug/ogee", help="the ogee binary")
    parser.add_argument("--seed", type=int, help="first seed (default: from the clock)")
    parser.add_argument("--rounds", type=int, default=1000, help="rounds at most")
    parser.add_argument("--seconds", type=float, default=75, help="start no round after this long")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else int(time.time())
    started = time.monotonic()
    work = pathlib.Path(tempfile.mkdtemp(prefix="ogee-differential-"))
    compared = rounds = 0
    for number in range(arguments.rounds):
        if number and time.monotonic() - started > arguments.seconds:
            break
        directory = work / str(number)
        try:
            compared += run_round(arguments.shell, seed + number, directory)
        except AssertionError as error:
            print(f"FAILED (repeat with --seed {seed + number} --rounds 1)\n{error}")
            sys.exit(1)
        shutil.rmtree(directory)
        rounds += 1
    shutil.rmtree(work)
    print(f"differential: {compared} answers of {rounds} tables equal DuckDB {duckdb.__version__}'s (seed {seed})")


if __name__ == "__main__":
    main()
