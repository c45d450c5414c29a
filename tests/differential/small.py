#!/usr/bin/env python3
"""Many random queries over small random tables, in one long-lived ogee shell and DuckDB in this process: 100 queries a second and more of a release build.

Each seed makes tables (`small_tables.py`), and queries over them (`grammar.py`); a failure prints the seed that repeats it. Judges: DuckDB; a query split by p,
NOT p and p IS NULL, which needs no second engine; SQLite where dialects agree (`--judge`). At the end, how often each feature and pair of features occurred
is printed. `--write FILE` keeps statements for the tests in Rust (`crates/ogee/tests/engine/oracles.rs`).

Not here: large tables and little memory (`differential.py`).
"""

import argparse
import collections
import datetime
import decimal
import itertools
import json
import math
import pathlib
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

import duckdb

import grammar
import small_tables
from small_tables import BOOL, DATE, DEC, FLOAT, INT, INTERVAL, LIST, NUM, TEXT, TS, TZ

# What a query may be made of. No feature may be rarer than 1 %, which `--check` asks for.
FEATURES = ("aggregate_filter between big_table branch_limit case cast coalesce correlated correlated_join cross csv cte cte_twice date decimal derived distinct distinct_aggregate "
            "distinct_from distinct_on exists group grouping_sets having in_list in_subquery inner_group interval join lateral like limit list nan natural ndjson not_in_subquery "
            "null_in_list nullif offset ordered_aggregate outer_join parquet quantified range row_in scalar_subquery schema set_operation set_operation_all "
            "timestamp timestamptz twin_queries two_levels unnest using values where window window_frame").split()
LITE = ("aggregate_filter between branch_limit case coalesce correlated cte cte_twice derived distinct distinct_aggregate exists group having in_list in_subquery inner_group "
        "join like limit natural not_in_subquery null_in_list outer_join scalar_subquery set_operation two_levels using where window window_frame").split()

# Features that the default run leaves out, and the gap that each waits for.
GAPS = {}

# Messages with which Ogee may refuse what DuckDB answers, and why. They are counted.
REFUSALS = [
    (r"overflow", "sums and products past 64 bits are an error, by choice"),
    (r"Ambiguous reference", "a name merged by USING in a query within whose tables have it, too; DuckDB does not look at WITH queries that nobody reads"),
    (r"OGEE_M001", "a list of one group has to fit the limit, which some have"),
]

QUERIES = 100
SENTINEL = "jsonlines"
PATIENCE = 60


class Shell:
    """An ogee shell that is asked many statements. It ends at an error, and is started again."""

    def __init__(self, path, settings, setup):
        self.command = [path, "--no-init", "--format", "ndjson", *settings]
        self.setup, self.process = setup, None

    def start(self):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, encoding="utf-8")
        for statement in self.setup:
            self.send(statement)
            _, error = self.receive()
            assert error is None, f"{statement}\n{error}"

    def send(self, statement):
        try:
            self.process.stdin.write(statement + ";\n.mode\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass

    def receive(self):
        """The lines of an answer, or None and the error."""
        lines = []
        for line in self.process.stdout:
            line = line.rstrip("\n")
            if line == SENTINEL:
                return lines, None
            lines.append(line)
        code = self.process.wait()
        self.errors.seek(0)
        text = self.errors.read().strip()
        self.process = None
        return None, f"exit code {code}: {text}"

    def answers(self, statements):
        """An answer, or error, of each. What is being computed meanwhile is up to the caller."""
        statements = list(statements)
        done = 0
        while done < len(statements):
            if self.process is None:
                self.start()
            process = self.process
            rest = statements[done:]
            writer = threading.Thread(target=lambda: [self.send(statement) for statement in rest if self.process is process], daemon=True)
            writer.start()
            for _ in rest:
                guard = threading.Timer(PATIENCE, process.kill)
                guard.start()
                answer = self.receive()
                guard.cancel()
                done += 1
                yield answer
                if self.process is None:
                    break
            writer.join()

    def kill(self):
        if self.process is not None:
            process, self.process = self.process, None
            process.kill()
            process.wait()

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
            self.process = None


def number(value):
    if isinstance(value, str):
        value = value.lower()
        return float(value) if re.fullmatch(r"[+-]?(inf|infinity|nan)", value) else decimal.Decimal(value)
    if isinstance(value, float):
        return value
    return decimal.Decimal(value)


def plain(value, kind, wrapped):
    """One form for the values of all systems."""
    if value is None:
        return None
    if kind in (FLOAT, NUM):
        value = float(number(value))
        # JSON has no NaN; where the shell writes NULL, that is what is compared.
        return value if wrapped or math.isfinite(value) else None
    if kind in (INT, DEC):
        value = number(value)
        return value if not isinstance(value, float) else decimal.Decimal(repr(value))
    if kind == BOOL:
        return bool(value)
    if kind in (TS, TZ):
        return datetime.datetime.fromisoformat(value).replace(tzinfo=None) if isinstance(value, str) else value
    if kind == DATE:
        return value[:10] if isinstance(value, str) else value.isoformat()[:10]
    if kind == LIST:
        return tuple(plain(item, INT, wrapped) for item in value)
    if kind == INTERVAL:
        # As a number of seconds, or as the shell writes it where one shell is compared with itself.
        return value if isinstance(value, str) else decimal.Decimal(repr(round(float(value) + 0.0, 6)))
    return value


def same_value(one, other):
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (one != one and other != other) or abs(one - other) <= 1e-9 * max(1.0, abs(one))
    return one == other


def key(row):
    """Floats by their first digits, which sums in any order share, and only where rows have these in common by all of them."""
    floats = [value for value in row if isinstance(value, float) and value == value]
    return tuple((value is None, f"{value + 0.0:.7g}" if isinstance(value, float) else str(value)) for value in row), floats


def difference(expected, actual):
    """None, or what differs of two multisets of rows."""
    if len(expected) != len(actual):
        return f"{len(actual)} rows instead of {len(expected)}: {actual[:4]} instead of {expected[:4]}"
    for want, have in zip(sorted(expected, key=key), sorted(actual, key=key)):
        if not all(same_value(w, h) for w, h in zip(want, have)):
            return f"expected {want}\n     got {have}"
    return None


def shown(rng, sql, kinds):
    """The query with outputs that every system prints alike, and whether it tells NaN from NULL."""
    floats = FLOAT in kinds and rng.random() < 0.6
    if not floats and TZ not in kinds and INTERVAL not in kinds:
        return sql, False
    forms = {TZ: "{c} AT TIME ZONE 'UTC'", INTERVAL: "epoch({c})", FLOAT: "CAST({c} AS VARCHAR)" if floats else "{c}",
             NUM: "CAST({c} AS VARCHAR)" if floats else "{c}"}
    outputs = ", ".join(forms.get(kind, "{c}").format(c=f"c{n}") + f" AS c{n}" for n, kind in enumerate(kinds))
    return f"SELECT {outputs} FROM ({sql}) AS whole", floats


class Run:
    """What was compared so far, and what was found."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.off = set(arguments.off.split(",")) | set(GAPS if not arguments.gaps else ())
        self.deadline = time.monotonic() + arguments.seconds
        self.queries = self.compared = self.both_refuse = self.disagrees_with_itself = 0
        self.sqlite_alone = []
        self.features, self.pairs = collections.Counter(), collections.Counter()
        self.refusals = collections.Counter()
        self.failures = []

    def count(self, features):
        self.queries += 1
        features = sorted(features & set(self.universe()))
        self.features.update(features)
        self.pairs.update(itertools.combinations(features, 2))

    def universe(self):
        lite = self.arguments.judge == "sqlite"
        return [feature for feature in (LITE if lite else FEATURES) if feature not in self.off]

    def fail(self, seed, place, text):
        self.failures.append((seed, place, text))
        print(f"FAILED (repeat with --seed {seed} --databases 1 --judge {self.arguments.judge}{' --only ' + str(place)})\n{text}\n", flush=True)

    def wishes(self, rng):
        return rng.sample(self.universe(), rng.choice([2, 4, 8]))

    def refused(self, error):
        for pattern, reason in REFUSALS:
            if re.search(pattern, error):
                self.refusals[reason] += 1
                return True
        return False


def open_duckdb(files, setup):
    # A list of some millions of elements is some gigabytes of Python's objects: DuckDB refuses it.
    database = duckdb.connect(config={"threads": 1, "memory_limit": "256MB", "max_temp_directory_size": "0GB"})
    database.execute("SET default_null_order = 'NULLS_LAST_ON_ASC_FIRST_ON_DESC'; SET TimeZone = 'UTC'")
    for statement in files + setup:
        database.execute(statement)
    return database


def open_sqlite(database, tables):
    judge = sqlite3.connect(":memory:")
    judge.execute("PRAGMA case_sensitive_like = on")
    for table in tables:
        columns = ", ".join(f"{name} {'INTEGER' if kind == INT else 'TEXT'}" for name, kind in table.columns)
        judge.execute(f"CREATE TABLE {table.name} ({columns})")
        rows = database.execute(f"SELECT * FROM {table.name}").fetchall()
        judge.executemany(f"INSERT INTO {table.name} VALUES ({', '.join('?' * len(table.columns))})", rows)
    return judge


def one_database(run, seed, work):
    """Queries over the tables of one seed."""
    arguments = run.arguments
    rng = random.Random(f"tables {seed}")
    directory = work / str(seed)
    directory.mkdir()
    lite = arguments.judge == "sqlite"
    tables, setup, files = small_tables.make(rng, directory, lite, run.off)
    for table in tables:
        if table.name == "big":
            table.features = table.features | {"big_table"}
    database = None if arguments.dry else open_duckdb(files, setup)
    settings = ["--threads", str(rng.choice([1, 2, 4])), "--temp-directory", str(directory / "spill")]
    settings += rng.choice([[], ["--memory-limit", "256MB"], ["--memory-limit", "1GB"]])
    first = [*setup, f"SET datafusion.optimizer.join_reordering = {rng.choice(['true', 'true', 'false'])}"]
    shell = Shell(arguments.shell, settings, first)
    sqlite = open_sqlite(database, tables) if lite and database else None
    maker = grammar.Grammar(rng, tables, lite, run.off)
    cases = []
    for place in range(arguments.queries):
        maker.rng = random.Random(f"query {seed} {place}")
        wished = run.wishes(maker.rng)
        if arguments.judge == "partitions" or arguments.judge == "all" and place % 7 == 6:
            one, two, kinds = maker.partitions(wished)
            cases.append((place, one, two, kinds, False, maker.features))
        else:
            sql, kinds = maker.full(wished)
            sql, wrapped = shown(maker.rng, sql, kinds)
            cases.append((place, sql, None, kinds, wrapped, maker.features))
        if arguments.only is not None and place != arguments.only:
            cases.pop()
    if arguments.dry:
        for *_, features in cases:
            run.count(features)
        shutil.rmtree(directory)
        return True
    texts = [text for _, one, two, *_ in cases for text in ((one, two) if two else (one,))]
    answers = shell.answers(texts)
    for place, one, two, kinds, wrapped, features in cases:
        if place > 0 and time.monotonic() > run.deadline:
            shell.kill()
            break
        run.count(features)
        lines, error = next(answers)
        other_lines, other_error = next(answers) if two else (None, None)
        if arguments.only is not None:
            print(one, "\n", two or "", lines, error, sep="\n")
        read = lambda lines: [[plain(value, kind, wrapped) for value, kind in zip(json.loads(line, parse_float=decimal.Decimal).values(), kinds)] for line in lines]
        found = None
        if two:
            if error or other_error:
                refused = run.refused(error or other_error)
                found = None if refused or not works(database, one) or not works(database, two) else f"{one if error else two}\n{error or other_error}"
            else:
                found = difference(read(lines), read(other_lines))
                found = found and f"{one}\nand in three parts\n{two}\n{found}"
        else:
            try:
                expected = database.execute(one).fetchall()
            except duckdb.Error as refusal:
                # What only Ogee does is not judged, nor what neither does.
                run.both_refuse += 1
                if "Internal" in (error or "") or "internal error" in (error or "") or "panic" in (error or ""):
                    found = f"{one}\n{error}"
                elif arguments.verbose:
                    print(f"DuckDB: {one}\n{refusal}\n")
                expected = None
            limit = re.search(r"LIMIT (\d+)( OFFSET \d+)?(\) AS whole)?$", one)
            if expected is not None and limit and len(expected) > int(limit[1]):
                # DuckDB 2.0 gives more rows than asked for of some unions.
                run.both_refuse += 1
                expected = None
            if expected is not None and error:
                found = None if run.refused(error) else f"{one}\n{error}"
            elif expected is not None:
                expected = [[plain(value, kind, wrapped) for value, kind in zip(row, kinds)] for row in expected]
                try:
                    actual = read(lines)
                    found = difference(expected, actual)
                except (ValueError, TypeError, decimal.InvalidOperation) as unreadable:
                    found = f"an answer that is no value: {unreadable}: {lines[:3]}"
                if found and agrees_unoptimized(database, one, kinds, wrapped, actual):
                    run.disagrees_with_itself += 1
                    found = None
                if found or lite:
                    found = second_judge(run, sqlite, one, kinds, expected, actual, found)
                found = found and f"{one}\n{found}"
        run.compared += 1
        if found:
            run.fail(seed, place, found)
            if not arguments.keep_going:
                print(f"tables: {directory}; made by\n" + ";\n".join(first) + ";")
                return False
    shell.close()
    database.close()
    shutil.rmtree(directory)
    return True


def agrees_unoptimized(database, sql, kinds, wrapped, actual):
    """Whether DuckDB gives this answer where its optimizer does nothing: then it has two answers, and no say."""
    try:
        rows = database.execute("PRAGMA disable_optimizer").execute(sql).fetchall()
    except duckdb.Error:
        return False
    finally:
        database.execute("PRAGMA enable_optimizer")
    return difference([[plain(value, kind, wrapped) for value, kind in zip(row, kinds)] for row in rows], actual) is None


def works(database, sql):
    try:
        database.execute(sql).fetchall()
        return True
    except duckdb.Error:
        return False


def second_judge(run, sqlite, sql, kinds, expected, actual, found):
    """What SQLite says where it can be asked. Alone against both it is listed, and no difference: its outer joins and windows are younger than theirs."""
    if sqlite is None:
        return found
    try:
        rows = [[plain(value, kind, False) for value, kind in zip(row, kinds)] for row in sqlite.execute(sql).fetchall()]
    except (sqlite3.Error, OverflowError) as error:
        return found and f"{found}\nSQLite: {error}"
    against = difference(rows, actual)
    if found is None and against is None:
        return None
    if found is None:
        run.sqlite_alone.append(sql)
        return None
    agrees = "SQLite agrees with Ogee" if against is None else "SQLite agrees with DuckDB" if difference(rows, expected) is None else "SQLite differs from both"
    return f"{found}\n{agrees}"


def report(run, started):
    seconds = time.monotonic() - started
    total = max(1, run.queries)
    universe = run.universe()
    print(f"small: {run.compared} answers compared in {seconds:.0f} s, {run.compared / max(seconds, 0.001):.0f} a second; "
          f"{run.both_refuse} that DuckDB refuses, {run.disagrees_with_itself} on which it disagrees with itself, {sum(run.refusals.values())} refused by choice, {len(run.failures)} differences")
    for sql in run.sqlite_alone:
        print(f"  SQLite alone differs: {sql}")
    for reason, count in run.refusals.items():
        print(f"  refused {count} times: {reason}")
    shares = sorted((run.features[feature] / total, feature) for feature in universe)
    print("features: " + ", ".join(f"{feature} {share:.1%}" for share, feature in reversed(shares)))
    pairs = sorted((run.pairs[pair] / total, pair) for pair in itertools.combinations(sorted(universe), 2))
    rare = [pair for share, pair in pairs if share < 0.01]
    never = [pair for share, pair in pairs if share == 0]
    print(f"pairs: {len(pairs)}, {len(rare)} of them below 1 %, {len(never)} never seen; the rarest: "
          + ", ".join(f"{a} + {b} {share:.2%}" for share, (a, b) in pairs[:12]))
    if run.arguments.pairs:
        print("\n".join(f"  {a} + {b} {share:.2%}" for share, (a, b) in pairs))
    if run.arguments.never and never:
        print("never: " + ", ".join(f"{a} + {b}" for a, b in never))
    return [feature for share, feature in shares if share < 0.01]


def write(run, path, seed):
    """Keeps statements whose tables need no files, which DuckDB answers."""
    rng = random.Random(f"tables {seed}")
    tables, setup, _ = small_tables.make(rng, None, False, run.off)
    database = open_duckdb([], setup)
    maker = grammar.Grammar(rng, tables, False, run.off)
    kept = []
    for place in range(run.arguments.queries):
        maker.rng = random.Random(f"query {seed} {place}")
        sql, kinds = maker.full(run.wishes(maker.rng))
        sql, _ = shown(maker.rng, sql, kinds)
        if works(database, sql):
            kept.append(sql)
    pathlib.Path(path).write_text(";\n".join(setup + kept) + ";\n", encoding="utf-8")
    print(f"{len(kept)} queries over {len(tables)} tables in {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shell", default="target/debug/ogee", help="the ogee binary")
    parser.add_argument("--seed", type=int, help="first seed (default: from the clock)")
    parser.add_argument("--databases", type=int, default=1 << 30, help="tables of so many seeds at most")
    parser.add_argument("--queries", type=int, default=QUERIES, help="queries over the tables of a seed")
    parser.add_argument("--only", type=int, help="show and run this query of each seed alone")
    parser.add_argument("--seconds", type=float, default=60, help="start no seed after this long")
    parser.add_argument("--judge", default="all", choices=["all", "duckdb", "partitions", "sqlite"])
    parser.add_argument("--off", default="", help="features to leave out, with commas between")
    parser.add_argument("--gaps", action="store_true", help="also what is left out by default")
    parser.add_argument("--keep-going", action="store_true", help="go on after a difference")
    parser.add_argument("--dry", action="store_true", help="only make queries, and count their features")
    parser.add_argument("--check", action="store_true", help="fail if a feature occurs in less than 1 %% of the queries")
    parser.add_argument("--pairs", action="store_true", help="print all pairs of features")
    parser.add_argument("--never", action="store_true", help="print the pairs that did not occur")
    parser.add_argument("--verbose", action="store_true", help="print what DuckDB refuses")
    parser.add_argument("--write", help="keep queries in this file, and ask nobody")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else int(time.time())
    run = Run(arguments)
    if arguments.write:
        write(run, arguments.write, seed)
        return
    started = time.monotonic()
    work = pathlib.Path(tempfile.mkdtemp(prefix="ogee-small-"))
    good = True
    for number_of in range(arguments.databases):
        if number_of and time.monotonic() > run.deadline:
            break
        good = one_database(run, seed + number_of, work)
        if not good:
            break
    if good:
        shutil.rmtree(work)
    rare = report(run, started)
    if arguments.check and rare:
        print(f"features below 1 %: {', '.join(rare)}")
        sys.exit(1)
    sys.exit(1 if run.failures else 0)


if __name__ == "__main__":
    main()
