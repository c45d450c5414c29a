#!/usr/bin/env python3
"""One statement in another system, in a process of its own: a job as JSON on standard input, time and first row as JSON on standard output.
Of queries over named tables (`tables` in the job) the time of the whole result, and with `whole` what `suites.py` keeps of it.

All read the same Parquet files; the SQL is that of `ogee-bench queries`, with what a system calls otherwise put in its words.
A limit is set by the system's own means; Polars has none. DuckDB comes with `requirements.txt`, the others with `requirements-peers.txt`.
"""

import json
import os
import re
import sys
import time

import suites

TABLE = re.compile(r"'([^']*\.parquet)'")


def text(value):
    """As Ogee's shell writes it."""
    if value is None:
        return "NULL"
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return f"{value:f}" if hasattr(value, "as_tuple") else str(value)


def duckdb(job):
    import duckdb

    database = duckdb.connect()
    database.execute(f"SET threads = {job['threads']}")
    database.execute("SET preserve_insertion_order = false")
    database.execute(f"SET temp_directory = '{job['temp']}'")
    if job["limit"]:
        database.execute(f"SET memory_limit = '{job['limit']}B'")
    if "tables" not in job:
        return lambda: database.execute(job["sql"]).fetchone()
    for statement in [*suites.DUCKDB_SETTINGS, *suites.views(job["tables"])]:
        database.execute(statement)
    if "whole" in job:
        return lambda: suites.answer(database, job["sql"], **job["whole"])
    return lambda: database.execute(job["sql"]).fetchall()


def datafusion(job):
    import datafusion

    runtime = datafusion.RuntimeEnvBuilder().with_disk_manager_specified(job["temp"])
    if job["limit"]:
        runtime = runtime.with_fair_spill_pool(job["limit"])
    session = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(job["threads"]), runtime)
    for number, path in enumerate(dict.fromkeys(TABLE.findall(job["sql"]))):
        session.register_parquet(f"files{number}", os.path.dirname(path))
        job["sql"] = job["sql"].replace(f"'{path}'", f"files{number}")
    for name, path in job.get("tables", {}).items():
        session.register_parquet(name, path)
    if "tables" in job:
        return lambda: session.sql(job["sql"]).collect()

    def run():
        rows = session.sql(job["sql"]).collect()
        first = next(batch for batch in rows if batch.num_rows)
        return [first.column(column)[0].as_py() for column in range(first.num_columns)]

    return run


def polars(job):
    os.environ["POLARS_MAX_THREADS"] = str(job["threads"])
    import polars

    if "tables" in job:
        # What its SQL does not know (some correlated subqueries) fails, and is shown as that.
        context = polars.SQLContext({name: polars.scan_parquet(f"{path}/*.parquet") for name, path in job["tables"].items()})
        return lambda: context.execute(job["sql"], eager=False).collect(engine="streaming")
    sql = TABLE.sub(r"read_parquet('\1')", job["sql"])
    return lambda: polars.SQLContext().execute(sql, eager=False).collect(engine="streaming").row(0)


def clickhouse(job, source=lambda database, path: f"file('{os.path.abspath(path)}', Parquet)", home=None):
    from chdb import session

    database = session.Session(home or job["temp"])
    settings = {"max_threads": job["threads"]}
    if job["limit"]:
        settings |= {"max_memory_usage": job["limit"], "max_bytes_before_external_group_by": job["limit"] // 2}
    settings = ", ".join(f"{name} = {value}" for name, value in settings.items())
    sql = TABLE.sub(lambda found: source(database, found[1]), job["sql"])
    # Its own medians are approximate; deviations are told by name.
    sql = re.sub(r"\bmedian\(", "medianExact(", re.sub(r"\bstddev\(", "stddevSamp(", sql))
    return lambda: json.loads(str(database.query(f"{sql} SETTINGS {settings}", "JSONCompactEachRow")).splitlines()[0])


def clickhouse_table(job):
    """From its own tables, which the first run fills and keeps in `clickhouse` beside the files."""

    def table(database, path):
        name = os.path.basename(os.path.dirname(path))
        database.query(
            f"CREATE TABLE IF NOT EXISTS {name} ENGINE = MergeTree ORDER BY tuple() AS SELECT * FROM file('{os.path.abspath(path)}', Parquet) "
            "SETTINGS schema_inference_make_columns_nullable = 0"
        )
        return name

    path = TABLE.search(job["sql"])[1]
    return clickhouse(job, table, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(path))), "clickhouse"))


def hyper(job):
    import tableauhyperapi as api

    parameters = {"log_dir": job["temp"], "hard_concurrent_query_thread_limit": str(job["threads"])}
    if job["limit"]:
        parameters["memory_limit"] = f"{job['limit'] >> 20}m"
    process = api.HyperProcess(telemetry=api.Telemetry.DO_NOT_SEND_USAGE_DATA_TO_TABLEAU, parameters=parameters)
    connection = api.Connection(process.endpoint)

    def files(found):
        folder = os.path.abspath(os.path.dirname(found[1]))
        paths = ", ".join(f"'{folder}/{name}'" for name in sorted(os.listdir(folder)))
        return f"external(ARRAY[{paths}], FORMAT => 'parquet')"

    sql = TABLE.sub(files, job["sql"])
    sql = re.sub(r"\bmedian\((\w+)\)", r"percentile_cont(0.5) WITHIN GROUP (ORDER BY \1)", sql)
    # The server ends with `process`.
    return lambda server=process: connection.execute_list_query(sql)[0]


SYSTEMS = {
    "duckdb": duckdb,
    "datafusion": datafusion,
    "polars": polars,
    "clickhouse": clickhouse,
    "clickhouse-table": clickhouse_table,
    "hyper": hyper,
}
SYSTEMS_OF_TABLES = ("duckdb", "datafusion", "polars")


def main():
    job = json.load(sys.stdin)
    if "tables" in job and sys.argv[1] not in SYSTEMS_OF_TABLES:
        sys.exit(f"{sys.argv[1]} is not set up for queries over named tables")
    run = SYSTEMS[sys.argv[1]](job)
    started = time.perf_counter()
    result = run()
    elapsed = time.perf_counter() - started
    # A first row, what is kept of a whole result, or all rows, of which nobody asks.
    if "whole" not in job:
        result = [] if "tables" in job else [text(value) for value in result]
    print(json.dumps({"elapsed_s": elapsed, "values": result}), flush=True)
    # Some systems take long to end, or fail at it; what counts is over.
    os._exit(0)


if __name__ == "__main__":
    main()
