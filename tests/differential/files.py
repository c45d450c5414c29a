#!/usr/bin/env python3
"""Files as people have them, read by Ogee and by DuckDB: the names and types of their columns, and all values as text, are the same.

Files are made anew by each run: CSV of many dialects, JSON of many shapes, Parquet of several writers, directories that name columns, compressed files and files
whose columns drift. Where Ogee reads a file otherwise by choice, the case says why (`choice`), and fails if there is no difference any more.

Not here: damaged files (`tests/fuzz/files.py`), what COPY writes (`tests/sql`).
"""

import argparse
import concurrent.futures
import datetime
import decimal
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import duckdb
import pyarrow as pa
import pyarrow.parquet

PATIENCE = 60


class Case:
    """A table in `FROM`, and the files that it reads, by their names: bytes, texts, or what writes them to a path."""

    def __init__(self, name, table, files, choice=None):
        self.name, self.table, self.files, self.choice = name, table, files, choice

    def make(self, directory):
        for name, content in self.files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if callable(content):
                content(path)
            else:
                path.write_bytes(content.encode() if isinstance(content, str) else content)


def csv(name, content, options="", choice=None, ending="csv"):
    """A CSV file by itself, read by its name or with options."""
    table = f"read_csv('x.{ending}', {options})" if options else f"'x.{ending}'"
    return Case(f"csv: {name}", table, {f"x.{ending}": content}, choice)


def documents(name, content, options="", choice=None, ending="json"):
    table = f"read_json('x.{ending}', {options})" if options else f"'x.{ending}'"
    return Case(f"json: {name}", table, {f"x.{ending}": content}, choice)


def parquet(name, make, options="", choice=None):
    table = f"read_parquet('x.parquet', {options})" if options else "'x.parquet'"
    return Case(f"parquet: {name}", table, {"x.parquet": make}, choice)


def compressed(codec, text):
    return lambda path: path.write_bytes(pa.compress(text.encode(), codec=codec, asbytes=True))


def csv_cases():
    plain = "id,name,score\n1,ada,2.5\n2,bob,\n3,,7.25\n"
    yield csv("commas", plain)
    yield csv("semicolons", plain.replace(",", ";"))
    yield csv("tabs", plain.replace(",", "\t"), ending="tsv")
    yield csv("bars", plain.replace(",", "|"))
    yield csv("a long delimiter", plain.replace(",", "||"), "delim = '||'")
    yield csv("a delimiter that is said", plain.replace(",", "~"), "delim = '~'")
    yield csv("carriage returns and line feeds", plain.replace("\n", "\r\n"))
    yield csv("carriage returns", plain.replace("\n", "\r"))
    yield csv("no end of the last line", plain.rstrip("\n"))
    yield csv("a mark of the encoding", b"\xef\xbb\xbf" + plain.encode())
    yield csv("latin-1", "id,name\n1,café\n2,über\n".encode("latin-1"), "encoding = 'latin-1'")
    yield csv("utf-16", "id,name\n1,café\n2,über\n".encode("utf-16"), "encoding = 'utf-16'")
    yield csv("double quotes", 'a,b\n1,"x, y"\n2,"say ""hi"""\n3,"line\nbreak"\n')
    yield csv("single quotes", "a,b\n1,'x, y'\n2,'z'\n")
    yield csv("backslashes", 'a,b\n1,"say \\"hi\\""\n2,"x"\n')
    yield csv("quotes within a field", 'a,b\n1,5" pipe\n2,x\n')
    yield csv("no quotes", 'a,b\n1,"x\n2,y"\n', "quote = ''")
    yield csv("no header", "1,x,2.5\n2,y,3.5\n")
    yield csv("a header of texts over texts", "name,city\nada,paris\nbob,rome\n")
    yield csv("a header that is said not to be there", "a,b\n1,2\n", "header = false")
    yield csv("a header alone", "a,b,c\n")
    yield csv("nothing", "")
    yield csv("one column", "x\n1\n2\n3\n")
    yield csv("one column of texts", "x\nfoo\nbar\n")
    yield csv("names that are there twice", "a,a,A,b\n1,2,3,4\n")
    yield csv("columns without names", ",x,\n1,2,3\n")
    yield csv("spaces around names", " a , b \n1,2\n")
    yield csv("names with letters of any kind", "größe,naïve name,x-y\n1,2,3\n")
    yield csv("plain names", "Größe,naïve name,select,1st\n1,2,3,4\n", "normalize_names = true")
    yield csv("names that are given", "1,x\n2,y\n", "names = ['n', 'm']")
    yield csv("comments", "# made by hand\na,b\n1,2\n# 3,4\n5,6\n", "comment = '#'")
    yield csv("lines before the table", "report\nof today\na,b\n1,2\n3,4\n", "skip = 2")
    yield csv("blank lines", "a,b\n1,2\n\n3,4\n\n")
    yield csv("short records", "a,b,c\n1,2,3\n4,5\n6\n", "null_padding = true")
    yield csv("records that are passed over", "a,b\n1,2\n3\nx,4,5\n6,7\n", "ignore_errors = true, header = true, delim = ','")
    yield csv("a delimiter behind the last value", "a,b\n1,2,\n3,4,\n")
    for kind, days in (("years first", "2024-01-05 2024-02-29"), ("days first", "25/12/2024 01/02/2024"), ("months first", "12/25/2024 01/31/2024"),
                       ("points", "2024.01.05 2023.12.31"), ("backslashes", "2024\\01\\05 2023\\12\\31"), ("short years", "99-01-05 98-12-31"),
                       ("short years last", "25-12-99 13-01-98"), ("no zeros", "2024-1-5 2023-12-31")):
        yield csv(f"dates, {kind}", "d\n" + days.replace(" ", "\n") + "\n")
    yield csv("dates of several forms", "d,e\n2024-01-05,25/12/2024\n2024-02-29,01/02/2024\n", choice="each column has a form of its own")
    yield csv("timestamps", "t,u,v\n2024-01-05 10:11:12,2024-01-05T10:11:12.5,2024-01-05 10:11:12+02:00\n"
              "2024-01-06 00:00:00,2024-01-06T01:00:00,2024-01-06 00:00:00Z\n")
    yield csv("half days", "t\n12/25/2024 01:02:03 PM\n01/31/2024 12:00:00 AM\n")
    yield csv("times", "t\n10:11:12\n9:00:00\n")
    yield csv("formats that are said", "d,t\n05.01.24,20240105 1011\n06.01.24,20240106 1213\n",
              "dateformat = '%d.%m.%y', timestampformat = '%Y%m%d %H%M'")
    yield csv("numbers", "i,f,e,n\n1,1.5,1e3,-7\n-2,.5,2E-2,0\n")
    yield csv("numbers beyond 64 bits", "n\n12345678901234567890\n1\n")
    yield csv("codes with zeros before them", "zip,phone\n01234,+49123\n99999,+1555\n")
    yield csv("decimal commas", "a;b\n1,5;1.234,5\n2,25;7,0\n", "delim = ';', decimal_separator = ',', thousands = '.'")
    yield csv("thousands", "a;b\n1,234;2\n5,678,901;3\n", "delim = ';', thousands = ','")
    yield csv("booleans", "a,b\ntrue,T\nfalse,F\n")
    yield csv("texts for NULL", "a,b\nNA,1\n2,-\n", "nullstr = ['NA', '-']")
    yield csv("quoted texts for NULL", 'a,b\n"",x\n,""\n', "allow_quoted_nulls = false")
    yield csv("columns that are never NULL", "a,b\n1,\n2,x\n", "force_not_null = ['b']")
    yield csv("types that are given", "a,b,c,d\n1,2.345,x,2024-01-05\n", "types = {'a': 'DOUBLE', 'b': 'DECIMAL(5,2)', 'd': 'TIMESTAMP'}")
    yield csv("all columns given", "a,b\n1,2\n3,4\n", "columns = {'x': 'VARCHAR', 'y': 'INTEGER'}, header = true")
    yield csv("nothing found out", "1,2\n3,4\n", "auto_detect = false, columns = {'x': 'VARCHAR', 'y': 'INTEGER'}")
    yield csv("nested types", "a|b|c\n[1, 2]|{'x': 1}|550e8400-e29b-41d4-a716-446655440000\n",
              "delim = '|', quote = '', types = {'a': 'INT[]', 'b': 'STRUCT(x INT)', 'c': 'UUID'}")
    yield csv("all texts", plain, "all_varchar = true")
    yield csv("a value that comes late", "a\n" + "1\n" * 30000 + "x\n", choice="the first 8 MiB tell the types, not the first 20,480 records")
    yield csv("a day before the month", "a\n12/31/2024 10:11:12\n", choice="such a moment is a TIMESTAMP")
    yield csv("nanoseconds", "a\n2024-01-05 10:11:12.123456789\n", choice="such a moment is a TIMESTAMP_NS, and keeps its digits")
    yield Case("csv: gzip", "'x.csv.gz'", {"x.csv.gz": lambda path: path.write_bytes(gzip.compress(plain.encode()))})
    yield Case("csv: zstd", "'x.csv.zst'", {"x.csv.zst": compressed("zstd", plain)})
    yield Case("csv: compressed without a name that says so", "read_csv('x.bin', compression = 'gzip')",
               {"x.bin": lambda path: path.write_bytes(gzip.compress(plain.encode()))})
    yield Case("csv: compressed and not", "read_csv(['a.csv', 'b.csv.gz'])",
               {"a.csv": plain, "b.csv.gz": lambda path: path.write_bytes(gzip.compress(plain.encode()))})
    yield Case("csv: columns that drift", "read_csv('*.csv', union_by_name = true)", {"a.csv": "a,b\n1,x\n", "b.csv": "b,c\ny,2.5\n", "c.csv": "c,a\n1,2.5\n"})
    yield Case("csv: columns in another order", "read_csv('*.csv', union_by_name = true, filename = true)", {"a.csv": "a,b\n1,x\n", "b.csv": "b,a\ny,2\n"})
    yield Case("csv: a file twice", "read_csv(['x.csv', 'x.csv'], filename = 'f')", {"x.csv": plain})
    yield Case("csv: directories that name columns", "'d/*/*/*.csv'",
               {"d/y=2020/m=x/a.csv": "a\n1\n", "d/y=2021/m=__HIVE_DEFAULT_PARTITION__/b.csv": "a\n2\n"})
    yield Case("csv: types of directories", "read_csv('d/*/*.csv', hive_types = {'y': 'VARCHAR'})", {"d/y=2020/a.csv": "a\n1\n", "d/y=2021/b.csv": "a\n2\n"})


def json_cases():
    rows = [{"a": 1, "b": "x", "c": 2.5}, {"a": 2, "b": None, "c": 7}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    yield documents("an array", json.dumps(rows))
    yield documents("lines", lines, ending="ndjson")
    yield documents("objects over several lines", json.dumps(rows[0], indent=2) + "\n" + json.dumps(rows[1], indent=2))
    yield documents("an array over several lines", json.dumps(rows, indent=2))
    yield documents("one object", json.dumps(rows[0]))
    yield documents("structs", '{"a": {"x": 1, "y": {"z": "q"}}}\n{"a": {"x": 2, "w": true}}\n')
    yield documents("lists", '{"a": [1, 2], "b": [{"x": 1}, {"y": 2}]}\n{"a": [], "b": []}\n')
    yield documents("keys that come late", '{"a": 1}\n{"b": 2, "a": 3}\n{"c": true}\n')
    yield documents("keys as values of a map", "".join(json.dumps({"m": {f"k{i}{j}": j for j in range(30)}}) + "\n" for i in range(20)))
    yield documents("numbers alone", "1\n2\n3\n")
    yield documents("texts alone", '"a"\n"b"\n')
    yield documents("lists alone", "[[1, 2], [3]]")
    yield documents("values of several types", '{"a": 1}\n{"a": "x"}\n{"a": [1]}\n')
    yield documents("whole numbers and others", '{"a": 1}\n{"a": 2.5}\n{"a": 1e3}\n')
    yield documents("large numbers", '{"a": 12345678901234567890}\n{"a": 1}\n')
    yield documents("dates and moments", '{"d": "2024-01-05", "t": "2024-01-05 10:11:12", "z": "2024-01-05T10:11:12Z", "h": "10:11:12", "o": "2024/01/05"}\n')
    yield documents("letters of any kind", '{"gr\\u00f6\\u00dfe": "caf\\u00e9 \\ud83d\\ude00 \\" \\\\ \\n"}\n')
    yield documents("nothing but NULL", '{"a": null}\n{"a": null}\n', choice="a column of nothing is of texts")
    yield documents("an empty object", '{}\n{"a": 1}\n')
    yield documents("nothing", "")
    yield documents("columns that are given", lines, "columns = {'a': 'DOUBLE', 'b': 'VARCHAR'}")
    yield Case("json: gzip", "'x.json.gz'", {"x.json.gz": lambda path: path.write_bytes(gzip.compress(lines.encode()))})
    yield Case("json: columns that drift", "read_json('*.json', union_by_name = true)", {"a.json": '{"a": 1}', "b.json": '{"b": "x"}'})


def table():
    rows = range(20)
    day = datetime.date(2024, 1, 1)
    return pa.table({
        "i": pa.array(rows, pa.int64()), "t": pa.array([i % 7 for i in rows], pa.int8()), "u": pa.array(rows, pa.uint32()),
        "f": pa.array([i / 3 for i in rows]), "h": pa.array([i / 4 for i in rows], pa.float32()),
        "s": pa.array([None if i % 4 == 0 else f"text {i}" for i in rows]), "b": pa.array([i % 2 == 0 for i in rows]),
        "d": pa.array([day + datetime.timedelta(i) for i in rows]), "dc": pa.array([decimal.Decimal(i) / 4 for i in rows], pa.decimal128(9, 2)),
        "ts": pa.array([i * 1_000_000 for i in rows], pa.timestamp("us")), "tz": pa.array([i * 1_000_000 for i in rows], pa.timestamp("us", "UTC")),
        "bin": pa.array([b"bytes" * (i % 3) for i in rows]), "tm": pa.array([i * 1_000_000 for i in rows], pa.time64("us")),
    })


def nested():
    return pa.table({
        "l": pa.array([[1, 2], [], None, [None, 3]]), "st": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": ""}, {"a": 2, "b": "y"}]),
        "m": pa.array([[("k", 1)], [], None, [("x", None)]], pa.map_(pa.string(), pa.int32())),
        "ll": pa.array([[["a"], []], None, [], [None]], pa.list_(pa.list_(pa.string()))),
    })


def written(table, **options):
    return lambda path: pa.parquet.write_table(table, path, **options)


def by_duckdb(query, options=""):
    def write(path):
        with duckdb.connect() as connection:
            connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet{options})")
    return write


def parquet_cases():
    yield parquet("flat columns", written(table()))
    yield parquet("pages of the second version", written(table(), data_page_version="2.0", compression="zstd"))
    yield parquet("no dictionaries", written(table(), use_dictionary=False, compression="gzip"))
    yield parquet("small row groups", written(table(), row_group_size=3, compression="none"))
    yield parquet("lz4", written(table(), compression="lz4"))
    yield parquet("nested columns", written(nested()))
    yield parquet("moments of 96 bits", written(table().select(["i", "ts"]), use_deprecated_int96_timestamps=True))
    yield parquet("moments of milliseconds", choice="they are TIMESTAMP_MS, as the file says", make=written(pa.table({"t": pa.array([1, None], pa.timestamp("ms")), "n": pa.array([1, 2], pa.timestamp("ns"))}), version="2.6"))
    yield parquet("dictionaries of pandas", written(pa.table({"c": pa.array(["a", "b", "a", None]).dictionary_encode()})))
    yield parquet("long texts and bytes", written(pa.table({"s": pa.array(["a", None], pa.large_string()), "v": pa.array(["b" * 40, ""], pa.string_view()), "f": pa.array([b"abcd", None], pa.binary(4))})))
    yield parquet("no rows", written(table().slice(0, 0)))
    yield parquet("names of any kind", written(pa.table({"Größe": [1], "a b": [2], "select": [3]})))
    yield parquet("bytes as texts", written(pa.table({"s": pa.array([b"x", b"y"])})), "binary_as_string = true")
    yield parquet("numbers of rows", written(table().select(["i"]), row_group_size=3), "file_row_number = true")
    yield parquet("of DuckDB", by_duckdb("SELECT i, i::VARCHAR s, i::HUGEINT h, [i] l, {'x': i} st, i::UTINYINT u FROM range(10) t(i)"))
    yield parquet("uuids", by_duckdb("SELECT '550e8400-e29b-41d4-a716-446655440000'::UUID u, [u] l"))
    yield parquet("times of a day", by_duckdb("SELECT TIME '10:11:12' t, DATE '2024-01-05' d, TIMESTAMP_S '2024-01-05 10:11:12' s"))
    yield parquet("documents", by_duckdb("SELECT '{\"a\": 1}'::JSON j"))
    yield Case("parquet: columns that drift", "read_parquet('*.parquet', union_by_name = true)",
               {"a.parquet": written(pa.table({"a": [1], "b": ["x"]})), "b.parquet": written(pa.table({"b": ["y"], "c": [2.5]}))})
    yield Case("parquet: types that drift", "read_parquet('*.parquet', union_by_name = true)",
               {"a.parquet": written(pa.table({"a": pa.array([1], pa.int32())})), "b.parquet": written(pa.table({"a": pa.array([2], pa.int64())}))})
    yield Case("parquet: directories that name columns", "'d/**/*.parquet'",
               {"d/y=2020/m=1/a.parquet": written(pa.table({"a": [1]})), "d/y=2021/m=2/b.parquet": written(pa.table({"a": [2]}))})
    yield Case("parquet: files in a list", "read_parquet(['b.parquet', 'a.parquet'], filename = true)",
               {"a.parquet": written(pa.table({"a": [1]})), "b.parquet": written(pa.table({"a": [2]}))})


def of_duckdb(case, directory):
    """Names and types of the columns, and the rows as texts; or the error."""
    os.chdir(directory)
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        try:
            connection.execute(f"CREATE TABLE t AS SELECT * FROM {case.table}")
            columns = [row[:2] for row in connection.execute("DESCRIBE t").fetchall()]
            rows = connection.execute("SELECT COLUMNS(*)::VARCHAR FROM t").fetchall()
        except duckdb.Error as error:
            return str(error)
    return columns, sorted(rows, key=str)


def of_ogee(shell, case, directory):
    statements = ["SET TimeZone = 'UTC'", f"CREATE TABLE t AS SELECT * FROM {case.table}", "DESCRIBE t", "SELECT COLUMNS(*)::VARCHAR FROM t"]
    command = [shell, "--no-init", "--format", "ndjson", "--threads", "1"]
    command += [word for statement in statements for word in ("-c", statement)]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, encoding="utf-8", timeout=PATIENCE)
    if done.returncode:
        return f"exit code {done.returncode}: {done.stderr.strip()}"
    values = [json.loads(line, object_pairs_hook=lambda pairs: pairs) for line in done.stdout.splitlines()]
    described = [pairs for pairs in values if pairs and pairs[0][0] == "column_name"]
    columns = [tuple(value for _, value in pairs[:2]) for pairs in described]
    rows = [tuple(value for _, value in pairs) for pairs in values if pairs not in described]
    return columns, sorted(rows, key=str)


def difference(case, expected, actual):
    """What is told of a case that is wrong; None of one that is as it should be."""
    if expected == actual or isinstance(expected, str) and isinstance(actual, str):
        return None if case.choice is None else f"{case.name}: there is no difference any more, and the case says: {case.choice}"
    if case.choice is not None:
        return None
    return f"{case.name}: SELECT * FROM {case.table}\n  DuckDB: {shown(expected)}\n  Ogee:   {shown(actual)}"


def shown(answer):
    return " ".join(answer.split())[:400] if isinstance(answer, str) else f"{answer[0]} {answer[1][:8]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shell", required=True, help="path of the ogee shell")
    parser.add_argument("--only", default="", help="cases whose names have this in them")
    arguments = parser.parse_args()
    shell = str(pathlib.Path(arguments.shell).resolve())
    cases = [case for case in [*csv_cases(), *json_cases(), *parquet_cases()] if arguments.only in case.name]
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(2) as pool:
        asked = []
        for number, case in enumerate(cases):
            directory = pathlib.Path(name) / str(number)
            directory.mkdir()
            case.make(directory)
            asked.append(pool.submit(of_ogee, shell, case, directory))
        # DuckDB finds files from where the process is.
        expected = [of_duckdb(case, pathlib.Path(name) / str(number)) for number, case in enumerate(cases)]
        os.chdir("/")
        told = [difference(case, answer, future.result()) for case, answer, future in zip(cases, expected, asked)]
        wrong = [text for text in told if text]
    print("\n".join(wrong + [f"files: {len(cases)} cases, {len(wrong)} differ"]))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
