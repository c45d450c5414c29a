#!/usr/bin/env python3
"""Other systems beside Ogee on the queries of `ogee-bench`, from the same Parquet files.

  answers   asks DuckDB for the answers of all checks and keeps them in a file for `ogee-bench groupings --answers`
  check     compares Ogee's answers to the checks with those
  race      runs the systems in turn on the timed queries and prints times, ratios, geometric means and peak memory

Of the standards (tpch, tpcds, ssb, job) whole results are compared, as `suites.py` says.

Every run is a process of its own. Memory is anonymous plus shared-memory resident bytes, sampled from /proc every 10 ms.
Time is each system's own for the statement, without the start of the process. The queries come from `ogee-bench queries`.
"""

import argparse
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

import suites

# What a race runs unless told: of the groupings those that the paper's figures and the README show.
NAMES = {"groupings": "g1-thin,g3-thin,g4-thin,g5-thin,g6-thin,g13-thin,g4-wide16,g5-wide16"}
UNITS = {"MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}


def limit_bytes(limit):
    digits = limit.rstrip("GMiB")
    return int(digits) * UNITS[limit[len(digits):]]


def family(pid):
    """A process and those that it started."""
    yield pid
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children") as children:
            for child in children.read().split():
                yield from family(child)


class Sampler(threading.Thread):
    """Peak memory of a process and those that it started; kills it beyond a cap."""

    def __init__(self, process, cap):
        super().__init__(daemon=True)
        self.process, self.cap, self.peak, self.over = process, cap, 0, False
        self.start()

    def run(self):
        while not self.over:
            try:
                kilobytes = 0
                for pid in family(self.process.pid):
                    with open(f"/proc/{pid}/status") as status:
                        lines = dict(line.split(":", 1) for line in status)
                    kilobytes += sum(int(lines[name].split()[0]) for name in ("RssAnon", "RssShmem"))
            except (OSError, KeyError):
                # One ends while it is looked at.
                kilobytes = 0
            self.peak = max(self.peak, kilobytes * 1024)
            if self.peak > self.cap:
                self.process.kill()
            time.sleep(0.01)


def finish(process, given, timeout, cap=sys.maxsize):
    sampler = Sampler(process, cap)
    try:
        out, err = process.communicate(given, timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        out, err = "", "timeout"
    sampler.over = True
    if sampler.peak > cap:
        err = f"stopped at {cap / 1e9:.0f} GB"
    return out, err, process.returncode, sampler.peak


def run_peer(system, sql, limit, threads, timeout, cap=sys.maxsize, **more):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temp:
        limit = None if limit == "none" else limit_bytes(limit)
        job = json.dumps({"sql": sql, "limit": limit, "threads": threads, "temp": temp} | more)
        peers = pathlib.Path(__file__).with_name("peers.py")
        process = subprocess.Popen([sys.executable, peers, system], text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err, code, peak = finish(process, job, timeout, cap)
    if code != 0:
        lines = [line for line in err.splitlines() if line.strip()]
        return {"error": (lines or ["killed"])[-1], "peak": peak}
    return json.loads(out.splitlines()[-1]) | {"peak": peak}


def run_ogee(ogee, sql, limit, threads, timeout, form="line", before=(), out=None):
    """Runs `sql` after the statements `before`; what is measured is `sql` alone, but for the peak of memory."""
    with tempfile.TemporaryDirectory() as temp:
        command = [ogee, "--no-init", "--format", form, "--stats", "--threads", str(threads), "--temp-directory", temp]
        for statement in [*before, sql]:
            command += ["-c", statement]
        if limit != "none":
            command += ["--memory-limit", limit]
        if out:
            command += ["-o", out]
        process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err, code, peak = finish(process, None, timeout)
    if code != 0:
        # The statistics of statements that went well come first.
        lines = [line for line in err.splitlines() if not line.startswith('{"elapsed_s"')]
        return {"error": "\n".join(lines).strip() or f"killed: {code}", "peak": peak}
    stats = json.loads(err.strip().splitlines()[-1])
    return stats | {"out": out, "peak": max(peak, stats["peak_rss_bytes"])}


def first_row(result):
    return [line.split(" = ", 1)[1] for line in result.get("out", "").splitlines() if " = " in line]


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


def chosen(arguments, otherwise=""):
    """The suite's queries that were asked for by name, or are by default."""
    names = (arguments.names or otherwise).split(",")
    queries = read_queries(arguments.bench, arguments.data, arguments.suite)
    return [query for query in queries if names == [""] or query["name"] in names]


def check_one(arguments, query, known, limit, threads):
    """Ogee's run of a query's check, and what is wrong with the answer, or None."""
    if "tables" not in query:
        result = run_ogee(arguments.ogee, query["check"], limit, threads, arguments.timeout)
        ours = first_row(result)
        good = len(ours) == len(known) and all(map(same, ours, known))
        return result, result.get("error") or (None if good else f"wrong: {ours} instead of {known}")
    sql = suites.text_for("ogee", arguments.suite, query)
    before = [*suites.external_tables(query["tables"]), f"DESCRIBE {sql}"]
    result = run_ogee(arguments.ogee, sql, limit, threads, arguments.timeout, "ndjson", before)
    if "error" in result:
        return result, result["error"]
    problem = suites.difference(known, *suites.parse(result["out"]))
    return result, problem and f"wrong: {problem}"


def check(arguments):
    known = json.loads(pathlib.Path(arguments.answers).read_text())
    wrong = ran = 0
    for limit in arguments.limits.split(","):
        for threads in arguments.threads:
            for query in chosen(arguments):
                result, problem = check_one(arguments, query, known[query["name"]], limit, threads)
                if limit != "none" and result["peak"] > limit_bytes(limit) + (64 << 20):
                    problem = f"{result['peak'] / 1e6:.0f} MB used" + (f"; {problem}" if problem else "")
                ran, wrong = ran + 1, wrong + bool(problem)
                print(f"{query['name']:<11} {limit:>6} {threads:>3} {problem or 'ok'}", flush=True)
    print(f"{ran - wrong} of {ran} are right")
    sys.exit(1 if wrong else 0)


def answers(arguments):
    path = pathlib.Path(arguments.answers)
    known = json.loads(path.read_text()) if path.exists() else {}
    for query in chosen(arguments):
        if query["name"] in known:
            continue
        sql, more = query.get("check"), {}
        if "tables" in query:
            sql, order, limit = suites.split_tail(suites.text_for("duckdb", arguments.suite, query))
            more = {"tables": query["tables"], "whole": {"items": order, "limit": limit}}
        result = run_peer("duckdb", sql, arguments.limit, arguments.threads[0], arguments.timeout, **more)
        if "error" in result:
            sys.exit(f"DuckDB fails on {query['name']}: {result['error']}; give it another --limit")
        known[query["name"]] = result["values"]
        print(f"{query['name']:<11} {result['elapsed_s']:8.2f} s {result['peak'] / 1e6:8.0f} MB", flush=True)
        path.write_text(json.dumps(known, indent=0))
    print(f"{len(known)} answers in {path}")


def race_one(arguments, system, query, known, limit, threads):
    """One run of the timed query."""
    cap = limit_bytes(arguments.memory_cap)
    if "tables" in query:
        sql = suites.text_for(system, arguments.suite, query)
        if system == "ogee":
            before = suites.external_tables(query["tables"])
            return run_ogee(arguments.ogee, sql, limit, threads, arguments.timeout, "csv", before, os.devnull)
        return run_peer(system, sql, limit, threads, arguments.timeout, cap, tables=query["tables"])
    # The last group alone; no LIMIT, which some systems take as leave to stop early. A grouping has as many groups whatever is computed for them.
    groups = known.get(query["name"]) or known[query["name"].split("-")[0] + "-thin"]
    sql = f"{query['sql']} OFFSET {int(groups[0]) - 1}"
    if system == "ogee":
        return run_ogee(arguments.ogee, sql, limit, threads, arguments.timeout)
    return run_peer(system, sql, limit, threads, arguments.timeout, cap)


def race(arguments):
    known = json.loads(pathlib.Path(arguments.answers).read_text())
    queries = chosen(arguments, NAMES.get(arguments.suite, ""))
    systems = arguments.systems.split(",")
    for path in pathlib.Path(arguments.data).rglob("*.parquet"):
        with open(path, "rb") as file:
            while file.read(1 << 24):
                pass
    heads = "".join(f" {system[:11] + ' s':>13} {'MB':>6}" for system in systems)
    print(f"{'query':<11} {'limit':>6} {'thr':>3}{heads} {'spilled MB':>10} {'ratio':>6}")
    out = open(arguments.out, "a") if arguments.out else None
    ratios = {}
    for limit in arguments.limits.split(","):
        for threads in arguments.threads:
            for query in queries:
                results = {system: [] for system in systems}
                for _ in range(arguments.runs):
                    for system, ran in results.items():
                        if ran and "error" in ran[-1]:
                            continue
                        ran.append(race_one(arguments, system, query, known, limit, threads))
                line = f"{query['name']:<11} {limit:>6} {threads:>3}"
                seconds = {}
                for system, ran in results.items():
                    errors = [result["error"] for result in ran if "error" in result]
                    peak = max(result["peak"] for result in ran)
                    if not errors:
                        seconds[system] = statistics.median(result["elapsed_s"] for result in ran)
                    shown = f"{seconds[system]:13.3f}" if system in seconds else f"{errors[0]:>13.13}"
                    line += f" {shown} {peak / 1e6:6.0f}"
                    if out:
                        record = {"suite": arguments.suite, "query": query["name"], "limit": limit, "threads": threads}
                        record |= {"data": arguments.data, "system": system, "seconds": seconds.get(system), "peak_bytes": peak}
                        record |= {"all_seconds": [result.get("elapsed_s") for result in ran]}
                        record |= {"spilled_bytes": max(result.get("spilled_bytes", 0) for result in ran)}
                        print(json.dumps(record | {"error": errors[0] if errors else None}), file=out, flush=True)
                line += f" {max(result.get('spilled_bytes', 0) for result in results[systems[0]]) / 1e6:10.0f}"
                others = [seconds[system] for system in systems[1:] if system in seconds]
                if systems[0] in seconds and others:
                    ratio = seconds[systems[0]] / min(others)
                    ratios.setdefault((limit, threads), []).append(ratio)
                    line += f" {ratio:6.2f}"
                peak = max(result["peak"] for result in results[systems[0]])
                if limit != "none" and peak > limit_bytes(limit) + (64 << 20):
                    line += f"  {systems[0].upper()} BEYOND ITS LIMIT"
                print(line, flush=True)
    for (limit, threads), values in ratios.items():
        mean = math.exp(statistics.fmean(math.log(value) for value in values))
        print(f"limit {limit}, {threads} threads: {systems[0]} took {mean:.3f} of the best other's time, geometric mean over"
              f" {len(values)} queries")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=["answers", "check", "race"])
    parser.add_argument("--suite", default="groupings", help="queries: groupings, h2o, sums, blocking, tpch, tpcds, ssb or job")
    parser.add_argument("--data", required=True, help="directory with the tables, made by `ogee-bench generate`")
    parser.add_argument("--answers", help="file of known answers (default: in the data directory)")
    parser.add_argument("--bench", default="target/release/ogee-bench")
    parser.add_argument("--ogee", default="target/release/ogee")
    parser.add_argument("--limit", default="8GB", help="limit for DuckDB's answers")
    parser.add_argument("--limits", default="none", help="limits of a race, such as none,1GB")
    parser.add_argument("--threads", default="2", type=lambda given: [int(number) for number in given.split(",")])
    parser.add_argument("--runs", default=3, type=int, help="runs of each; the median counts")
    parser.add_argument("--systems", default="ogee,duckdb", help="of a race: ogee, and those that peers.py knows")
    parser.add_argument("--memory-cap", default="16GB", help="memory at which another system is stopped")
    parser.add_argument("--out", help="file to which a race appends its results, a JSON object a line")
    parser.add_argument("--timeout", default=1200, type=float, help="seconds")
    parser.add_argument("--names", help="only these queries, separated by commas")
    arguments = parser.parse_args()
    arguments.answers = arguments.answers or os.path.join(arguments.data, "answers-duckdb.json")
    {"answers": answers, "check": check, "race": race}[arguments.command](arguments)


if __name__ == "__main__":
    main()
