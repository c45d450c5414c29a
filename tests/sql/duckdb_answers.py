#!/usr/bin/env python3
"""Runs the SQL suite in DuckDB and compares its answers with the expected ones.

Every record that is not marked `onlyif ogee` or `skipif duckdb` is run. `--check` (the default) fails when an expected
answer is not DuckDB's; `--fill` writes DuckDB's answers into the files. Values are written as the suite's Rust runner
writes them: floats with ten significant digits, decimals with all, timestamps without a trailing zero fraction.

Not here: running Ogee; that is crates/ogee/tests/slt.rs.
"""

import argparse
import datetime
import decimal
import math
import pathlib
import re
import sys
import tempfile
import warnings

import duckdb
import pyarrow as pa

# Result sets of DB-API calls are small here; the copy that DuckDB warns about does not matter.
warnings.filterwarnings("ignore", message="Arrow output")

SUITE = pathlib.Path(__file__).parent

# What gives something else when it is asked again.
CHANGES = re.compile(r"\b(insert|update|delete|merge|copy|nextval|random|uuid|gen_random_uuid)\b", re.IGNORECASE)

# How often a query is asked whose answer is not the expected one.
ATTEMPTS = 5


def format_float(value):
    """As C's %.10g, but plain digits for exponents from -5 up to 15."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.9e}".split("e")
    exponent = int(exponent)
    if -5 <= exponent < 15:
        plain = f"{decimal.Decimal(mantissa).scaleb(exponent):f}"
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    return f"{mantissa.rstrip('0').rstrip('.')}e{exponent}"


def fraction(nanos):
    """Sub-seconds in groups of three digits, nothing when zero."""
    if nanos == 0:
        return ""
    digits = f"{nanos:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return "." + digits


def format_value(value, kind):
    if value is None:
        return "NULL"
    if pa.types.is_boolean(kind):
        return "true" if value else "false"
    if pa.types.is_floating(kind):
        return format_float(float(value))
    if pa.types.is_decimal(kind):
        return f"{value:f}"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return value.replace("\n", "\\n").replace("\t", "\\t") if value else "(empty)"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return "\\x" + value.hex()
    if pa.types.is_timestamp(kind):
        text = value.strftime("%Y-%m-%d %H:%M:%S")
        text = f"{value.year:04d}" + text[text.index("-"):] + fraction(value.microsecond * 1000)
        return text + ("+00" if kind.tz else "")
    if pa.types.is_time(kind):
        return value.strftime("%H:%M:%S") + fraction(value.microsecond * 1000)
    if pa.types.is_interval(kind):
        months, days, nanos = value
        return f"{months} mons {days} days {nanos} ns"
    if pa.types.is_map(kind):
        items = [f"{format_value(k, kind.key_type)}: {format_value(v, kind.item_type)}" for k, v in value]
        return "{" + ", ".join(items) + "}"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return "[" + ", ".join(format_value(item, kind.value_type) for item in value) + "]"
    if pa.types.is_struct(kind):
        return "{" + ", ".join(f"{f.name}: {format_value(value[f.name], f.type)}" for f in kind) + "}"
    if isinstance(value, (datetime.date, int)):
        return str(value)
    raise NotImplementedError(f"{kind}: {value!r}")


def rows_of(result):
    table = result.to_arrow_table()
    columns = [[format_value(cell.as_py(), field.type) for cell in column]
               for field, column in zip(table.schema, table.columns)]
    return [list(row) for row in zip(*columns)] if columns else []


class Record:
    """One record of a file: its lines, and what they say."""

    def __init__(self, lines):
        self.lines = lines
        self.conditions = []
        self.kind = None
        at = 0
        while at < len(lines):
            words = lines[at].split()
            if lines[at].startswith("#") or not words:
                pass
            elif words[0] in ("onlyif", "skipif"):
                self.conditions.append((words[0], words[1]))
            else:
                break
            at += 1
        if at == len(lines):
            return
        words = lines[at].split()
        self.kind, self.words = words[0], words[1:]
        body = lines[at + 1:]
        self.rule = next((i for i, line in enumerate(body) if line == "----"), None)
        self.sql = "\n".join(body if self.rule is None else body[:self.rule])
        self.expected = [] if self.rule is None else body[self.rule + 1:]
        self.head = lines[:at + 1]

    def applies(self):
        return all((name == "duckdb") == (word == "onlyif") for word, name in self.conditions)


def records(text):
    block = []
    for line in text.split("\n"):
        if line.strip():
            block.append(line)
        else:
            if block:
                yield Record(block)
            block = []
    if block:
        yield Record(block)


def lines_of(database, sql, is_sorted):
    """The answer as lines of a record."""
    rows = rows_of(database.execute(sql))
    if is_sorted:
        rows.sort()
    return [" ".join(row) for row in rows]


def same(expected, actual):
    return [" ".join(line.split()) for line in expected] == [" ".join(line.split()) for line in actual]


def varies(database, sql, is_sorted, expected):
    """Whether the expected answer is one of several that DuckDB gives, depending on which thread is first: rows that an
    ORDER BY leaves equal, for example."""
    if CHANGES.search(sql):
        return False
    return any(same(expected, lines_of(database, sql, is_sorted)) for _ in range(ATTEMPTS - 1))


def run_file(path, fill):
    """Number of records run, and of failures."""
    failures = ran = 0
    out = []
    with tempfile.TemporaryDirectory() as directory:
        database = duckdb.connect(config={"threads": 2})
        database.execute("SET default_null_order = 'NULLS_LAST_ON_ASC_FIRST_ON_DESC'")
        database.execute("SET TimeZone = 'UTC'")
        substitute = False
        for record in records(path.read_text()):
            if record.kind == "control" and record.words[0] == "substitution":
                substitute = record.words[1] == "on"
            if record.kind in ("statement", "query") and record.applies():
                sql = record.sql
                if substitute:
                    sql = sql.replace("$__TEST_DIR__", directory).replace("\\$", "$")
                ran += 1
                wants_error = record.words and record.words[0] == "error"
                try:
                    if record.kind == "query" and not wants_error:
                        is_sorted = "rowsort" in record.words
                        actual = lines_of(database, sql, is_sorted)
                        if fill:
                            record.lines = record.head + record.sql.split("\n") + ["----"] + actual
                        elif same(record.expected, actual):
                            pass
                        elif varies(database, sql, is_sorted, record.expected):
                            print(f"{path.name}: DuckDB has several answers, make the order whole: {record.sql}")
                        else:
                            failures += 1
                            print(f"{path.name}: {record.sql}\n  expected: {record.expected}\n  DuckDB:   {actual}")
                    else:
                        database.execute(sql)
                        if wants_error:
                            failures += 1
                            print(f"{path.name}: DuckDB runs what is expected to fail: {record.sql}")
                except duckdb.Error as error:
                    if not wants_error:
                        failures += 1
                        print(f"{path.name}: {record.sql}\n  {error}")
            out.append("\n".join(record.lines))
    if fill:
        path.write_text("\n\n".join(out) + "\n")
    return ran, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fill", action="store_true", help="write DuckDB's answers into the files")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    ran = failures = 0
    for path in arguments.files or sorted(SUITE.glob("*.slt")):
        counts = run_file(path, arguments.fill)
        ran, failures = ran + counts[0], failures + counts[1]
    print(f"SQL suite in DuckDB {duckdb.__version__}: {ran} records, {failures} differ")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
