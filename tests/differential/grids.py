#!/usr/bin/env python3
"""Grids of statements: every construct of one clause with every other, over fixed tables, in an ogee shell and in DuckDB.

Where `small.py` makes queries of everything at random, a grid takes what one clause can be made of and combines it: windows with frames and keys, `DISTINCT ON` with orders of nested
values, conditions with NULL and NaN, `USING` with whatever reads its columns. Most of a grid is valid in both, and its orders are total, so that the order of rows is compared, too. A
failure prints what repeats it.

Not here: random tables, files and settings (`small.py`), large tables and little memory (`differential.py`).
"""

import argparse
import datetime
import decimal
import json
import math
import random
import re
import sys
import tempfile

import duckdb

from small import Shell, open_duckdb

TABLES = """
CREATE TABLE t AS SELECT i::INT AS i, CASE WHEN i % 5 = 0 THEN NULL ELSE (i % 4)::INT END AS g,
  CASE WHEN i % 6 = 0 THEN NULL ELSE substr('banana', (1 + i % 3)::INT, (1 + i % 4)::INT) END AS s,
  CASE WHEN i % 7 = 0 THEN 'nan'::DOUBLE WHEN i % 6 = 0 THEN NULL WHEN i % 11 = 0 THEN 'inf'::DOUBLE ELSE (i % 5) - 2.5::DOUBLE END AS x,
  CASE WHEN i % 8 = 0 THEN NULL ELSE DATE '2020-02-26' + (i % 6 * 3)::INT END AS d,
  CASE WHEN i % 9 = 0 THEN NULL ELSE TIMESTAMP '2020-02-28 22:00:00' + INTERVAL 1 HOUR * (i % 10) END AS ts,
  CASE WHEN i % 9 = 0 THEN NULL ELSE i % 2 = 0 END AS b, CASE WHEN i % 4 = 0 THEN NULL ELSE ((i % 7) * 1.25)::DECIMAL(6, 2) END AS m,
  CASE WHEN i % 5 = 1 THEN NULL ELSE [i % 3, NULL, i]::INT[] END AS l, CASE WHEN i % 10 = 0 THEN NULL ELSE {'a': (i % 3)::INT, 'b': 'q' || (i % 2)} END AS st
  FROM range(30) AS r(i);
CREATE TABLE u AS SELECT (i * 2)::INT AS i, CASE WHEN i % 5 = 2 THEN NULL ELSE (i % 3)::INT END AS k,
  CASE WHEN i % 4 = 0 THEN NULL ELSE substr('banana', (1 + i % 4)::INT, 2) END AS s, (i % 5) / 2.0::DOUBLE AS y FROM range(14) AS r(i);
CREATE TABLE a AS SELECT * FROM (VALUES (1, 10, 'p'), (2, 20, 'q'), (2, 21, 'p'), (NULL, 5, 'r'), (4, NULL, NULL)) AS v(i, j, k);
CREATE TABLE b AS SELECT * FROM (VALUES (1, 10, 100), (2, 20, 200), (2, 22, 7), (3, 7, 7), (NULL, 9, 9)) AS v(i, j, y);
CREATE TABLE c AS SELECT * FROM (VALUES (1, 'x'), (2, 'y'), (5, 'w'), (NULL, 'n')) AS v(i, z);
CREATE SCHEMA s1;
CREATE TABLE s1.a AS SELECT i::INT AS i, (i * 5 % 7)::INT AS j, 'n' || i AS n FROM range(4) AS r(i);
CREATE VIEW v AS SELECT i, j AS i2, k AS n FROM a;
CREATE VIEW s1.v AS SELECT j AS i, i AS j FROM s1.a;
CREATE VIEW w(x, y) AS SELECT i, count(*) FROM b GROUP BY i
"""

NUMBERS = ["i", "g", "x", "m", "i % 3", "g + 1", "-x", "m * 2", "nullif(g, 1)", "coalesce(x, 0)", "abs(g)", "0", "1", "1.5", "-0.5", "'nan'::DOUBLE", "NULL", "length(s)",
           "(SELECT max(k) FROM u)", "(SELECT min(u.y) FROM u WHERE u.i = t.i)", "CASE WHEN b THEN g ELSE i % 5 END", "greatest(g, x)", "least(g, 1)"]
TEXTS = ["s", "upper(s)", "'an'", "s || 'a'", "substr(s, 1, 1)", "coalesce(s, 'b')", "''", "(SELECT min(u.s) FROM u WHERE u.i > t.i)", "nullif(s, 'a')"]
DATES = ["d", "d + 1", "DATE '2020-02-28'", "coalesce(d, DATE '2020-03-01')"]
KEYS = ["g", "s", "x", "d", "l", "st", "m", "b", "ts", "i % 3", "-g", "abs(x)", "upper(s)", "st.a", "l[1]", "length(l)", "s IS NULL", "x > 0", "length(s) > 2", "coalesce(s, 'b')",
        "CASE WHEN g > 1 THEN g END", "d + 1", "year(d)", "g::VARCHAR", "nullif(g, 2)"]
SOURCES = ["t"] * 4 + ["(SELECT * FROM t WHERE i > 4) AS t", "(SELECT * FROM t ORDER BY i DESC LIMIT 20) AS t", "(SELECT * FROM t ORDER BY i LIMIT 17 OFFSET 2) AS t",
                       "(SELECT t.* FROM t LEFT JOIN u USING (i)) AS t", "(SELECT DISTINCT ON (g, b) * FROM t ORDER BY g, b, i) AS t"]
WHERES = [""] * 4 + [" WHERE g > 0", " WHERE s IS NOT NULL", " WHERE x < 1", " WHERE st.a = 1", " WHERE i IN (SELECT i FROM u)", " WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.g)",
                     " WHERE b", " WHERE false", " WHERE l[1] = 1"]


class Maker:
    """Statements of one draw of random numbers."""

    def __init__(self, rng):
        self.rng = rng

    def one(self, *options):
        return self.rng.choice(options)

    def of(self, options):
        return self.rng.choice(options)

    def order(self, key):
        return key + self.one("", " DESC", " NULLS FIRST", " NULLS LAST", " DESC NULLS LAST", " ASC NULLS FIRST")

    def limit(self):
        return self.one("", "", "", " LIMIT 3", " LIMIT 5 OFFSET 2", " OFFSET 4", " LIMIT 0", " LIMIT 100 OFFSET 28")

    # Orders, DISTINCT and WITH.

    def distinct_on(self):
        keys = self.rng.sample(KEYS, self.one(1, 1, 2))
        outputs = ", ".join(f"{key} AS c{n}" for n, key in enumerate(self.rng.sample(KEYS, 2)))
        inner = (f"SELECT DISTINCT ON ({', '.join(keys)}) {outputs}, i FROM {self.of(SOURCES)}{self.of(WHERES)} "
                 f"ORDER BY {', '.join(self.order(key) for key in keys)}, i{self.one('', ' DESC')}")
        return self.one(inner + self.limit(), f"SELECT c0, count(*), sum(i) FROM ({inner}) AS q GROUP BY c0 ORDER BY ALL",
                        f"WITH q AS ({inner}{self.limit()}) SELECT p.c0, q.c1 FROM q AS p JOIN q ON p.i = q.i ORDER BY ALL", f"SELECT * FROM ({inner}) AS q WHERE c1 IS NOT NULL ORDER BY ALL")

    def orders(self):
        keys, outputs = self.rng.sample(KEYS, self.one(1, 2, 3)), self.rng.sample(KEYS, self.one(1, 2))
        listed = ", ".join(f"{key} AS c{n}" for n, key in enumerate(outputs))
        source, where = self.of(SOURCES), self.of(WHERES)
        by_position = ", ".join(self.order(str(n + 1)) for n in range(len(outputs)))
        return self.one(f"SELECT {listed} FROM {source}{where} ORDER BY {', '.join(map(self.order, keys))}, i{self.limit()}",
                        f"SELECT DISTINCT {listed} FROM {source}{where} ORDER BY {by_position}{self.limit()}",
                        f"SELECT {listed}, count(*) AS n FROM {source}{where} GROUP BY ALL ORDER BY {by_position}{self.limit()}",
                        f"SELECT list(c0 ORDER BY {self.order('c0')}, i), count(DISTINCT c0), min(c0), max(c0) FROM (SELECT {outputs[0]} AS c0, i FROM {source}{where}) AS q",
                        f"SELECT c0, first(i ORDER BY i), last(i ORDER BY i) FROM (SELECT {outputs[0]} AS c0, i FROM {source}{where}) AS q GROUP BY c0 ORDER BY {self.order('c0')}{self.limit()}")

    def withs(self):
        first = f"SELECT {self.of(KEYS)} AS a, {self.of(KEYS)} AS b, i FROM {self.of(SOURCES)}{self.of(WHERES)}"
        second = self.one("SELECT a, count(*) AS n, min(i) AS i FROM q1 GROUP BY a", "SELECT DISTINCT a, i % 5 AS n, i % 2 AS i FROM q1", "SELECT a, row_number() OVER (PARTITION BY a ORDER BY i) AS n, i FROM q1",
                          "SELECT a, i AS n, i FROM q1 WHERE i > (SELECT avg(i) FROM q1)", "SELECT a, i AS n, i FROM q1 ORDER BY i DESC LIMIT 7")
        third = self.one("SELECT * FROM q2", "SELECT q1.a, q2.n FROM q1 JOIN q2 ON q1.i = q2.i", "SELECT q2.n, (SELECT count(*) FROM q1 WHERE q1.i < q2.i) FROM q2", "SELECT a, i FROM q1 EXCEPT SELECT a, i FROM q2",
                         "SELECT count(*), count(DISTINCT a), sum(n) FROM q2", "SELECT p.n, q.n FROM q2 AS p LEFT JOIN q2 AS q ON p.n = q.n + 1", "SELECT n FROM q2 WHERE a IN (SELECT a FROM q1 WHERE i < 9)",
                         "SELECT n FROM q2 WHERE a NOT IN (SELECT a FROM q1 WHERE a IS NOT NULL AND i < 9)")
        return f"WITH q1 AS{self.one('', ' MATERIALIZED', ' NOT MATERIALIZED')} ({first}), q2 AS ({second}) {third} ORDER BY ALL"

    # Conditions.

    def condition(self, depth):
        parts = self.rng.random()
        if depth and parts < 0.35:
            return f"({self.condition(depth - 1)} {self.one('AND', 'OR')} {self.condition(depth - 1)})"
        if depth and parts < 0.45:
            return f"(NOT {self.condition(depth - 1)})"
        if depth and parts < 0.5:
            return f"(CASE WHEN {self.condition(depth - 1)} THEN {self.condition(depth - 1)} ELSE {self.condition(depth - 1)} END)"
        compare, no = self.one("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"), self.one("", "NOT ")
        values = self.of([NUMBERS, NUMBERS, TEXTS, DATES])
        value, other = self.of(values), self.of(values)
        pattern = self.one("s", "'%a'", "'_N%'", "''", "'%'", "'an'", "NULL")
        return self.one(
            f"{value} {compare} {other}", f"{value} {no}IN ({', '.join(self.rng.sample(values, self.one(1, 2, 3)))})", f"{value} {no}BETWEEN {other} AND {self.of(values)}",
            f"{self.of(TEXTS)} {no}{self.one('LIKE', 'ILIKE')} {pattern}", f"{value} IS {no}NULL",
            self.one("b", "NOT b", "b IS TRUE", "b IS NOT TRUE", "b IS FALSE", "b = (g > 1)", "NULL::BOOLEAN", "(x > 0) IS TRUE", "(g > 1) IS NOT FALSE"),
            f"{self.of(NUMBERS)} {no}IN (SELECT {self.one('k', 'y', 'i', 'max(k)', 'DISTINCT k + 1')} FROM u{self.one('', ' WHERE u.i = t.i', ' WHERE k IS NOT NULL', ' WHERE u.y > t.g')})",
            f"{no}EXISTS (SELECT 1 FROM u WHERE u.{self.one('i = t.i', 'k = t.g', 's = t.s', 'y < t.x', 'i > t.i AND u.k = t.g')})",
            f"{self.of(NUMBERS)} {self.one('=', '<', '>=', '<>')} {self.one('ANY', 'ALL')} (SELECT {self.one('k', 'y')} FROM u{self.one('', ' WHERE u.i < t.i', ' WHERE false')})",
            f"{self.of(TEXTS)} {no}IN (SELECT s FROM u{self.one('', ' WHERE s IS NOT NULL', ' WHERE u.i <= t.i')})")

    def filters(self):
        join = self.one("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
        on, where = self.one("t.x > u.y", "t.i > 10", "u.s IS NOT NULL", "t.b", "u.y <> 1", "(t.s = u.s OR t.m > u.y)"), self.one("true", "t.i < 20 OR t.i IS NULL", "u.k IS DISTINCT FROM 1", "t.b IS NOT TRUE")
        return self.one(f"SELECT i FROM t WHERE {self.condition(3)} ORDER BY i", f"SELECT {self.condition(2)} AS c, count(*), sum(i) FROM t GROUP BY 1 ORDER BY ALL",
                        f"SELECT t.i, u.i FROM t {join} u ON t.g = u.k AND {on} WHERE {where} ORDER BY ALL",
                        f"SELECT g, count(*) FILTER (WHERE {self.condition(1)}), bool_or({self.condition(1)}) FROM t GROUP BY g HAVING {self.one('count(*) > 2', 'max(x) > 1', 'bool_and(b) IS NOT TRUE')} ORDER BY ALL",
                        f"SELECT i, CASE WHEN {self.condition(1)} THEN 1 WHEN {self.condition(1)} THEN 2 END AS c FROM t WHERE {self.condition(1)} ORDER BY ALL")

    # Aggregates.

    def aggregate(self):
        value, number = self.one("i", "g", "x", "m", "s", "d", "b", "upper(s)", "nullif(g, 1)"), self.one("i", "g", "m", "i % 3", "m * 2")
        call = self.one(f"{self.one('count', 'min', 'max')}({self.one('', 'DISTINCT ')}{value})", f"{self.one('sum', 'avg', 'median', 'stddev', 'var_pop')}({number})", f"{self.one('bit_or', 'bit_xor')}(i)",
                        f"{self.one('sum', 'avg')}(DISTINCT {number})", f"{self.one('list', 'first', 'last')}({value} ORDER BY i{self.one('', ' DESC')})", f"list(i ORDER BY {self.order(self.of(KEYS))}, i)",
                        f"string_agg({self.one('s', 'upper(s)')}, '{self.one(',', '')}' ORDER BY i DESC)", f"{self.one('arg_max', 'arg_min')}({value}, i)", f"{self.one('bool_and', 'bool_or')}(b)",
                        f"quantile_disc({self.one('i', 'g', 'm')}, 0.5)", "count(*)", f"list(DISTINCT {number} ORDER BY {number})")
        return call + self.one("", "", "", f" FILTER (WHERE {self.one('i > 5', 'b', 'g = 1', 's IS NOT NULL', 'x > 0', 'false', 'g IS NULL')})")

    def aggregates(self):
        keys, group = self.of([(key, key) for key in ["g", "s", "b", "i % 3", "g, b", "upper(s)", "d", "x > 0", "st", "l"]] + [
            ("g, b", "ROLLUP (g, b)"), ("g, b", "CUBE (g, b)"), ("g, b", "GROUPING SETS ((g), (b), ())"), ("g, b", "GROUPING SETS ((g, b), (g))"), ("i % 3", "ROLLUP (i % 3)")])
        calls = ", ".join(self.aggregate() for _ in range(self.one(1, 2, 3)))
        having = self.one("", "", "", " HAVING count(*) > 3", " HAVING max(i) > 25", " HAVING bool_or(b)", " HAVING min(s) < 'b'")
        source, where = self.one("t", "t", "(SELECT * FROM t WHERE i < 25) AS t", "(SELECT t.* FROM t LEFT JOIN u ON t.i = u.i AND u.k > 0) AS t"), self.of(WHERES)
        first = keys.split(",")[0]
        return self.one(f"SELECT {keys}, {calls} FROM {source}{where} GROUP BY {group}{having} ORDER BY ALL", f"SELECT {calls} FROM {source}{where}{having}",
                        f"SELECT count(*), count(a0) FROM (SELECT {first} AS k0, {self.aggregate()} AS a0 FROM {source}{where} GROUP BY {group}{having}) AS q",
                        f"SELECT q.k0, q.a0, u.i FROM (SELECT {first} AS k0, count(*) AS a0 FROM {source}{where} GROUP BY {group}) AS q JOIN u ON q.a0 = u.i ORDER BY ALL")

    # Windows.

    def frame(self):
        total = self.one("i", "i DESC", "s, i", "x, i", "d NULLS FIRST, i", "g DESC, i", "l, i", "length(s) > 2, i")
        starts = {"UNBOUNDED PRECEDING": ["1 PRECEDING", "CURRENT ROW", "1 FOLLOWING", "UNBOUNDED FOLLOWING"], "2 PRECEDING": ["1 PRECEDING", "CURRENT ROW", "1 FOLLOWING"],
                  "CURRENT ROW": ["1 FOLLOWING", "UNBOUNDED FOLLOWING"], "1 FOLLOWING": ["3 FOLLOWING", "UNBOUNDED FOLLOWING"]}
        start = self.of(list(starts))
        key, steps = self.of([("i", ["3", "0"]), ("g", ["1", "2"]), ("m", ["1.25", "0.5"]), ("x", ["1", "2.5"]), ("d", ["INTERVAL '3 days'", "INTERVAL '1 month'"]), ("ts", ["INTERVAL '2 hours'"])])
        step = self.of(steps)
        return self.one(f"ORDER BY {total} ROWS BETWEEN {start} AND {self.of(starts[start])}",
                        f"ORDER BY {self.order(self.one('g', 's', 'd', 'x', 'b', 'm'))} GROUPS BETWEEN {self.one('UNBOUNDED PRECEDING', '1 PRECEDING', 'CURRENT ROW')} AND {self.one('CURRENT ROW', '1 FOLLOWING')}",
                        f"ORDER BY {self.order(key)} RANGE BETWEEN {self.one(step + ' PRECEDING', 'UNBOUNDED PRECEDING', 'CURRENT ROW')} AND {step} FOLLOWING", f"ORDER BY {self.order(self.of(KEYS))}", "")

    def window(self):
        value, number = self.one("i", "g", "s", "x", "d", "m", "b", "ts"), self.one("i", "g", "m")
        part = self.one("", f"PARTITION BY {self.of(KEYS)} ", "PARTITION BY g, b ")
        total = f"ORDER BY {self.order(self.of(KEYS))}, i{self.one('', ' DESC')}"
        over_frame = self.one(f"count({value})", "count(*)", f"min({value})", f"max({value})", f"sum({number})", f"avg({number})", "bool_or(b)", f"count(DISTINCT {value})", f"sum({number}) FILTER (WHERE b)", f"var_pop({number})",
                              f"median({number})", f"arg_max({number}, i)", "bit_or(i)")
        of_row = self.one("row_number()", "ntile(3)", f"lag({value})", f"lead({value}, 2)", f"lag({value} IGNORE NULLS)", f"first_value({value})", f"last_value({value})", f"nth_value({value}, 2)", f"first_value({value} IGNORE NULLS)")
        ranked = self.one("rank()", "dense_rank()", "percent_rank()", "cume_dist()")
        return self.one(f"{over_frame} OVER ({part}{self.frame()})", f"{over_frame} OVER ({part}{self.frame()})", f"{of_row} OVER ({part}{total})", f"{ranked} OVER ({part}ORDER BY {self.order(self.of(KEYS))})")

    def windows(self):
        source, where = self.of(SOURCES), self.of(WHERES)
        rank = self.one("rank()", "sum(count(*))", "lag(count(*))", "max(min(i))")
        return self.one(f"SELECT i, {', '.join(self.window() for _ in range(self.one(1, 2, 3)))} FROM {source}{where} ORDER BY i", f"SELECT i, {self.window()} AS w FROM {source}{where} QUALIFY w IS NOT NULL ORDER BY i",
                        f"SELECT w, count(*) FROM (SELECT {self.window()} AS w FROM {source}{where}) AS q GROUP BY w ORDER BY ALL",
                        f"SELECT g, count(*), {rank} OVER (ORDER BY {self.one('g', 'count(*) DESC, g', 'min(i)')}) FROM {source}{where} GROUP BY g ORDER BY g")

    # Subqueries, set operations, and columns by name.

    def correlated(self):
        on = self.one("u.k = t.g", "u.k < t.g", "u.s = t.s", "u.s IS NOT DISTINCT FROM t.s", "u.k = t.g AND u.s = t.s", "u.k + 1 = t.g", "u.y < t.x", "u.k = t.g OR u.s = t.s", "u.k BETWEEN t.g - 1 AND t.g", "t.m > 4", "u.k <> t.g")
        call = self.one("count(*)", "sum(u.y)", "max(u.s)", "min(u.k)", "count(DISTINCT u.s)", "string_agg(u.s, ',' ORDER BY u.i)", "list(u.k ORDER BY u.i)", "bool_or(u.y > 1)")
        value = self.one(f"(SELECT {call} FROM u WHERE {on})", f"(SELECT u.y FROM u WHERE {on} ORDER BY u.i LIMIT 1{self.one('', ' OFFSET 1')})", f"(SELECT max(z) FROM (SELECT sum(u.y) AS z FROM u WHERE {on} GROUP BY u.s) AS q)",
                         f"(SELECT {call} FROM u WHERE {on} HAVING count(*) > 1)", f"(SELECT sum(r) FROM (SELECT row_number() OVER (PARTITION BY u.s ORDER BY u.i) AS r FROM u WHERE {on}) AS q)",
                         f"(SELECT count(*) FROM u JOIN u AS u2 ON u.k = u2.k WHERE {on} AND u2.y > t.g)", f"(SELECT count(*) FROM (SELECT u.s FROM u WHERE {on} UNION SELECT t.s) AS q)")
        predicate = self.one(f"{self.one('', 'NOT ')}EXISTS (SELECT 1 FROM u WHERE {on})", f"t.g {self.one('', 'NOT ')}IN (SELECT u.k FROM u WHERE {on})", f"t.x {self.one('>', '<=', '=')} {self.one('ANY', 'ALL')} (SELECT u.y FROM u WHERE {on})",
                             f"{value} IS {self.one('', 'NOT ')}NULL")
        return self.one(f"SELECT i, {value} FROM t ORDER BY i", f"SELECT i FROM t WHERE {predicate} ORDER BY i", f"SELECT i FROM t WHERE {predicate} {self.one('AND', 'OR')} b ORDER BY i",
                        f"SELECT t.i, q.* FROM t{self.one(',', ' CROSS JOIN')} LATERAL (SELECT u.k, u.y FROM u WHERE {on} ORDER BY u.i LIMIT 2) AS q ORDER BY ALL",
                        f"SELECT g, sum(CASE WHEN {predicate} THEN 1 ELSE 0 END) FROM t GROUP BY g ORDER BY g", f"SELECT t.i, u.i FROM t LEFT JOIN u ON t.g = u.k AND u.y > (SELECT min(y) FROM u AS u2 WHERE u2.k = t.g) ORDER BY ALL")

    def branch(self, depth):
        if depth > 1 or self.rng.random() < 0.5:
            columns, group = self.of([("g, s", ""), ("g + 1, s", ""), ("max(g), s", " GROUP BY s"), ("g, min(s)", " GROUP BY g"), ("count(*), s", " GROUP BY s"), ("g, NULL", ""), ("DISTINCT g, s", "")])
            source = self.one("t", "(SELECT k AS g, s, y AS x FROM u) AS u")
            select = f"SELECT {columns} FROM {source}{self.one('', ' WHERE g > 1', ' WHERE s IS NOT NULL', ' WHERE x < 3')}{group}"
            return self.one(select, f"({select} ORDER BY 1, 2 LIMIT {self.one(1, 3, 5)}{self.one('', ' OFFSET 1')})")
        operation = self.one("UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")
        both = f"({self.branch(depth + 1)}) {operation} ({self.branch(depth + 1)})"
        return self.one(both, both, f"({both} ORDER BY 1, 2 LIMIT {self.one(2, 4)})")

    def set_operations(self):
        rows = self.branch(0)
        return self.one(f"SELECT * FROM ({rows}) AS q(n, z) ORDER BY n, z LIMIT 7 OFFSET {self.one(0, 1, 3)}", f"SELECT count(*), sum(n), max(z) FROM ({rows}) AS q(n, z)",
                        f"WITH q(n, z) AS ({rows}) SELECT z, count(*) FROM q GROUP BY z ORDER BY ALL", f"WITH q(n, z) AS ({rows}) SELECT q.n, p.z FROM q JOIN q AS p ON q.n = p.n ORDER BY ALL",
                        f"SELECT i FROM t WHERE (g, s) IN ({rows}) ORDER BY i", f"SELECT i, (SELECT max(z) FROM ({rows}) AS q(n, z) WHERE n = t.g) FROM t ORDER BY i", f"SELECT * FROM ({rows}) AS q ORDER BY ALL")

    def using(self):
        join, other, merged = self.one("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"), self.one("JOIN", "LEFT JOIN", "FULL JOIN"), self.one("(i)", "(i, j)")
        source, columns = f"a {join} b USING {merged}", ["i", "k", "y", "a.i", "b.i"] + (["j"] if "j" in merged else ["a.j", "b.j"])
        if self.rng.random() < 0.4:
            source, columns = f"{source} {other} c USING (i)", [*columns, "z", "c.i"]
        column = lambda: self.of(columns)
        source += self.one("", "", " WHERE i > 1", " WHERE i IS NULL", f" WHERE {column()} IS NOT NULL", " WHERE i IN (SELECT i FROM c AS e)", " WHERE EXISTS (SELECT 1 FROM c AS e WHERE e.i = a.i)")
        grouped = column()
        return self.one(f"SELECT * FROM {source} ORDER BY ALL", f"SELECT {column()}, {column()}, {column()} FROM {source} ORDER BY 1, 2, 3", f"SELECT {grouped}, count(*), max({column()}) FROM {source} GROUP BY {grouped} ORDER BY ALL",
                        f"SELECT i, sum(y) OVER (PARTITION BY i), count({column()}) OVER () FROM {source} ORDER BY ALL", f"SELECT DISTINCT {column()} FROM {source} ORDER BY 1",
                        f"SELECT i, (SELECT count(*) FROM c AS e WHERE e.i = i), (SELECT max(e.i) FROM c AS e WHERE e.i < a.i) FROM {source} ORDER BY ALL",
                        f"WITH q AS (SELECT i, y, k FROM {source}) SELECT q.i, c.z FROM q LEFT JOIN c USING (i) ORDER BY ALL")

    def names(self):
        table, columns = self.of([("a", "ijk"), ("b", "ijy"), ("s1.a", "ijn"), ("v", ["i", "i2", "n"]), ("s1.v", "ij"), ("w", "xy")])
        alias = self.one("", "", " q", " AS i", " a")
        name = alias.replace(" AS", "").strip() or table.split(".")[-1]
        dot, one, two = self.one("", name + "."), self.of(list(columns)), self.of(list(columns))
        star = self.one("*", name + ".*", f"* EXCLUDE ({one})", f"{name}.* EXCLUDE ({one})", f"* REPLACE ({one} IS NULL AS {one})") if len(columns) > 1 else "*"
        other = self.one("b", "s1.v", "w")
        query = self.one(f"SELECT {star} FROM {table}{alias} ORDER BY ALL", f"SELECT {dot}{one} AS {self.one('i', 'j', 'z')}, {dot}{two} FROM {table}{alias} ORDER BY {self.one('1, 2', '2, 1', 'ALL')}",
                         f"SELECT {dot}{one} AS {two}, {dot}{two} AS {one} FROM {table}{alias} ORDER BY 1, 2", f"SELECT {one} AS k9, k9 IS NULL AS k8 FROM {table}{alias} ORDER BY k9, k8",
                         f"SELECT {dot}{one} AS k9, count(*) AS n, min({two}) AS {one} FROM {table}{alias} GROUP BY {self.one('k9', '1', dot + one)} ORDER BY ALL",
                         f"WITH {name} AS (SELECT {one}, {two} AS zz FROM {table}) SELECT {self.one('*', 'zz')} FROM {name} ORDER BY ALL",
                         f"FROM {table}{alias} SELECT {dot}{one} ORDER BY 1", f"SELECT {self.one('*', 'p.*', 'q.*, p.*')} FROM {table} AS p {self.one('JOIN', 'LEFT JOIN', 'FULL JOIN')} {other} AS q ON p.{columns[0]} = q.{'x' if other == 'w' else 'i'} ORDER BY ALL")
        return self.one(query, query, f"SELECT * FROM ({query}) {self.one('', 'z', 'a')} ORDER BY ALL")

    def lists(self):
        n = self.one(3, 5, 8)
        return self.one(f"SELECT i, unnest(l) AS e FROM t WHERE i < {n * 3} ORDER BY ALL", "SELECT e, count(*) FROM (SELECT unnest(l) AS e FROM t) AS q GROUP BY e ORDER BY ALL",
                        f"SELECT t.i, e FROM t, unnest(t.l) AS q(e) WHERE e > {n} ORDER BY ALL", "SELECT t.i, e FROM t LEFT JOIN LATERAL (SELECT unnest(t.l) AS e) AS q ON e > 1 ORDER BY ALL",
                        "SELECT i, (SELECT sum(e) FROM (SELECT unnest(t.l) AS e) AS q) FROM t ORDER BY i", f"SELECT i, l {self.one('<', '>=', '=', 'IS DISTINCT FROM')} [{self.one('1', 'NULL', '0, NULL')}] FROM t ORDER BY i",
                        f"SELECT i, list_{self.one('contains', 'position')}(l, {self.one('1', 'i', 'g')}) FROM t ORDER BY i", f"SELECT g, list(l ORDER BY i)[{self.one(1, -1, 2)}] FROM t GROUP BY g ORDER BY g",
                        f"WITH RECURSIVE r(n, p) AS (SELECT 1, NULL::INT UNION ALL SELECT n + 1, n FROM r WHERE n < {n}) SELECT {self.one('n, p', 'n % 2, p')} FROM r ORDER BY ALL",
                        f"WITH RECURSIVE r(n) AS (SELECT {self.one('1', 'i FROM u WHERE k = 1', 'g FROM t WHERE i < 4')} UNION SELECT (n * 2) % {n + 4} FROM r WHERE n IS NOT NULL) SELECT n FROM r ORDER BY n")


GRIDS = ["distinct_on", "orders", "withs", "filters", "aggregates", "windows", "correlated", "set_operations", "using", "names", "lists"]


def same(want, have):
    """Whether a value of DuckDB's is what the shell writes of it."""
    if want is None or isinstance(want, float) and not math.isfinite(want):
        # JSON has no NaN and no infinity.
        return have is None
    if have is None or isinstance(want, bool) or isinstance(have, bool):
        return want is have
    if isinstance(want, (int, float, decimal.Decimal)):
        return abs(float(want) - float(have)) <= 1e-9 * max(1.0, abs(float(want)))
    if isinstance(want, datetime.datetime):
        return want == datetime.datetime.fromisoformat(have)
    if isinstance(want, datetime.date):
        return want.isoformat() == have[:10]
    if isinstance(want, (list, tuple)):
        return len(want) == len(have) and all(map(same, want, have))
    if isinstance(want, dict):
        return list(want) == list(have) and all(map(same, want.values(), have.values()))
    return want == have


def judge(database, sql, lines, error):
    """None, or what is wrong; and whether DuckDB refuses, too."""
    try:
        expected = database.execute(sql).fetchall()
    except duckdb.Error:
        broken = re.search("internal error|panic", error or "")
        return (f"{error}" if broken else None), True
    if error:
        return f"{error}\nDuckDB: {expected[:4]}", False
    actual = [list(json.loads(line, object_pairs_hook=lambda pairs: pairs)) for line in lines]
    actual = [[nested(value) for _, value in row] for row in actual]
    if len(expected) != len(actual):
        return f"{len(actual)} rows instead of {len(expected)}: {actual[:4]} instead of {expected[:4]}", False
    # Those without an order have one row.
    for want, have in zip(expected, actual):
        if len(want) != len(have) or not all(map(same, want, have)):
            return f"expected {want}\n     got {have}", False
    return None, False


def nested(value):
    """Objects within rows as they are; the rows themselves may have two columns of one name."""
    if isinstance(value, list) and value and all(isinstance(item, tuple) for item in value):
        return {name: nested(item) for name, item in value}
    return [nested(item) for item in value] if isinstance(value, list) else value


def agrees_unoptimized(database, sql, lines, error):
    """Whether DuckDB gives this answer where its optimizer does nothing: then it has two, and no say."""
    database.execute("PRAGMA disable_optimizer")
    try:
        return judge(database, sql, lines, error)[0] is None
    finally:
        database.execute("PRAGMA enable_optimizer")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shell", default="target/debug/ogee", help="the ogee binary")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--queries", type=int, default=100, help="statements of each grid")
    parser.add_argument("--grid", choices=GRIDS, action="append", help="these alone")
    parser.add_argument("--only", type=int, help="this statement of a grid alone")
    arguments = parser.parse_args()
    setup = [statement.strip() for statement in TABLES.split(";\n")]
    database = open_duckdb([], setup)
    failures = compared = refused = itself = 0
    with tempfile.TemporaryDirectory(prefix="ogee-grids-") as spill:
        shell = Shell(arguments.shell, ["--threads", "2", "--temp-directory", spill], setup)
        for grid in arguments.grid or GRIDS:
            places = range(arguments.queries) if arguments.only is None else [arguments.only]
            statements = [getattr(Maker(random.Random(f"{grid} {arguments.seed} {place}")), grid)() for place in places]
            for place, sql, (lines, error) in zip(places, statements, shell.answers(statements)):
                found, both = judge(database, sql, lines, error)
                compared += 1
                refused += both
                if found and not both and agrees_unoptimized(database, sql, lines, error):
                    itself += 1
                elif found:
                    failures += 1
                    print(f"FAILED (repeat with --grid {grid} --seed {arguments.seed} --only {place})\n{sql}\n{found}\n", flush=True)
        shell.close()
    print(f"grids: {compared} statements compared; {refused} that DuckDB refuses, {itself} on which it disagrees with itself, {failures} differences")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
