"""Random joins, set operations, subqueries and windows over one table, for `differential.py`.

Every query has one answer, whatever the order of rows: windows whose functions look at places are ordered by `id`, in which no two rows are alike, and
joins give sums over their rows.
"""

INTEGER, DECIMAL, FLOAT, TEXT, BYTES, DAY, MOMENT, BOOL = "integer decimal float text bytes day moment bool".split()


def pick(rng, columns, *kinds):
    return rng.choice([column for column in columns if not kinds or column.kind in kinds])


def part(rng, source, rows, most):
    """SQL of a table of at most `most` rows of the source, or so."""
    if rows <= most:
        return source
    return f"(SELECT * FROM {source} WHERE id % {rows // most + 1} = {rng.randrange(2)})"


def condition(rng, columns):
    """A condition of `a` and `b`, and whether equality of something is in it."""
    column = pick(rng, columns)
    roll = rng.random()
    if roll < 0.35:
        return f"a.{column.name} = b.{column.name}"
    if roll < 0.45:
        return f"a.{column.name} IS NOT DISTINCT FROM b.{column.name}"
    if roll < 0.55:
        other = pick(rng, columns, INTEGER)
        return f"a.{column.name} = b.{column.name} AND a.{other.name} {rng.choice(['<', '<=', '<>', '>'])} b.{other.name}"
    if roll < 0.7:
        other = pick(rng, columns, INTEGER, DECIMAL, DAY, FLOAT)
        return f"a.{other.name} {rng.choice(['<', '>='])} b.{other.name}"
    if roll < 0.8:
        number = pick(rng, columns, INTEGER)
        return f"a.id BETWEEN b.id - 3 AND b.id + 2 AND a.{number.name} IS NOT NULL"
    if roll < 0.9:
        other = pick(rng, columns)
        return f"(a.{column.name} = b.{column.name} OR a.{other.name} = b.{other.name})"
    return f"a.id = b.id + {rng.choice([0, 1, 7])}"


def join(rng, columns, source, rows):
    """SQL, and the kinds of its columns."""
    a, b = part(rng, source, rows, 700), part(rng, source, rows, 500)
    kind = rng.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "semi", "anti", "in", "not in", "or in", "marks", "using"])
    on = condition(rng, columns)
    sums = "count(*), count(a.id), sum(a.id), count(b.id), sum(b.id), max(a.id - b.id)"
    key = pick(rng, columns)
    other = pick(rng, columns)
    limit = rng.choice(["", " AND b.id % 3 = 0", f" AND b.{key.name} IS NOT NULL", f" AND b.{other.name} = a.{other.name}"])
    if kind.endswith("JOIN"):
        return f"SELECT {sums} FROM {a} AS a {kind} {b} AS b ON {on}", [INTEGER] * 6
    if kind in ("semi", "anti"):
        word = "NOT EXISTS" if kind == "anti" else "EXISTS"
        return f"SELECT count(*), sum(a.id) FROM {a} AS a WHERE {word} (SELECT 1 FROM {b} AS b WHERE {on})", [INTEGER] * 2
    member = f"a.{key.name} {{}}IN (SELECT b.{key.name} FROM {b} AS b WHERE true{limit})"
    if kind in ("in", "not in"):
        return f"SELECT count(*), sum(a.id) FROM {a} AS a WHERE {member.format('NOT ' if kind == 'not in' else '')}", [INTEGER] * 2
    if kind == "or in":
        member = member.format(rng.choice(["", "NOT "]))
        return f"SELECT count(*), sum(a.id) FROM {a} AS a WHERE {member} OR a.id % 5 = 0", [INTEGER] * 2
    if kind == "marks":
        member = member.format(rng.choice(["", "NOT "]))
        return (
            f"SELECT x, y, count(*), sum(id) FROM (SELECT a.id, {member} AS x, EXISTS (SELECT 1 FROM {b} AS b WHERE {on}) AS y FROM {a} AS a) GROUP BY x, y",
            [BOOL, BOOL, INTEGER, INTEGER],
        )
    word = rng.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
    shown = f"max({key.name}), min({key.name})" if key.kind != BOOL else "count(*) FILTER (WHERE flag), count(flag)"
    kinds = [key.kind] * 2 if key.kind != BOOL else [INTEGER] * 2
    return (
        f"SELECT count(*), count({key.name}), {shown}, sum(a.id), sum(b.id) FROM {a} AS a {word} {b} AS b USING ({key.name})",
        [INTEGER, INTEGER, *kinds, INTEGER, INTEGER],
    )


def sets(rng, columns, source, rows):
    chosen = rng.sample(columns, rng.choice([1, 1, 2, 3]))
    names = ", ".join(column.name for column in chosen)
    word = rng.choice(["UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"])
    number = pick(rng, columns, INTEGER)
    sides = [f"SELECT {names} FROM {source} WHERE {number.name} {op} {rng.choice([0, 3, 40])}" for op in ("<", ">=")]
    sides[1] = rng.choice([sides[1], f"SELECT {names} FROM {source} WHERE id % 3 = 0"])
    # Counted by row: the same rows, the same number of times.
    keys = [f"c{position}" for position in range(len(chosen))]
    renamed = f"SELECT {', '.join(f'{c.name} AS {k}' for c, k in zip(chosen, keys))} FROM ({sides[0]} {word} {sides[1]})"
    if rows <= 3000:
        return f"SELECT {', '.join(keys)}, count(*) FROM ({renamed}) GROUP BY {', '.join(keys)}", [c.kind for c in chosen] + [INTEGER]
    counted = ", ".join(f"count({key}), count(DISTINCT {key})" for key in keys)
    return f"SELECT count(*), {counted} FROM ({renamed})", [INTEGER] * (1 + 2 * len(keys))


def subquery(rng, columns, source, rows):
    a, b = part(rng, source, rows, 300), part(rng, source, rows, 300)
    key, value = pick(rng, columns), pick(rng, columns, INTEGER, DECIMAL, TEXT, DAY)
    on = rng.choice([f"b.{key.name} = a.{key.name}", "b.id < a.id", f"b.{key.name} = a.{key.name} AND b.id > a.id", "b.id = a.id - 1"])
    inner = rng.choice([
        (f"SELECT count(*) FROM {b} AS b WHERE {on}", INTEGER),
        (f"SELECT max(b.{value.name}) FROM {b} AS b WHERE {on}", value.kind),
        (f"SELECT b.{value.name} FROM {b} AS b WHERE {on} ORDER BY b.id DESC LIMIT 1", value.kind),
        (f"SELECT b.id FROM {b} AS b WHERE b.id = a.id", INTEGER),
        (f"SELECT count(DISTINCT b.{value.name}) + a.id FROM {b} AS b WHERE {on}", INTEGER),
    ])
    form = rng.randrange(3)
    if form == 0:
        return f"SELECT a.id, ({inner[0]}) AS x FROM {a} AS a", [INTEGER, inner[1]]
    if form == 1:
        return f"SELECT a.id, x FROM {a} AS a, LATERAL (SELECT b.id AS x FROM {b} AS b WHERE {on} ORDER BY b.id LIMIT 3) AS l", [INTEGER, INTEGER]
    return f"SELECT a.id, x FROM {a} AS a LEFT JOIN LATERAL ({inner[0].replace('SELECT ', 'SELECT * FROM (SELECT ', 1)}) AS l(x)) ON true".replace(") AS l(x)) ON", ")) AS l(x) ON"), [INTEGER, inner[1]]


def frame(rng, key):
    """A frame over `key`, and whether it counts rows."""
    unit = rng.choice(["ROWS", "ROWS", "RANGE", "GROUPS"])
    step = {INTEGER: "{}", DECIMAL: "{}.5", FLOAT: "{}.25", DAY: "INTERVAL '{} days'", MOMENT: "INTERVAL '{} hours'"}[key.kind]
    if unit != "RANGE":
        step = "{}"
    low, high = sorted(rng.choices([-900, -20, -3, -1, 0, 1, 2, 30, 1000], k=2))

    def end(at):
        if at == 0:
            return "CURRENT ROW"
        return f"{step.format(abs(at))} {'PRECEDING' if at < 0 else 'FOLLOWING'}"

    start, stop = end(low), end(high)
    if rng.random() < 0.2:
        start = "UNBOUNDED PRECEDING"
    if rng.random() < 0.2:
        stop = "UNBOUNDED FOLLOWING"
    return f"{unit} BETWEEN {start} AND {stop}", unit == "ROWS"


def window(rng, columns, source, rows):
    # Where a distance leaves the type of the key, DuckDB refuses.
    key = rng.choice([column for column in columns if column.name in ("i32", "i64", "money", "dbl", "day", "moment")])
    by = rng.sample(columns, rng.choice([0, 1, 1, 2]))
    partition = "PARTITION BY " + ", ".join(column.name for column in by) + " " if by else ""
    outputs = [("id", INTEGER)]
    for _ in range(rng.choice([1, 2, 3])):
        bounds, by_rows = frame(rng, key)
        direction = rng.choice(["", " DESC", " NULLS FIRST", " DESC NULLS LAST"])
        value = pick(rng, columns, INTEGER, DECIMAL, FLOAT, TEXT, DAY)
        passes = f" FILTER (WHERE {pick(rng, columns, INTEGER).name} % 2 = 0)" if rng.random() < 0.25 else ""
        calls = [("count(*)", INTEGER), (f"count({value.name})", INTEGER), (f"min({value.name})", value.kind), (f"max({value.name})", value.kind)]
        if value.kind in (INTEGER, DECIMAL, FLOAT):
            calls += [(f"sum({value.name})", value.kind), (f"avg(CAST({value.name} AS DOUBLE))", FLOAT)] * 2
        places = []
        if by_rows:
            nulls = rng.choice(["", " IGNORE NULLS"])
            places = [(f"first_value({value.name}{nulls})", value.kind), (f"last_value({value.name}{nulls})", value.kind),
                      (f"nth_value({value.name}, {rng.choice([1, 2, 5])}{nulls})", value.kind)]
        call, kind = rng.choice(calls + places)
        if (call, kind) in places:
            passes = ""
        # Rows that the key does not tell apart would come in any order.
        order = f"{key.name}{direction}" + (", id" if by_rows else "")
        outputs.append((f"{call}{passes} OVER ({partition}ORDER BY {order} {bounds})", kind))
        if rng.random() < 0.2:
            call, kind = rng.choice([
                ("row_number()", INTEGER), (f"lag({value.name}, 2)", value.kind), (f"lead({value.name} IGNORE NULLS)", value.kind),
                ("rank()", INTEGER), ("ntile(7)", INTEGER), ("cume_dist()", FLOAT),
            ])
            outputs.append((f"{call} OVER ({partition}ORDER BY {key.name}{direction}, id)", kind))
    select = ", ".join(f"{sql} AS c{position}" for position, (sql, _) in enumerate(outputs))
    return f"SELECT {select} FROM {part(rng, source, rows, 30000)}", [kind for _, kind in outputs]


FAMILIES = [join, join, sets, subquery, window, window]
