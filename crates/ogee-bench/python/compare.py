#!/usr/bin/env python3
"""DuckDB beside Ogee on the queries of `ogee-bench`, from the same Parquet files.

  answers   asks DuckDB for the answers of all checks and keeps them in a file for `ogee-bench groupings --answers`
  check     compares Ogee's answers to the checks with those
  race      runs both systems in turn on the timed queries and prints times, ratios, geometric means and peak memory

Every run is a process of its own. Memory is anonymous plus shared-memory resident bytes, sampled from /proc every 10 ms.
Time is each system's own for the statement, without the start of the process. The queries come from `ogee-bench queries`.
"""

import argparse
import datetime
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

# What a race runs unless told: of the groupings those that the paper's figures and the README show.
NAMES = {"groupings": "g1-thin,g3-thin,g4-thin,g5-thin,g6-thin,g13-thin,g4-wide16,g5-wide16"}
UNITS = {"MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}


def limit_bytes(limit):
    digits = limit.rstrip("GMiB")
    return int(digits) * UNITS[limit[len(digits):]]


def text(value):
    """As the shell writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    return f"{value:f}" if hasattr(value, "as_tuple") else str(value)


def duckdb_child():
    """Runs in a process of its own: one statement from standard input, its time and first row as JSON on standard output."""
    import duckdb

    job = json.load(sys.stdin)
    database = duckdb.connect()
    database.execute(f"SET threads = {job['threads']}")
    database.execute("SET preserve_insertion_order = false")
    database.execute(f"SET temp_directory = '{job['temp']}'")
    if job["limit"] != "none":
        database.execute(f"SET memory_limit = '{job['limit']}'")
    started = time.perf_counter()
    row = database.execute(job["sql"]).fetchone()
    elapsed = time.perf_counter() - started
    print(json.dumps({"elapsed_s": elapsed, "values": [text(value) for value in row]}))


class Sampler(threading.Thread):
    """Peak memory of a process."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peak, self.over = pid, 0, False
        self.start()

    def run(self):
        while not self.over:
            try:
                with open(f"/proc/{self.pid}/status") as status:
                    lines = dict(line.split(":", 1) for line in status)
                kilobytes = sum(int(lines[name].split()[0]) for name in ("RssAnon", "RssShmem"))
                self.peak = max(self.peak, kilobytes * 1024)
            except (OSError, KeyError):
                return
            time.sleep(0.01)


def finish(process, given, timeout):
    sampler = Sampler(process.pid)
    try:
        out, err = process.communicate(given, timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        out, err = "", "timeout"
    sampler.over = True
    return out, err, process.returncode, sampler.peak


def run_duckdb(sql, limit, threads, timeout):
    with tempfile.TemporaryDirectory() as temp:
        job = json.dumps({"sql": sql, "limit": limit, "threads": threads, "temp": temp})
        process = subprocess.Popen([sys.executable, __file__, "duckdb-child"], text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err, code, peak = finish(process, job, timeout)
    if code != 0:
        return {"error": (err.strip().splitlines() or ["killed"])[-1], "peak": peak}
    return json.loads(out) | {"peak": peak}


def run_ogee(ogee, sql, limit, threads, timeout):
    with tempfile.TemporaryDirectory() as temp:
        command = [ogee, "--format", "line", "--stats", "--threads", str(threads), "--temp-directory", temp, "-c", sql]
        if limit != "none":
            command += ["--memory-limit", limit]
        process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err, code, peak = finish(process, None, timeout)
    if code != 0:
        return {"error": err.strip() or "killed", "peak": peak}
    stats = json.loads(err.strip().splitlines()[-1])
    values = [line.split(" = ", 1)[1] for line in out.splitlines() if " = " in line]
    return stats | {"values": values, "peak": max(peak, stats["peak_rss_bytes"])}


def read_queries(bench, data, suite="groupings"):
    command = [bench, "queries", "--data", data, "--suite", suite]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def same(ours, theirs):
    """Whether two answers agree: sums of floats depend on the order of rows."""
    if ours == theirs:
        return True
    try:
        return math.isclose(float(ours), float(theirs), rel_tol=1e-9)
    except ValueError:
        return False


def check(arguments):
    known = json.loads(pathlib.Path(arguments.answers).read_text())
    wrong = 0
    for limit in arguments.limits.split(","):
        for threads in arguments.threads:
            for query in read_queries(arguments.bench, arguments.data, arguments.suite):
                result = run_ogee(arguments.ogee, query["check"], limit, threads, arguments.timeout)
                ours, theirs = result.get("values", []), known[query["name"]]
                good = len(ours) == len(theirs) and all(map(same, ours, theirs))
                verdict = "ok" if good else result.get("error", f"wrong: {ours} instead of {theirs}")
                if limit != "none" and result["peak"] > limit_bytes(limit) + (64 << 20):
                    good, verdict = False, f"{result['peak'] / 1e6:.0f} MB used"
                wrong += not good
                print(f"{query['name']:<11} {limit:>6} {threads:>3} {verdict}", flush=True)
    sys.exit(1 if wrong else 0)


def answers(arguments):
    path = pathlib.Path(arguments.answers)
    known = json.loads(path.read_text()) if path.exists() else {}
    for query in read_queries(arguments.bench, arguments.data, arguments.suite):
        if query["name"] in known:
            continue
        result = run_duckdb(query["check"], arguments.limit, arguments.threads[0], arguments.timeout)
        if "error" in result:
            sys.exit(f"DuckDB fails on {query['name']}: {result['error']}; give it another --limit")
        known[query["name"]] = result["values"]
        print(f"{query['name']:<11} {result['elapsed_s']:8.2f} s {result['peak'] / 1e6:8.0f} MB", flush=True)
        path.write_text(json.dumps(known, indent=0))
    print(f"{len(known)} answers in {path}")


def race(arguments):
    known = json.loads(pathlib.Path(arguments.answers).read_text())
    names = (arguments.names or NAMES.get(arguments.suite, "")).split(",")
    queries = read_queries(arguments.bench, arguments.data, arguments.suite)
    queries = [query for query in queries if names == [""] or query["name"] in names]
    for path in pathlib.Path(arguments.data).rglob("*.parquet"):
        with open(path, "rb") as file:
            while file.read(1 << 24):
                pass
    print(f"{'query':<11} {'limit':>6} {'thr':>3} {'ogee s':>8} {'duckdb s':>8} {'ratio':>6} {'ogee MB':>8} {'duckdb MB':>9}"
          f" {'spilled MB':>10}")
    ratios = {}
    for limit in arguments.limits.split(","):
        for threads in arguments.threads:
            for query in queries:
                groups = int(known[query["name"]][0])
                sql = f"{query['sql']} OFFSET {groups - 1}"
                ours, theirs = [], []
                for _ in range(arguments.runs):
                    ours.append(run_ogee(arguments.ogee, sql, limit, threads, arguments.timeout))
                    if not (theirs and "error" in theirs[-1]):
                        theirs.append(run_duckdb(sql, limit, threads, arguments.timeout))
                cells = []
                for results in (ours, theirs):
                    errors = [result["error"] for result in results if "error" in result]
                    cells.append(errors[0][:40] if errors else statistics.median(r["elapsed_s"] for r in results))
                good = all(isinstance(cell, float) for cell in cells)
                ratio = cells[0] / cells[1] if good else math.nan
                if good:
                    ratios.setdefault((limit, threads), []).append(ratio)
                shown = [f"{cell:8.2f}" if isinstance(cell, float) else cell for cell in cells]
                peaks = [max(result["peak"] for result in results) for results in (ours, theirs)]
                spilled = max(result.get("spilled_bytes", 0) for result in ours)
                over = ""
                if limit != "none" and peaks[0] > limit_bytes(limit) + (64 << 20):
                    over = "  OGEE BEYOND ITS LIMIT"
                print(f"{query['name']:<11} {limit:>6} {threads:>3} {shown[0]} {shown[1]} {ratio:6.2f} {peaks[0] / 1e6:8.0f}"
                      f" {peaks[1] / 1e6:9.0f} {spilled / 1e6:10.0f}{over}", flush=True)
    for (limit, threads), values in ratios.items():
        mean = math.exp(statistics.fmean(math.log(value) for value in values))
        print(f"limit {limit}, {threads} threads: geometric mean of ogee / duckdb over {len(values)} queries: {mean:.3f}")


def main():
    if sys.argv[1:] == ["duckdb-child"]:
        duckdb_child()
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=["answers", "check", "race"])
    parser.add_argument("--suite", default="groupings", help="queries: groupings, h2o or sums")
    parser.add_argument("--data", required=True, help="directory with the tables, made by `ogee-bench generate`")
    parser.add_argument("--answers", help="file of known answers (default: in the data directory)")
    parser.add_argument("--bench", default="target/release/ogee-bench")
    parser.add_argument("--ogee", default="target/release/ogee")
    parser.add_argument("--limit", default="8GB", help="limit for DuckDB's answers")
    parser.add_argument("--limits", default="none", help="limits of a race, such as none,1GB")
    parser.add_argument("--threads", default="2", type=lambda given: [int(number) for number in given.split(",")])
    parser.add_argument("--runs", default=3, type=int, help="runs of each; the median counts")
    parser.add_argument("--timeout", default=1200, type=float, help="seconds")
    parser.add_argument("--names", help="queries of a race, separated by commas")
    arguments = parser.parse_args()
    arguments.answers = arguments.answers or os.path.join(arguments.data, "answers-duckdb.json")
    {"answers": answers, "check": check, "race": race}[arguments.command](arguments)


if __name__ == "__main__":
    main()
