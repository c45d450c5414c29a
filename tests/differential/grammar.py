"""A grammar of random queries for `small.py`. Features nest freely: every query is asked for columns of some kinds, and what gives them is drawn.

Every query has one answer: LIMIT follows an order by all columns, windows that look at places are ordered by what no two rows share. `wished` features are
drawn first, so that rare pairs of them are met. Not here: expressions (`expressions.py`), tables (`small_tables.py`), comparing (`small.py`).
"""

import re

from expressions import FEATURE_OF, Expressions
from small_tables import BOOL, DATE, DEC, FLOAT, INT, INTERVAL, LIST, NUM, TEXT, TS, TYPES, TZ, literal

# Rows that a join may have, or a query's part.
ROWS_MAX = 4000
SETTABLE = (INT, TEXT, FLOAT, NUM, DEC, BOOL, DATE, TS, TZ)


class Relation:
    """What stands in FROM: its SQL, its columns as they are written, the columns that tell its rows apart or None, and about how many rows."""

    def __init__(self, sql, columns, unique, rows):
        self.sql, self.columns, self.unique, self.rows = sql, columns, unique, rows


class Grammar(Expressions):
    """Queries over `tables`."""

    def __init__(self, rng, tables, lite=False, off=()):
        self.rng, self.tables, self.lite, self.off = rng, tables, lite, set(off)
        self.kinds = (INT, TEXT) if lite else tuple(kind for kind in TYPES if kind not in self.off and FEATURE_OF.get(kind) not in self.off)
        self.start(())

    def start(self, wished):
        self.features, self.wished, self.number, self.subqueries, self.budget = set(), set(wished), 0, 2, 5

    def mark(self, feature):
        self.features.add(feature)

    def flip(self, feature, chance):
        """Whether to have a feature here."""
        if feature in self.off:
            return False
        if feature in self.wished and feature not in self.features:
            chance = max(chance, 0.75)
        if self.rng.random() >= chance:
            return False
        self.features.add(feature)
        return True

    def name(self, prefix):
        self.number += 1
        return f"{prefix}{self.number}"

    def any_kinds(self, count=None, settable=False):
        pool = [kind for kind in (SETTABLE if settable else self.kinds) if kind in self.kinds]
        wanted = [kind for kind in pool if FEATURE_OF.get(kind) in self.wished - self.features]
        return [self.rng.choice(wanted if wanted and self.rng.random() < 0.6 else pool) for _ in range(count or self.rng.choice([1, 2, 2, 3, 4]))]

    # Relations.

    def table(self, small=False):
        tables = [t for t in self.tables if not (t.features & self.off)]
        if small:
            tables = [t for t in tables if t.rows <= 60] or tables[:1]
        wanted = [t for t in tables if t.features & (self.wished - self.features)]
        return self.rng.choice(wanted if wanted and self.rng.random() < 0.7 else tables)

    def base(self, small=False):
        table = self.table(small)
        self.features |= table.features
        alias = self.name("r")
        columns = [(f"{alias}.{name}", kind) for name, kind in table.columns if kind in self.kinds]
        return Relation(f"{table.name} AS {alias}", columns, [f"{alias}.id"], table.rows)

    def derived(self, depth, scope=()):
        self.mark("derived")
        alias = self.name("q")
        kinds = [INT] + self.any_kinds()
        sql = self.query(kinds, depth - 1, scope)
        return Relation(f"({sql}) AS {alias}", [(f"{alias}.c{n}", kind) for n, kind in enumerate(kinds)], None, 60)

    def one(self, depth, small=False):
        """A relation that is no join."""
        if self.ctes and self.flip("cte", 0.65):
            name, kinds = self.rng.choice(self.ctes)
            self.used[name] = self.used.get(name, 0) + 1
            if self.used[name] > 1:
                self.mark("cte_twice")
            alias = self.name("w")
            return Relation(f"{name} AS {alias}", [(f"{alias}.c{n}", kind) for n, kind in enumerate(kinds)], None, 60)
        if depth > 0 and self.budget > 0 and self.rng.random() < 0.3:
            self.budget -= 1
            return self.derived(depth)
        if not self.lite and self.flip("values", 0.04):
            alias, kinds = self.name("v"), self.any_kinds(2)
            rows = ", ".join("(" + ", ".join([str(row)] + [literal(self.rng, kind, 0.1) for kind in kinds]) + ")" for row in range(self.rng.choice([1, 3, 5])))
            columns = [(f"{alias}.k", INT)] + [(f"{alias}.x{n}", kind) for n, kind in enumerate(kinds)]
            return Relation(f"(VALUES {rows}) AS {alias}(k, {', '.join(f'x{n}' for n in range(len(kinds)))})", columns, [f"{alias}.k"], 5)
        if not self.lite and self.flip("range", 0.03):
            alias = self.name("g")
            return Relation(f"range({self.rng.choice([0, 1, 5, 12])}) AS {alias}(n)", [(f"{alias}.n", INT)], [f"{alias}.n"], 12)
        if LIST in self.kinds and self.flip("unnest", 0.05):
            alias, inner = self.name("u"), self.base(small)
            self.mark("list")
            return Relation(f"(SELECT {inner.columns[0][0]} AS k, unnest({self.value(inner.columns, LIST, 1)}) AS n FROM {inner.sql}) AS {alias}",
                            [(f"{alias}.k", INT), (f"{alias}.n", INT)], None, inner.rows * 2)
        return self.base(small)

    def join(self, depth):
        left = self.one(depth, small=True)
        columns, unique, sql, rows = list(left.columns), left.unique, left.sql, left.rows
        self.mark("join")
        steps = self.rng.choice([1, 1, 1, 2])
        for step in range(steps):
            # A comma binds less than JOIN: what follows it does not see what was before.
            comma = [", "] if step == steps - 1 else []
            if not self.lite and depth > 0 and self.flip("lateral", 0.08):
                right = self.lateral(columns)
                word = self.rng.choice([f"{sign}LATERAL " for sign in comma] + [" CROSS JOIN LATERAL ", " LEFT JOIN LATERAL "])
                sql += word + right.sql + (" ON true" if "LEFT" in word else "")
                columns += right.columns
                unique = None
                continue
            right = self.one(depth - 1, small=True)
            outer = self.flip("outer_join", 0.35)
            word = self.rng.choice(["LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]) if outer else "JOIN"
            common = [(a, b) for a, kind in columns for b, other in right.columns
                      if kind == other and kind in (INT, TEXT, DATE) and a.split(".")[-1] == b.split(".")[-1] and a.count(".") == 1
                      and not any(c != a and c.split(".")[-1] == a.split(".")[-1] for c, _ in columns)]
            if common and self.flip("using", 0.2):
                a, b = self.rng.choice(common)
                bare = a.split(".")[-1]
                sql += f" {word} {right.sql} USING ({bare})"
                kind = dict(columns)[a]
                columns = [(bare, kind)] + [c for c in columns if c[0] != a] + [c for c in right.columns if c[0] != b]
                # A bare name is of no one table any more.
                unique = None
                rows = max(rows, right.rows) * 3
                break
            equal = [kind for kind in (INT, TEXT, FLOAT, DEC, DATE, TS) if any(k == kind for _, k in columns) and any(k == kind for _, k in right.columns)]
            if outer or (equal and self.rng.random() < 0.75):
                kind = self.rng.choice(equal) if equal else INT
                saved, self.subqueries = self.subqueries, 0
                operator = self.rng.choice(["=", "=", "=", "IS NOT DISTINCT FROM"])
                on = f"{self.value(columns, kind, self.rng.choice([0, 0, 1]))} {operator} {self.value(right.columns, kind, self.rng.choice([0, 0, 1]))}"
                if self.rng.random() < 0.3 and word != "FULL JOIN":
                    on += f" AND {self.condition(columns + right.columns, 1)}"
                self.subqueries = saved
                sql += f" {word} {right.sql} ON {on}"
            elif rows * right.rows <= ROWS_MAX:
                self.mark("cross")
                sql += self.rng.choice([" CROSS JOIN ", *comma]) + right.sql
            else:
                sql += f" JOIN {right.sql} ON {columns[0][0]} = {right.columns[0][0]}"
            columns = columns + right.columns
            unique = unique + right.unique if unique and right.unique else None
            rows = min(rows * right.rows, ROWS_MAX)
        return Relation(sql, columns, unique, rows)

    def natural(self):
        left, right = self.base(True), self.base(True)
        kind = self.rng.choice([INT, TEXT])
        a, b = self.name("n"), self.name("n")
        extra = self.any_kinds(1)[0]
        first = f"(SELECT {self.value(left.columns, kind, 0)} AS k, {left.unique[0]} AS x FROM {left.sql}) AS {a}"
        second = f"(SELECT {self.value(right.columns, kind, 0)} AS k, {self.value(right.columns, extra, 1)} AS y FROM {right.sql}) AS {b}"
        return Relation(f"{first} NATURAL {self.rng.choice(['', 'LEFT ', 'FULL '])}JOIN {second}", [("k", kind), (f"{a}.x", INT), (f"{b}.y", extra)], None, 200)

    def lateral(self, outer):
        self.mark("correlated")
        inner, alias = self.base(True), self.name("l")
        kinds = self.any_kinds(1) + [INT]
        saved, self.subqueries = self.subqueries, 0
        where = f"{self.value(inner.columns, INT, 0)} {self.rng.choice(['=', '=', '<'])} {self.value(outer, INT, 0)}"
        if self.rng.random() < 0.4:
            values = f"max({self.orderable(inner.columns)[0]}) AS c0, count(*) AS c1"
            kinds[0] = self.last_kind
            sql = f"SELECT {values} FROM {inner.sql} WHERE {where}"
            if self.flip("inner_group", 0.4):
                sql += self.rng.choice([f" GROUP BY {inner.columns[0][0]}", " HAVING count(*) > 1", f" GROUP BY {inner.columns[-1][0]} HAVING count(*) < 3"])
        elif self.flip("lateral_set", 0.2):
            word = self.rng.choice(["UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"])
            kinds[0] = INT
            branches = [f"SELECT {self.value(inner.columns, INT, 0)} AS c0, {inner.columns[0][0]} % 3 AS c1 FROM {inner.sql}{more}" for more in (f" WHERE {where}", "")]
            self.rng.shuffle(branches)
            sql = f" {word} ".join(branches)
        else:
            sql = f"SELECT {self.value(inner.columns, kinds[0], 1)} AS c0, {inner.unique[0]} AS c1 FROM {inner.sql} WHERE {where}"
            if self.flip("lateral_limit", 0.4):
                sql += f" ORDER BY c1 {self.rng.choice(['ASC', 'DESC'])} LIMIT {self.rng.choice([1, 2])}"
        self.subqueries = saved
        return Relation(f"({sql}) AS {alias}", [(f"{alias}.c{n}", kind) for n, kind in enumerate(kinds)], None, inner.rows)

    def orderable(self, columns):
        found = [c for c in columns if c[1] not in (BOOL, LIST, INTERVAL)]
        chosen = self.rng.choice(found or [("1", INT)])
        self.last_kind = chosen[1]
        return chosen

    def relation(self, depth):
        if self.flip("natural", 0.03):
            return self.natural()
        if self.flip("join", 0.35) or self.wished & {"using", "outer_join", "lateral"} - self.features:
            return self.join(depth)
        return self.one(depth)

    # Subqueries.

    def subquery_condition(self, scope):
        options = ["exists", "in_subquery", "not_in_subquery"] + ([] if self.lite else ["row_in"])
        wanted = [o for o in options if o in self.wished - self.features]
        feature = self.rng.choice(wanted or options)
        if not self.flip(feature, 0.7):
            return None
        saved, self.subqueries = self.subqueries, self.subqueries - 1
        inner, where = self.inner(scope)
        kind = self.rng.choice([kind for kind in (INT, INT, TEXT, DATE, FLOAT) if kind in self.kinds])
        value = self.value(scope, kind, 0)
        if feature == "row_in":
            other = f"{self.value(inner.columns, kind, 0)}, {self.value(inner.columns, INT, 0)}"
            sql = f"({value}, {self.value(scope, INT, 0)}) {self.rng.choice(['', 'NOT '])}IN (SELECT {other} FROM {inner.sql}{where})"
        else:
            rows = self.inner_rows(inner, where, "1" if feature == "exists" else None, kind)
            if feature == "exists":
                sql = f"{self.rng.choice(['', 'NOT '])}EXISTS ({rows})"
            elif not self.lite and kind != FLOAT and self.flip("quantified", 0.2):
                sql = f"{value} {self.rng.choice(['=', '<>', '<', '>='])} {self.rng.choice(['ANY', 'ALL'])} ({rows})"
            else:
                sql = f"{value} {'NOT ' if feature == 'not_in_subquery' else ''}IN ({rows})"
        self.subqueries = saved
        return sql

    def inner(self, scope):
        """What a subquery is of, correlated with `scope` or not: a relation, and its WHERE."""
        inner = self.base(True)
        if not self.flip("correlated", 0.5):
            return inner, f" WHERE {self.condition(inner.columns, 1)}" if self.rng.random() < 0.8 else ""
        parts = []
        if not self.lite and self.flip("correlated_join", 0.25):
            other = self.base(True)
            columns = inner.columns + other.columns
            # Conditions with the same outer columns on both sides, by columns of the same names.
            same = self.correlation(scope, inner)
            if self.rng.random() < 0.5:
                hidden = self.name("h")
                names = [(f"{hidden}.{name.split('.')[-1]}", kind) for name, kind in other.columns]
                other = Relation(f"(SELECT * FROM {other.sql} WHERE {self.correlation(scope, other)}) AS {hidden}", names, [f"{hidden}.id"], other.rows)
                columns = inner.columns + names
            else:
                parts.append(self.correlation(scope, other))
            word = self.rng.choice([", ", " CROSS JOIN ", " JOIN ", " LEFT JOIN ", " RIGHT JOIN ", " FULL JOIN "])
            on = ""
            if word.strip() not in (",", "CROSS JOIN"):
                kind = self.rng.choice([INT, INT, TEXT])
                on = f" ON {self.value(inner.columns, kind, 0)} = {self.value(other.columns, kind, 0)}"
                if self.rng.random() < 0.4 and "FULL" not in word:
                    on += f" AND {self.correlation(scope, inner)}"
            elif self.rng.random() < 0.5:
                parts.append(f"{inner.columns[0][0]} <= {other.columns[0][0]}")
            inner = Relation(f"{inner.sql}{word}{other.sql}{on}", columns, None, inner.rows * other.rows)
            if self.rng.random() < 0.6:
                parts.append(same)
        else:
            parts.append(self.correlation(scope, inner))
        if self.rng.random() < 0.6:
            parts.append(self.condition(inner.columns, 1))
        if self.subqueries > 0 and self.flip("two_levels", 0.2):
            further = self.base(True)
            conditions = f"{self.correlation(inner.columns, further)} AND {self.correlation(scope, further)}"
            parts.append(f"{self.rng.choice(['', 'NOT '])}EXISTS (SELECT 1 FROM {further.sql} WHERE {conditions})")
        return inner, f" WHERE {' AND '.join(parts)}" if parts else ""

    def inner_rows(self, inner, where, selected, kind):
        """The rows of a subquery: `selected` of each, or a value of this kind; or groups of them."""
        if selected is None and self.rng.random() < 0.6 or not self.flip("inner_group", 0.4):
            return f"SELECT {selected or self.value(inner.columns, kind, 0)} FROM {inner.sql}{where}"
        saved, self.subqueries = self.subqueries, 0
        key = self.rng.choice([name for name, kind in inner.columns if kind in SETTABLE] or ["1"])
        form = self.rng.choice(["all", "all", "having", "group", "distinct"])
        sql = f"SELECT {self.aggregate(inner.columns, kind)} AS v FROM {inner.sql}{where}"
        if form == "group" and key != "1":
            sql += f" GROUP BY {key}"
        if form in ("having", "group") and self.rng.random() < 0.7:
            sql += f" HAVING {self.aggregate(inner.columns, INT)} {self.rng.choice(['>', '<=', '<>'])} {literal(self.rng, INT)}"
        if form == "distinct":
            sql = f"SELECT DISTINCT {selected or self.value(inner.columns, kind, 0)} FROM {inner.sql}{where}"
        elif self.rng.random() < 0.2:
            sql = f"SELECT v FROM ({sql}) AS {self.name('d')}"
        self.subqueries = saved
        return sql

    def correlation(self, scope, inner):
        kind = self.rng.choice([INT, INT, TEXT])
        return f"{self.value(inner.columns, kind, 0)} {self.rng.choice(['=', '=', '=', '<'])} {self.value(scope, kind, 0)}"

    def twin_queries(self):
        """Two subqueries that differ in the arguments of a series only."""
        value, counts = self.rng.choice(["count(*)", "max(n)", "sum(n * 2)"]), self.rng.sample([0, 1, 2, 5, 12], 2)
        one, other = (f"(SELECT {value} FROM range({count}) AS g(n))" for count in counts)
        return f"({one} {self.rng.choice(['+', '-'])} {other})"

    def scalar_subquery(self, scope, kind):
        saved, self.subqueries = self.subqueries, 0
        inner, where = self.inner(scope)
        if kind == INT and self.rng.random() < 0.4:
            value = "count(*)"
        elif kind in (BOOL, LIST, INTERVAL):
            value = None
        else:
            value = f"{self.rng.choice(['min', 'max'])}({self.value(inner.columns, kind, 1)})"
        if value and (self.rng.random() < 0.6 or not inner.unique):
            sql = f"SELECT {value} AS v FROM {inner.sql}{where}"
            if self.flip("inner_group", 0.3):
                form = self.rng.choice(["having", "distinct", "derived", "again"])
                if form == "having":
                    sql += f" HAVING {self.aggregate(inner.columns, INT)} {self.rng.choice(['>', '<=', '<>'])} {literal(self.rng, INT)}"
                elif form == "distinct":
                    sql = sql.replace("SELECT ", "SELECT DISTINCT ", 1)
                elif form == "derived":
                    sql = f"SELECT v FROM ({sql}) AS {self.name('d')}"
                else:
                    sql = f"SELECT max(v) FROM ({sql}) AS {self.name('d')}"
        else:
            order = ", ".join(f"{key} {self.rng.choice(['ASC', 'DESC'])}" for key in inner.unique or [self.value(inner.columns, kind, 0)])
            inner = inner if inner.unique else self.base(True)
            value = self.value(inner.columns, kind, 1)
            if not inner.unique or inner.unique[0] not in order:
                order, where = inner.unique[0], ""
            sql = f"SELECT {value} FROM {inner.sql}{where} ORDER BY {order} LIMIT 1"
        self.subqueries = saved
        return f"({sql})"

    # Queries.

    def full(self, wished=()):
        """A whole query: SQL, the kinds of its columns, and its features."""
        self.start(wished)
        self.ctes, self.used = [], {}
        kinds = self.any_kinds(settable=bool({"set_operation", "branch_limit"} & self.wished))
        head = ""
        if self.flip("cte", 0.12):
            parts = []
            for _ in range(self.rng.choice([1, 1, 2])):
                name, inner = self.name("cte"), [INT] + self.any_kinds()
                parts.append(f"{name} AS ({self.query(inner, 1)})")
                self.ctes.append((name, inner))
            head = f"WITH {', '.join(parts)} "
        sql = head + self.query(kinds, 2)
        self.ctes = []
        return sql, kinds

    def query(self, kinds, depth, scope=()):
        """A query with columns c0, c1, .. of these kinds."""
        if all(kind in SETTABLE for kind in kinds) and self.budget > 0 and self.flip("set_operation", 0.12):
            self.budget -= 1
            return self.set_operation(kinds, depth)
        sql = self.select(kinds, depth)
        return sql + self.limits(kinds)

    def limits(self, kinds, always=False):
        """ORDER BY all columns, so that LIMIT has one answer."""
        if not all(kind in SETTABLE for kind in kinds) or not (always or self.flip("limit", 0.2)):
            return ""
        self.mark("limit")
        order = list(range(1, len(kinds) + 1))
        self.rng.shuffle(order)
        keys = []
        for n in order:
            nulls = self.rng.choice(["", " NULLS FIRST", " NULLS LAST"])
            # Which end NULL is at by default is a choice that the systems do not share.
            nulls = nulls or " NULLS LAST"
            keys.append(f"{n}{self.rng.choice(['', ' DESC'])}{nulls}")
        offset = f" OFFSET {self.rng.choice([1, 3])}" if self.flip("offset", 0.25) else ""
        return f" ORDER BY {', '.join(keys)} LIMIT {self.rng.choice([0, 1, 2, 5, 20])}{offset}"

    def set_operation(self, kinds, depth):
        branches = []
        for _ in range(self.rng.choice([2, 2, 3])):
            branch = self.select(kinds, depth - 1)
            if self.flip("branch_limit", 0.3):
                branch += self.limits(kinds, always=True)
                branch = f"SELECT * FROM ({branch}) AS {self.name('b')}" if self.lite else f"({branch})"
            elif not self.lite:
                branch = f"({branch})"
            branches.append(branch)
        sql = branches[0]
        first = True
        for branch in branches[1:]:
            word = self.rng.choice(["UNION", "UNION ALL", "EXCEPT", "INTERSECT"])
            if not self.lite and word in ("EXCEPT", "INTERSECT") and self.flip("set_operation_all", 0.4):
                word += " ALL"
            # SQLite knows neither the precedence of INTERSECT nor parentheses here.
            if not first:
                sql = f"SELECT * FROM ({sql}) AS {self.name('b')}" if self.lite else f"({sql})"
            sql = f"{sql} {word} {branch}"
            first = False
        return sql + self.limits(kinds)

    def select(self, kinds, depth):
        relation = self.relation(depth)
        scope = relation.columns
        where = f" WHERE {self.condition(scope)}" if self.flip("where", 0.5) else ""
        if self.flip("group", 0.3) or self.wished & {"grouping_sets", "having", "aggregate_filter", "distinct_aggregate", "ordered_aggregate"} - self.features:
            return self.grouping(kinds, relation, where)
        if self.flip("window", 0.15) or "window_frame" in self.wished - self.features:
            return self.windows(kinds, relation, where)
        outputs = [self.value(scope, kind) for kind in kinds]
        listed = ", ".join(f"{sql} AS c{n}" for n, sql in enumerate(outputs))
        if all(kind in SETTABLE for kind in kinds):
            if not self.lite and relation.unique and self.flip("distinct_on", 0.2):
                key = self.value(scope, self.rng.choice([INT, TEXT]), 1)
                if re.fullmatch(r"-?\d+|'[^']*'", key):
                    key = f"coalesce({key}, {key})"  # else a position, or refused
                order = ", ".join([f"{key} NULLS LAST"] + [f"{u} {self.rng.choice(['ASC', 'DESC'])} NULLS LAST" for u in relation.unique])
                return f"SELECT * FROM (SELECT DISTINCT ON ({key}) {listed} FROM {relation.sql}{where} ORDER BY {order}) AS {self.name('o')}"
            if self.flip("distinct", 0.1):
                return f"SELECT DISTINCT {listed} FROM {relation.sql}{where}"
        return f"SELECT {listed} FROM {relation.sql}{where}"

    def aggregate(self, scope, kind):
        v = lambda k, depth=1: self.value(scope, k, depth)
        saved, self.subqueries = self.subqueries, 0
        passes = ""
        if self.flip("aggregate_filter", 0.12):
            passes = f" FILTER (WHERE {self.condition(scope, 1)})"
        distinct = "DISTINCT " if self.flip("distinct_aggregate", 0.12) else ""
        if kind == INT:
            any_kind = self.rng.choice([k for k in self.kinds if k in SETTABLE])
            options = [f"count({distinct}{v(any_kind)}){passes}", f"sum({distinct}{v(INT)}){passes}", f"count(*){passes}", f"max({v(INT)}){passes}"]
            if not self.lite:
                options += [f"bit_xor({v(INT)}){passes}", f"quantile_disc({v(INT)}, 0.5){passes}"]
            sql = self.rng.choice(options)
        elif kind == LIST:
            self.mark("ordered_aggregate")
            value = self.column(scope, INT) or "abs(1)"
            sql = f"list({distinct}{value} ORDER BY {value} {self.rng.choice(['ASC', 'DESC'])} NULLS LAST){passes}"
        elif kind == TEXT and not self.lite and self.flip("ordered_aggregate", 0.3):
            value = self.column(scope, TEXT) or "upper('a')"
            sql = f"string_agg({distinct}{value}, ',' ORDER BY {value}){passes}"
        elif kind == BOOL:
            sql = f"{self.rng.choice(['bool_and', 'bool_or'])}({v(BOOL)}){passes}"
        elif kind == NUM:
            sql = self.rng.choice([f"avg({v(INT)}){passes}", f"sum({distinct}{v(NUM, 0)}){passes}", f"avg({v(NUM, 0)}){passes}", f"min({v(NUM)}){passes}",
                                   f"median({v(NUM)}){passes}", f"round(stddev({v(NUM, 0)}){passes}, 6)"])
        elif kind == DEC:
            sql = self.rng.choice([f"CAST(sum({distinct}{v(DEC, 0)}){passes} AS DECIMAL(18,2))", f"max({v(DEC)}){passes}"])
        elif kind == INTERVAL:
            sql = f"max({v(INTERVAL)}){passes}"
        else:
            sql = f"{self.rng.choice(['min', 'max'])}({v(kind)}){passes}"
        self.subqueries = saved
        return sql

    def grouping(self, kinds, relation, where):
        self.mark("group")
        scope = relation.columns
        saved, self.subqueries = self.subqueries, 0
        outputs, keys = [], []
        for kind in kinds:
            if kind in SETTABLE and self.rng.random() < 0.45:
                key = self.value(scope, kind, 1)
                # A literal would be the place of a column.
                if any(f"{name}" in key for name, _ in scope):
                    keys.append(key)
                    outputs.append(key)
                    continue
            outputs.append(self.aggregate(scope, kind))
        if not keys and self.rng.random() < 0.6:
            column = self.rng.choice([name for name, kind in scope if kind in SETTABLE] or [None])
            keys += [column] if column else []
        group = ""
        if keys:
            unique = list(dict.fromkeys(keys))
            group = " GROUP BY " + ", ".join(unique)
            # Gap: a key of ROLLUP or CUBE that begins with a parenthesis is taken for a list of keys.
            if not self.lite and not any(key.startswith("(") for key in unique) and self.flip("grouping_sets", 0.25):
                form = self.rng.choice(["ROLLUP", "CUBE", "sets"])
                if form == "sets":
                    sets = [f"({', '.join(key for key in unique if self.rng.random() < 0.5)})" for _ in range(self.rng.choice([1, 2, 3]))]
                    group = f" GROUP BY GROUPING SETS (({', '.join(unique)}), {', '.join(sets)})"
                else:
                    group = f" GROUP BY {form} ({', '.join(unique)})"
                for n, kind in enumerate(kinds):
                    if kind == INT and outputs[n] not in unique and self.rng.random() < 0.3:
                        outputs[n] = f"grouping({self.rng.choice(unique)})"
        having = ""
        if self.flip("having", 0.2):
            kind = self.rng.choice([INT, INT, TEXT])
            having = f" HAVING {self.aggregate(scope, kind)} {self.rng.choice(['>', '<=', '<>'])} {literal(self.rng, kind)}"
            if self.rng.random() < 0.3:
                having = having.replace(" HAVING ", " HAVING NOT (", 1) + ")"
        self.subqueries = saved
        return f"SELECT {', '.join(f'{sql} AS c{n}' for n, sql in enumerate(outputs))} FROM {relation.sql}{where}{group}{having}"

    def windows(self, kinds, relation, where):
        self.mark("window")
        scope = relation.columns
        saved, self.subqueries = self.subqueries, 0
        outputs = []
        for kind in kinds:
            if self.rng.random() < 0.4 and len(outputs) + 1 < len(kinds):
                outputs.append(self.value(scope, kind, 1))
                continue
            parts = f"PARTITION BY {self.value(scope, self.rng.choice([INT, TEXT]), 1)} " if self.rng.random() < 0.6 else ""
            direction = self.rng.choice(["ASC", "DESC"])
            frame = ""
            if relation.unique:
                order = "ORDER BY " + ", ".join(f"{u} {direction} NULLS LAST" for u in relation.unique)
                if self.rng.random() < 0.4:
                    order = order.replace("ORDER BY ", f"ORDER BY {self.orderable(scope)[0]} {self.rng.choice(['ASC', 'DESC'])} NULLS LAST, ")
                if self.flip("window_frame", 0.35):
                    frame = " ROWS BETWEEN " + self.rng.choice(["2 PRECEDING AND CURRENT ROW", "1 PRECEDING AND 1 FOLLOWING", "UNBOUNDED PRECEDING AND 1 PRECEDING",
                                                                "CURRENT ROW AND UNBOUNDED FOLLOWING", "1 FOLLOWING AND 3 FOLLOWING"])
                calls = {INT: ["row_number()", "rank()", "ntile(3)", "count(*)", "sum({i})", "lag({i})", "lead({i}, 2)", "first_value({i})", "last_value({i})"]}
                calls = calls.get(kind, ["lag({x})", "lead({x})", "first_value({x})", "last_value({x})", "nth_value({x}, 2)"] + (["max({x})"] if kind in SETTABLE and kind != BOOL else []))
            else:
                order = f"ORDER BY {self.orderable(scope)[0]} {direction} NULLS LAST" if kind == INT or self.rng.random() < 0.5 else ""
                if kind == INT and self.flip("window_frame", 0.3):
                    order = f"ORDER BY {self.value(scope, INT, 0)} {direction}"
                    order += " NULLS LAST"
                    frame = " RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING"
                    # An offset wants one column: a literal is no key.
                    if not self.column(scope, INT):
                        frame = ""
                calls = {INT: ["count(*)", "sum({i})"] + ([] if frame else ["rank()", "dense_rank()"])}.get(kind, ["max({x})", "min({x})"])
                if kind in (BOOL, LIST, INTERVAL):
                    outputs.append(self.value(scope, kind, 1))
                    continue
            call = self.rng.choice(calls)
            if frame and call in ("row_number()", "rank()", "ntile(3)", "lag({i})", "lead({i}, 2)", "lag({x})", "lead({x})"):
                frame = ""
            call = call.format(i=self.value(scope, INT, 1), x=self.value(scope, kind, 1))
            outputs.append(f"{call} OVER ({parts}{order}{frame})")
        self.subqueries = saved
        return f"SELECT {', '.join(f'{sql} AS c{n}' for n, sql in enumerate(outputs))} FROM {relation.sql}{where}"

    # Partitions by a condition's three values.

    def partitions(self, wished=()):
        """Two queries of the same rows: one as it is, the other in three parts by p, NOT p and p IS NULL. And their kinds."""
        self.start(wished)
        self.ctes, self.used = [], {}
        relation = self.relation(1)
        p = self.condition(relation.columns)
        parts = [f"({p})", f"NOT ({p})", f"({p}) IS NULL"]
        self.mark("partitions")
        if self.rng.random() < 0.4:
            value = self.value(relation.columns, INT, 1)
            key = self.orderable(relation.columns)
            form = f"SELECT {key[0]} AS k, count(*) AS n, sum({value}) AS s, max({value}) AS m, min({value}) AS l FROM {relation.sql}"
            whole = f"{form} GROUP BY {key[0]}"
            if self.rng.random() < 0.5:
                split = " UNION ALL ".join(f"{form} WHERE {part} GROUP BY {key[0]}" for part in parts)
                return whole, f"SELECT k, CAST(sum(n) AS BIGINT), CAST(sum(s) AS BIGINT), max(m), min(l) FROM ({split}) AS x GROUP BY k", [key[1]] + [INT] * 4
            h = self.rng.choice([f"max({value}) > {literal(self.rng, INT)}", f"sum({value}) <> 3", f"min({value}) IN (1, 2, NULL)"])
            return whole, " UNION ALL ".join(f"{whole} HAVING {part}" for part in (h, f"NOT ({h})", f"({h}) IS NULL")), [key[1]] + [INT] * 4
        kinds = self.any_kinds()
        outputs = ", ".join(f"{self.value(relation.columns, kind, 1)} AS c{n}" for n, kind in enumerate(kinds))
        form = f"SELECT {outputs} FROM {relation.sql}"
        return form, " UNION ALL ".join(f"{form} WHERE {part}" for part in parts), kinds
