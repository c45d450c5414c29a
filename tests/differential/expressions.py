"""Random expressions for `grammar.py`: of a wanted kind, over the columns of a scope, each with one value whatever the plan.

Left out are expressions on which the two systems differ by choice: `/` of integers, divisions by zero, sums of floats whose order matters.
Not here: subqueries as conditions and values, which are queries (`grammar.py`).
"""

from small_tables import BOOL, DATE, DEC, FLOAT, INT, INTERVAL, LIST, NUM, TEXT, TS, TZ, TYPES, ZONES, literal

COMPARABLE = (INT, TEXT, FLOAT, NUM, DEC, DATE, TS, TZ, INTERVAL)
FEATURE_OF = {FLOAT: "nan", DEC: "decimal", DATE: "date", TS: "timestamp", TZ: "timestamptz", INTERVAL: "interval", LIST: "list"}


class Expressions:
    """Mixed into the grammar: uses its `rng`, `flip`, `weighted`, `kinds`, `lite`, `mark`."""

    def column(self, scope, kind):
        """A column of the kind, or None."""
        found = [name for name, k in scope if k == kind]
        return self.rng.choice(found) if found else None

    def value(self, scope, kind, depth=2):
        """An expression of the kind."""
        if kind in FEATURE_OF:
            self.mark(FEATURE_OF[kind])
        column = self.column(scope, kind)
        if column and (depth <= 0 or self.rng.random() < 0.55):
            return column
        if depth <= 0 or self.rng.random() < 0.12:
            return literal(self.rng, kind, 0.05)
        if self.flip("case", 0.08):
            other = self.value(scope, kind, depth - 1)
            return f"CASE WHEN {self.condition(scope, depth - 1)} THEN {self.value(scope, kind, depth - 1)}" + (f" ELSE {other} END" if self.rng.random() < 0.7 else " END")
        if self.flip("coalesce", 0.05):
            return f"coalesce({self.value(scope, kind, depth - 1)}, {self.value(scope, kind, depth - 1)})"
        if kind != LIST and self.flip("nullif", 0.03):
            return f"nullif({self.value(scope, kind, depth - 1)}, {self.value(scope, kind, depth - 1)})"
        if kind == INT and self.subqueries and not self.lite and self.flip("twin_queries", 0.02):
            return self.twin_queries()
        if self.subqueries and self.flip("scalar_subquery", 0.05):
            return self.scalar_subquery(scope, kind)
        return getattr(self, kind + "_value")(scope, depth - 1)

    def pick(self, *templates):
        return self.rng.choice(templates)

    def int_value(self, scope, depth):
        v = lambda kind=INT: self.value(scope, kind, depth)
        options = [lambda: f"({v()} + {v()})", lambda: f"({v()} - {v()})", lambda: f"({self.value(scope, INT, 0)} * {self.rng.choice([2, 3, -1])})",
                   lambda: f"({v()} % {self.rng.choice([2, 3, 7])})", lambda: f"abs({v()})", lambda: f"length({v(TEXT)})", lambda: f"(- {v()})"]
        if not self.lite:
            options += [
                lambda: f"extract({self.pick('year', 'month', 'day', 'dow', 'doy', 'quarter', 'week', 'isodow')} FROM {v(self.pick(DATE, TS))})",
                lambda: f"extract({self.pick('hour', 'minute', 'second', 'epoch')} FROM {self.value(scope, TS, 0)})::BIGINT",
                lambda: f"({v(DATE)} - {v(DATE)})",
                lambda: f"array_length({v(LIST)})", lambda: f"({v(LIST)})[{self.rng.choice([1, 2, -1, 5])}]",
                lambda: f"greatest({v()}, {v()})", lambda: f"least({v()}, {v()})", lambda: f"strpos({v(TEXT)}, 'b')",
                lambda: self.cast(v(BOOL), "BIGINT"), lambda: self.cast(v(DEC), "BIGINT")]
        return self.rng.choice(options)()

    def text_value(self, scope, depth):
        v = lambda kind=TEXT: self.value(scope, kind, depth)
        options = [lambda: f"({self.value(scope, TEXT, 0)} || {v()})", lambda: f"substr({v()}, {self.rng.choice([1, 2])}, {self.rng.choice([1, 2, 4])})",
                   lambda: f"replace({v()}, 'a', 'q')", lambda: f"trim({v()})", lambda: self.cast(v(INT), "VARCHAR" if not self.lite else "TEXT")]
        if not self.lite:
            options += [lambda: f"upper({v()})", lambda: f"lower({v()})", lambda: self.cast(v(DATE), "VARCHAR"), lambda: f"concat({v()}, {v(INT)})",
                        lambda: f"left({v()}, {self.rng.choice([1, 2, -1])})", lambda: f"right({v()}, 2)", lambda: f"reverse({self.value(scope, TEXT, 0)})",
                        lambda: f"lpad({v()}, 5, '*')", lambda: f"strftime({v(TS)}, '%Y-%m-%d %H:%M')", lambda: self.cast(v(BOOL), "VARCHAR"),
                        lambda: self.cast(v(TS), "VARCHAR"), lambda: self.cast(v(DEC), "VARCHAR"), lambda: f"array_to_string({v(LIST)}, '-')"]
        return self.rng.choice(options)()

    def float_value(self, scope, depth):
        v = lambda kind=FLOAT: self.value(scope, kind, depth)
        return self.rng.choice([lambda: f"(- {v()})", lambda: f"abs({v()})", lambda: f"({v()} + {v(NUM)})", lambda: f"({v()} * 2)", lambda: f"({v()} - {v()})",
                                lambda: f"floor({v()})", lambda: f"greatest({v()}, {v()})", lambda: self.cast(v(NUM), "DOUBLE")])()

    def num_value(self, scope, depth):
        v = lambda kind=NUM: self.value(scope, kind, depth)
        return self.rng.choice([lambda: f"({v()} + {v()})", lambda: f"({v()} / 2)", lambda: f"abs({v()})", lambda: f"ceil({v()})", lambda: self.cast(v(INT), "DOUBLE"),
                                lambda: f"round({v()}, 1)", lambda: self.cast(v(DEC), "DOUBLE"), lambda: f"({self.value(scope, NUM, 0)} * {self.value(scope, NUM, 0)})"])()

    def dec_value(self, scope, depth):
        v = lambda kind=DEC: self.value(scope, kind, depth)
        return self.rng.choice([lambda: f"({self.value(scope, DEC, 0)} + {self.value(scope, DEC, 0)})", lambda: f"({self.value(scope, DEC, 0)} * 2)",
                                lambda: self.cast(f"{self.value(scope, INT, 0)} % 1000", "DECIMAL(10,2)"), lambda: f"abs({v()})",
                                lambda: self.cast(f"{v()}", "DECIMAL(18,3)"), lambda: f"round({self.value(scope, DEC, 0)}, 1)"])()

    def bool_value(self, scope, depth):
        return f"({self.condition(scope, depth)})"

    def date_value(self, scope, depth):
        v = lambda kind=DATE: self.value(scope, kind, depth)
        return self.rng.choice([lambda: f"({v()} + {self.rng.choice([1, 31, -7])})", lambda: self.cast(v(TS), "DATE"),
                                lambda: self.cast(f"date_trunc('{self.pick('month', 'year', 'week')}', {v()})", "DATE")])()

    def ts_value(self, scope, depth):
        v = lambda kind=TS: self.value(scope, kind, depth)
        return self.rng.choice([lambda: f"({v()} + {v(INTERVAL)})", lambda: f"({v()} - INTERVAL '1 month')", lambda: f"date_trunc('{self.pick('hour', 'day', 'month')}', {v()})",
                                lambda: self.cast(v(DATE), "TIMESTAMP"), lambda: f"({v(TZ)} AT TIME ZONE '{self.rng.choice(ZONES)}')", lambda: self.cast(f"({v(DATE)} + INTERVAL '1 day')", "TIMESTAMP")])()

    def tz_value(self, scope, depth):
        v = lambda kind=TZ: self.value(scope, kind, depth)
        return self.rng.choice([lambda: f"({v(TS)} AT TIME ZONE '{self.rng.choice(ZONES)}')", lambda: f"({v()} + INTERVAL '2 hours')", lambda: self.cast(v(TS), "TIMESTAMPTZ")])()

    def interval_value(self, scope, depth):
        v = lambda kind: self.value(scope, kind, depth)
        return self.rng.choice([lambda: f"({v(TS)} - {v(TS)})", lambda: f"({v(INTERVAL)} + {v(INTERVAL)})", lambda: f"(- {self.value(scope, INTERVAL, 0)})"])()

    def list_value(self, scope, depth):
        v = lambda kind=LIST: self.value(scope, kind, depth)
        return self.rng.choice([lambda: f"[{v(INT)}, {v(INT)}]", lambda: f"list_concat({v()}, {v()})", lambda: f"list_append({v()}, {v(INT)})",
                                lambda: f"list_sort({v()})", lambda: f"({v()})[1:2]", lambda: f"list_reverse({v()})"])()

    def cast(self, sql, to):
        if self.flip("cast", 1.0):
            return f"CAST({sql} AS {to})"
        return f"CAST({sql} AS {to})"

    def comparison(self, scope, depth):
        kind = self.rng.choice([kind for kind in COMPARABLE if kind in self.kinds])
        operator = self.rng.choice(["=", "=", "<", "<=", ">", ">=", "<>"])
        return f"{self.value(scope, kind, depth)} {operator} {self.value(scope, kind, depth)}"

    def condition(self, scope, depth=2):
        """A condition of three values."""
        roll = self.rng.random()
        c = lambda: self.condition(scope, depth - 1)
        if depth > 0:
            if self.subqueries and not self.rng.random() > 0.25:
                sub = self.subquery_condition(scope)
                if sub:
                    return sub
            if roll < 0.1:
                return f"({c()} AND {c()})"
            if roll < 0.2:
                return f"({c()} OR {c()})"
            if roll < 0.27:
                return f"(NOT {c()})"
        kinds = [kind for kind in COMPARABLE if kind in self.kinds and kind != INTERVAL]
        kind = self.rng.choice(kinds)
        value = self.value(scope, kind, depth - 1)
        if roll < 0.36:
            return f"{value} IS {self.rng.choice(['', 'NOT '])}NULL"
        if roll < 0.42 and self.flip("distinct_from", 0.8):
            return f"{value} IS {self.rng.choice(['', 'NOT '])}DISTINCT FROM {self.value(scope, kind, depth - 1)}"
        if roll < 0.5 and self.flip("in_list", 0.8):
            values = [literal(self.rng, kind) for _ in range(self.rng.choice([1, 2, 4]))]
            if self.flip("null_in_list", 0.3):
                values.append("NULL")
            return f"{value} {self.rng.choice(['', 'NOT '])}IN ({', '.join(values)})"
        if roll < 0.56 and self.flip("between", 0.8):
            return f"{value} {self.rng.choice(['', 'NOT '])}BETWEEN {literal(self.rng, kind)} AND {self.value(scope, kind, 0)}"
        if roll < 0.66 and self.flip("like", 0.7):
            return f"{self.value(scope, TEXT, depth - 1)} {self.rng.choice(['', 'NOT '])}LIKE '{self.rng.choice(['a%', '%b', '_', '%', '', 'a_c', '%é%'])}'"
        if not self.lite and roll < 0.72 and self.flip("quantified", 0.7):
            return f"{self.value(scope, INT, 0)} {self.rng.choice(['=', '='])} ANY({self.value(scope, LIST, depth - 1)})"
        if not self.lite and roll < 0.76:
            return f"list_contains({self.value(scope, LIST, depth - 1)}, {self.rng.choice([1, 2, 4])})"
        flag = self.column(scope, BOOL)
        if flag and roll < 0.8:
            return flag
        return self.comparison(scope, max(depth - 1, 0))
