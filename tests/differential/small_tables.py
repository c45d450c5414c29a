"""Small random tables for `small.py`: all kinds of values at their edges, made by statements or read from Parquet, CSV and ndjson files.

The same rows are in DuckDB, in Ogee and (integers and texts) in SQLite. Not here: queries (`grammar.py`).
"""

INT, TEXT, FLOAT, NUM, DEC, BOOL, DATE, TS, TZ, INTERVAL, LIST = "int text float num dec bool date ts tz interval list".split()

TYPES = {INT: "BIGINT", TEXT: "VARCHAR", FLOAT: "DOUBLE", NUM: "DOUBLE", DEC: "DECIMAL(10,2)", BOOL: "BOOLEAN", DATE: "DATE", TS: "TIMESTAMP",
         TZ: "TIMESTAMPTZ", INTERVAL: "INTERVAL", LIST: "BIGINT[]"}

# Names of columns by kind. `f` has NaN and infinities; `g` has eighths only, whose sums are exact.
NAMES = [("i", INT), ("j", INT), ("s", TEXT), ("f", FLOAT), ("g", NUM), ("d", DEC), ("b", BOOL), ("dt", DATE), ("ts", TS), ("tz", TZ), ("iv", INTERVAL),
         ("l", LIST)]
ZONES = ["Europe/Berlin", "America/New_York", "UTC", "Asia/Kolkata"]
ROWS = [0, 1, 2, 2, 5, 12, 25, 25, 60, 60, 200]
ROWS_KEPT = [0, 1, 2, 5, 12, 25]


def literal(rng, kind, nulls=0.0):
    """SQL of a value. Few values, so that many are equal."""
    if rng.random() < nulls:
        return f"CAST(NULL AS {TYPES[kind]})"
    n = rng.choice([0, 1, 1, 2, 3, 4, 5, 7, 12])
    if kind == INT:
        return str(rng.choice([n, n, -n if n else 0, n * 10]))
    if kind == TEXT:
        return "'" + rng.choice(["a", "b", "B", "ab", "a%b", "x_y", "é", "abc", "12", "long enough to be no inline string", "Zz"]) + "'"
    if kind == FLOAT:
        return rng.choice(["'nan'", "'inf'", "'-inf'", "-0.0", "0.0", f"{n / 8}", f"{-n / 8}", f"{n}.5"]).join(["CAST(", " AS DOUBLE)"])
    if kind == NUM:
        return f"CAST({rng.choice([1, -1]) * n / 8 if n else 0.0} AS DOUBLE)"
    if kind == DEC:
        return f"CAST({rng.choice(['', '-']) if n else ''}{n}.{rng.choice(['00', '25', '50', '99', '05'])} AS DECIMAL(10,2))"
    if kind == BOOL:
        return rng.choice(["true", "false"])
    if kind == DATE:
        return f"DATE '{rng.choice([2020, 2021, 1999, 1969])}-{1 + n % 12:02d}-{rng.choice([1, 15, 28])}'".replace("-1'", "-01'")
    moment = f"{rng.choice([2020, 2021, 1969])}-{rng.choice(['03-29', '10-25', '01-31', '12-31'])} 0{n % 10}:{n:02d}:{rng.choice(['00', '59', '07.5'])}"
    if kind == TS:
        return f"TIMESTAMP '{moment}'"
    if kind == TZ:
        return f"TIMESTAMPTZ '{moment}+00'"
    if kind == INTERVAL:
        return f"INTERVAL '{n} {rng.choice(['days', 'hours', 'minutes', 'seconds'])}'"
    values = ", ".join(literal(rng, INT) if rng.random() < 0.85 else "NULL" for _ in range(rng.choice([0, 1, 2, 3])))
    return f"CAST([{values}] AS BIGINT[])"


class Table:
    """A table: its name as queries write it, columns of name and kind, how many rows, and the features that come with it."""

    def __init__(self, name, columns, rows, features):
        self.name, self.columns, self.rows, self.features = name, columns, rows, features


def make(rng, directory, lite, off):
    """Tables, statements for both engines that make them, and statements for DuckDB before, which write the files."""
    tables, setup, files = [], ["CREATE SCHEMA s1"] if not lite else [], []
    plan = [("t0", "table"), ("t1", "table"), ("t2", "parquet"), ("t3", "csv"), ("t4", "ndjson"), ("s1.t0", "table"), ("s1.t1", "parquet"), ("big", "parquet")]
    if lite:
        plan = [("t0", "table"), ("t1", "table"), ("t2", "table"), ("t3", "table"), ("big", "table")]
    if directory is None:
        # What is kept in the tree stays short.
        plan = plan[:-1]
    for position, (name, form) in enumerate(plan):
        rows = rng.choice([400, 1000]) if name == "big" else rng.choice(ROWS if directory else ROWS_KEPT)
        kinds = (INT, TEXT) if lite else tuple(TYPES)
        if form in ("csv", "ndjson"):
            kinds = (INT, TEXT, NUM, BOOL, DATE, TS, DEC)
        if form == "parquet":
            kinds = tuple(kind for kind in kinds if kind != INTERVAL)
        chosen = [(column, kind) for column, kind in NAMES if kind in kinds and (rng.random() < 0.75 or column in "is")]
        columns = [("id", INT)] + chosen
        share = {column: rng.choice([0, 0.1, 0.4, 1.0 if rng.random() < 0.1 else 0.2]) for column, _ in chosen}
        lines = [", ".join([str(row + 1)] + [literal(rng, kind, share[column]) for column, kind in chosen]) for row in range(rows)]
        nothing = ", ".join(f"CAST(NULL AS {TYPES[kind]})" for _, kind in columns)
        names = ", ".join(column for column, _ in columns)
        values = f"SELECT * FROM (VALUES {', '.join(f'({line})' for line in lines or [nothing])}) AS v({names})"
        if not rows:
            values += " WHERE id IS NOT NULL"
        typed = ", ".join(f"CAST({column} AS {TYPES[kind]}) AS {column}" for column, kind in columns)
        create = f"CREATE TABLE {name} AS SELECT {typed} FROM ({values}) AS w"
        features = {form} | ({"schema"} if "." in name else set())
        if form == "table" or directory is None:
            setup.append(create)
        else:
            path = directory / f"{position}.{form}"
            options = {"parquet": f"FORMAT parquet, ROW_GROUP_SIZE {rng.choice([2048, 122880])}", "csv": "FORMAT csv, HEADER", "ndjson": "FORMAT json"}
            files.append(f"COPY (SELECT {typed} FROM ({values}) AS w) TO '{path}' ({options[form]})")
            source = f"'{path}'"
            if not rows and form != "parquet":
                # A file without rows says nothing of its columns.
                setup.append(create)
            else:
                setup.append(f"CREATE {rng.choice(['VIEW', 'TABLE'])} {name} AS SELECT {typed} FROM {source}")
        tables.append(Table(name, columns, rows, features))
    return tables, setup, files
