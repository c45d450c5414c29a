"""Whole results of the standards' queries (TPC-H, TPC-DS, SSB, JOB), and when two of them agree.

Integers, decimals, dates and strings must be equal by value. Floats agree to 1e-9 of their size; where DuckDB gives a float and the other
system a decimal (averages, quotients), to one unit of the decimal's last place. Rows are a multiset; where the query orders them, the
leading columns of its ORDER BY that are in the result must come in the same order. A query with LIMIT may cut rows that its ORDER BY
leaves tied: DuckDB runs it without LIMIT, all rows tied with the last one are kept, and any choice among them is right.

Results up to ROWS_KEPT rows are kept as they are. Of larger ones the number of rows, a hash of the sorted columns that must be equal, and the
sum of every column of floats; their order is not compared.
"""

import hashlib
import json
import math
import re
from collections import defaultdict
from decimal import Decimal, getcontext

ROWS_KEPT = 20_000
# `normalize` rounds to this many digits.
getcontext().prec = 100


def doubles(*quantities):
    """Quotients of decimals as quotients of floats."""
    return [(f"{quantity}/", f"CAST({quantity} AS DOUBLE)/") for quantity in quantities]


# What a system says otherwise, as (old, new) in the text of a query.
REWRITES = {
    "duckdb": {
        # A reserved word.
        **{("job", name): [("aka_title AS at", "aka_title AS aka"), ("= at.", "= aka.")] for name in ("15a", "15b", "15c")},
        ("job", "15d"): [("aka_title AS at", "aka_title AS aka"), ("= at.", "= aka."), ("(at.", "(aka.")],
    },
    # Quotients of decimals have so few digits that what is computed from them has less than was promised; those of others are floats.
    "datafusion": {
        # Ranks of quotients, some of which tie in so few digits.
        ("tpcds", "q49"): [("AS decimal(15,4))", "AS double)")],
        ("tpcds", "q58"): doubles("ss_item_rev", "cs_item_rev", "ws_item_rev"),
        ("tpcds", "q61"): [("decimal(15,4))/", "double)/")],
        ("tpcds", "q66"): [("/w_warehouse_sq_ft", "/CAST(w_warehouse_sq_ft AS DOUBLE)")],
        ("tpcds", "q78"): doubles("(ss_qty*1.00)"),
        ("tpcds", "q83"): doubles("(sr_item_qty*1.0000)", "(cr_item_qty*1.0000)", "(wr_item_qty*1.0000)"),
    },
}

# The front end of Ogee places NULLs as PostgreSQL does, and divides integers to integers.
DUCKDB_SETTINGS = ["SET default_null_order = 'nulls_last_on_asc_first_on_desc'", "SET integer_division = true"]


def text_for(system, suite, query):
    """The SQL of a query in a system's words."""
    sql = query["sql"]
    for old, new in REWRITES.get(system, {}).get((suite, query["name"]), []):
        if old not in sql:
            raise ValueError(f"{suite} {query['name']} has no {old!r} to rewrite")
        sql = sql.replace(old, new)
    return sql


def views(tables):
    """Statements that name the directories of Parquet files in DuckDB."""
    return [f"CREATE VIEW \"{name}\" AS SELECT * FROM read_parquet('{path}/*.parquet')" for name, path in tables.items()]


def external_tables(tables):
    """The same in Ogee."""
    return [f"CREATE EXTERNAL TABLE \"{name}\" STORED AS PARQUET LOCATION '{path}/'" for name, path in tables.items()]


def top_level(sql):
    """The text with everything in brackets and quotes blanked out, as long as before."""
    out, depth, quote = [], 0, None
    for char in sql:
        if quote:
            quote = None if char == quote else quote
            char = " "
        elif char in "'\"":
            # Quoted names stay, quoted strings go.
            quote = char
            char = " "
        elif char == "(":
            depth += 1
            char = " "
        elif char == ")":
            depth -= 1
            char = " "
        elif depth:
            char = " "
        out.append(char)
    return "".join(out)


def split_tail(sql):
    """The query without its ORDER BY and LIMIT, the items of its ORDER BY, and the limit or None."""
    outer = top_level(sql)
    limit = None
    if found := re.search(r"\blimit\s+(\d+)\s*$", outer, re.I):
        limit, sql, outer = int(found[1]), sql[:found.start()], outer[:found.start()]
    orders = list(re.finditer(r"\border\s+by\b", outer, re.I))
    if not orders:
        return sql, [], limit
    start = orders[-1].end()
    commas = [start - 1] + [start + at for at, char in enumerate(outer[start:]) if char == ","] + [len(sql)]
    items = [sql[left + 1:right].strip() for left, right in zip(commas, commas[1:])]
    return sql[:orders[-1].start()], items, limit


def bare(item):
    """An item of an ORDER BY without its direction."""
    item = re.sub(r"\s+nulls\s+(first|last)\s*$", "", item, flags=re.I)
    return re.sub(r"\s+(asc|desc)\s*$", "", item, flags=re.I).strip()


def columns_of(items, names):
    """For each item of an ORDER BY its place in the result, or None."""
    lower = [name.lower() for name in names]
    places = []
    for item in map(bare, items):
        name = item.split(".")[-1].strip('"').lower()
        if item.isdigit():
            places.append(int(item) - 1)
        elif re.fullmatch(r'[\w."]+', item) and lower.count(name) == 1:
            places.append(lower.index(name))
        else:
            places.append(None)
    return places


def canonical(value):
    """A value as text that equal values share."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, Decimal)):
        return f"{Decimal(value).normalize():f}" if value else "0"
    if isinstance(value, float):
        return repr(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def ordered(body, items):
    return f"{body} ORDER BY {', '.join(items)}" if items else body


def answer(database, body, items, limit):
    """DuckDB's result as it is kept, of a query cut by `split_tail`."""
    cursor = database.execute(ordered(body, items))
    described = cursor.description
    width = len(described)
    floats = [at for at, column in enumerate(described) if str(column[1]) in ("DOUBLE", "FLOAT")]
    places = columns_of(items, [column[0] for column in described])
    keys = ties = places[:places.index(None)] if None in places else places
    if limit is not None and None in places:
        # Expressions over columns of the result become columns, so that ties are known in full.
        terms = ", ".join(bare(item) for item, place in zip(items, places) if place is None)
        try:
            cursor = database.execute(ordered(f"SELECT whole.*, {terms} FROM ({body}) AS whole", items))
            ties = [place for place in places if place is not None] + list(range(width, len(cursor.description)))
        except Exception:  # They are of the tables; DuckDB has many errors for that.
            cursor = database.execute(ordered(body, items))
    rows, last, sure = [], None, None
    for row in iter(cursor.fetchone, None):
        tied = [row[key] for key in ties]
        if limit is not None and len(rows) >= limit and tied != last:
            break
        if tied != last:
            last, sure = tied, len(rows)
        rows.append([canonical(value) for value in row[:width]])
    cut = limit is not None and len(rows) > limit
    kept = {"columns": width, "floats": floats, "keys": keys, "limit": limit, "count": len(rows)}
    if len(rows) <= ROWS_KEPT:
        # Rows from `sure` on are tied with the last one that the query gives out.
        return kept | {"sure": sure if cut else len(rows), "rows": rows}
    if cut:
        raise ValueError(f"{len(rows)} rows are tied at the limit")
    return kept | summary(rows, floats)


def summary(rows, floats):
    """What stands for a large result."""
    exact = sorted(json.dumps([value for at, value in enumerate(row) if at not in floats]) for row in rows)
    sums = [math.fsum(float(row[at]) for row in rows if row[at] is not None) for at in floats]
    nulls = [sum(row[at] is None for row in rows) for at in floats]
    return {"hash": hashlib.sha256("\n".join(exact).encode()).hexdigest(), "sums": sums, "nulls": nulls}


def close(ours, theirs, unit):
    """Whether two floats agree; `unit` is that of a decimal's last place, or 0."""
    if ours is None or theirs is None:
        return ours is theirs
    return math.isclose(float(ours), float(theirs), rel_tol=1e-9, abs_tol=max(unit, 1e-12))


def difference(kept, rows, units):
    """What is wrong with Ogee's `rows` of canonical values, or None. `units` has the last place of columns that are decimals."""
    if rows and len(rows[0]) != kept["columns"]:
        return f"{len(rows[0])} columns instead of {kept['columns']}"
    limit = kept["limit"]
    expected = kept["count"] if limit is None else min(limit, kept["count"])
    if len(rows) != expected:
        return f"{len(rows)} rows instead of {expected}"
    floats = kept["floats"]
    if "rows" not in kept:
        own = summary(rows, floats)
        if own["hash"] != kept["hash"] or own["nulls"] != kept["nulls"]:
            return "other values in a large result"
        for at, ours, theirs in zip(floats, own["sums"], kept["sums"]):
            if not close(ours, theirs, units.get(at, 0) * len(rows)):
                return f"a sum of {ours} instead of {theirs}"
        return None

    def same(ours, theirs, columns):
        return all(close(ours[at], theirs[at], units.get(at, 0)) if at in floats else ours[at] == theirs[at] for at in columns)

    # Places of rows of DuckDB that none of ours has taken yet, by their exact values.
    waiting = defaultdict(list)
    for place, row in enumerate(kept["rows"]):
        waiting[tuple(value for at, value in enumerate(row) if at not in floats)].append(place)
    missing = set(range(kept["sure"]))
    for row in rows:
        among = waiting[tuple(value for at, value in enumerate(row) if at not in floats)]
        match = next((at for at, place in enumerate(among) if same(row, kept["rows"][place], floats)), None)
        if match is None:
            near = kept["rows"][among[0] if among else 0]
            return f"a row {row} that should not be there, such as {near}"
        missing.discard(among.pop(match))
    if missing:
        return f"{len(missing)} rows are missing, such as {kept['rows'][min(missing)]}"
    for ours, theirs in zip(rows, kept["rows"]):
        if not same(ours, theirs, kept["keys"]):
            return f"out of order: {ours} where {theirs} should be"
    return None


def parse(out):
    """Rows of canonical values, and units of decimal columns, from what Ogee's shell says to DESCRIBE and to the query."""
    rows, units, columns = [], {}, 0
    for line in out.splitlines():
        pairs = json.loads(line, parse_float=Decimal, object_pairs_hook=list)
        if [name for name, _ in pairs][:3] == ["column_name", "column_type", "null"]:
            if decimal := re.fullmatch(r"DECIMAL\(\d+,(-?\d+)\)", pairs[1][1]):
                units[columns] = 10.0 ** -int(decimal[1])
            columns += 1
        else:
            rows.append([canonical(value) for _, value in pairs])
    return rows, units
