"""Damaged files as users meet them: Arrow, CSV, JSON, and Parquet by its footer, mutated and read by a shell at a small memory limit.

A file gives rows, or an error that is about it. It is wrong if the shell ends otherwise, finds a bug in itself, takes longer than ten seconds, or
more memory than the limit and 64 MiB. Files that are left as they were written have the rows that were written.

Pages of Parquet files are `ogee-bench fuzz`'s.
"""

import argparse
import collections
import datetime
import gzip
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import threading
import time

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

PATIENCE = 10
LIMIT = 128_000_000
MOST = LIMIT + (64 << 20)
# Of so many files one is left as it was written.
WHOLE = 40
# Errors that are bugs of the engine.
BUGS = ("OGEE_Q008", "panicked", "internal error", "stack overflow")
ROWS = 200


def table():
    """A column of each kind that files have; `i` numbers the rows."""
    rows = range(ROWS)
    day = datetime.date(2024, 1, 1)
    return pa.table(
        {
            "i": pa.array(rows, pa.int64()),
            "s": pa.array([None if i % 9 == 0 else f"text number {i}" for i in rows]),
            "v": pa.array([f"a view that is long enough {i}" for i in rows], pa.string_view()),
            "l": pa.array([list(range(i % 5)) for i in rows], pa.list_(pa.int32())),
            "st": pa.array([None if i % 7 == 0 else {"a": i, "b": str(i)} for i in rows]),
            "d": pa.array([["one", "two", "three"][i % 3] for i in rows]).dictionary_encode(),
            "b": pa.array([i % 2 == 0 for i in rows]),
            "dc": pa.array(list(rows), pa.decimal128(9, 2)),
            "ls": pa.array([[f"x{j}" for j in range(i % 3)] for i in rows], pa.large_list(pa.string())),
            "m": pa.array([[("k", i)] for i in rows], pa.map_(pa.string(), pa.int32())),
            "fb": pa.array([b"abcd"] * ROWS, pa.binary(4)),
            "t": pa.array([i * 1000 for i in rows], pa.timestamp("us")),
            "da": pa.array([day + datetime.timedelta(i) for i in rows]),
            "f": pa.array([i / 3 for i in rows]),
            "n": pa.nulls(ROWS),
        }
    )


def arrow(rng, rows):
    sink = pa.BufferOutputStream()
    new = rng.choice([pa.ipc.new_file, pa.ipc.new_stream])
    options = pa.ipc.IpcWriteOptions(compression=rng.choice([None, "lz4", "zstd"]))
    with new(sink, rows.schema, options=options) as writer:
        writer.write_table(rows, max_chunksize=rng.choice([10, 90, ROWS]))
    return sink.getvalue().to_pybytes(), "arrow"


def parquet(rng, rows):
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(
        rows.drop_columns(["n", "v"]),
        sink,
        compression=rng.choice(["none", "snappy", "zstd", "gzip"]),
        row_group_size=rng.choice([30, ROWS]),
        write_page_index=rng.random() < 0.5,
        data_page_version=rng.choice(["1.0", "2.0"]),
    )
    return sink.getvalue().to_pybytes(), "parquet"


def packed(rng, text, name):
    return (gzip.compress(text), f"{name}.gz") if rng.random() < 0.2 else (text, name)


def csv(rng, rows):
    delimiter = rng.choice(",;\t|")
    lines = [delimiter.join(["i", "s", "da", "f", "b"])]
    for row in rows.select(["i", "s", "da", "f", "b"]).to_pylist():
        text = "" if row["s"] is None else '"' + row["s"] + rng.choice(["", delimiter, '""', "\n", " "]) + '"'
        lines.append(delimiter.join([str(row["i"]), text, str(row["da"]), repr(row["f"]), str(row["b"]).lower()]))
    return packed(rng, (rng.choice(["\n", "\r\n"]).join(lines) + "\n").encode(), "csv")


def ndjson(rng, rows):
    values = []
    for row in rows.select(["i", "s", "l", "st", "b", "f"]).to_pylist():
        if rng.random() < 0.1:
            row = dict(reversed(row.items()))
        values.append(json.dumps(row, ensure_ascii=rng.random() < 0.5))
    text = "[" + ",\n".join(values) + "]" if rng.random() < 0.3 else "\n".join(values)
    return packed(rng, text.encode(), "ndjson")


KINDS = {"arrow": arrow, "parquet": parquet, "csv": csv, "ndjson": ndjson}
NUMBERS = [-1, 0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, -(2**31), -(2**63), 1000, 10**6]
TEXTS = [b'"', b'""', b"\n", b"\r", b",", b";", b"\\", b"{", b"}", b"[", b"]", b":", b"\0", b"\xff", b"\xef\xbb\xbf", b"1e999", b"-", b"null", b"\\u", b"\\ud800", b"'", b"#", b" "]


def places(data, kind):
    """Where a mutation begins is drawn from these: what describes the rest is short, and more is wrong with it."""
    if kind == "parquet":
        footer = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
        return [range(footer, len(data))] * 9 + [range(len(data))]
    if kind == "arrow":
        heads = [at for at in range(0, len(data) - 8, 8) if data[at : at + 4] == b"\xff\xff\xff\xff"]
        ends = range(max(0, len(data) - 1200), len(data))
        return [ends] * 3 + [range(at, min(len(data), at + 900)) for at in heads[:5]] + [range(len(data))] * 2
    return [range(len(data))]


def mutated(rng, data, kind):
    found = places(data, kind)
    footer = len(data) - found[0].start
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        within = rng.choice(found)
        at = min(rng.choice(within), len(data) - 1)
        what = rng.random()
        if kind in ("csv", "ndjson") and what < 0.5:
            text = rng.choice(TEXTS) * rng.choice([1, 1, 1, 2, 1000, 200_000])
            data[at : at + rng.choice([0, 0, 1, 5])] = text
        elif what < 0.25:
            data[at] = rng.randrange(256)
        elif what < 0.45:
            data[at] ^= 1 << rng.randrange(8)
        elif what < 0.6:
            at &= ~7
            data[at : at + 8] = struct.pack("<q", rng.choice(NUMBERS))
        elif what < 0.75:
            at &= ~3
            data[at : at + 4] = struct.pack("<I", rng.choice(NUMBERS) & 0xFFFFFFFF)
        elif what < 0.85:
            data[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
        elif what < 0.9:
            del data[at : at + rng.randrange(1, 20)]
        elif what < 0.95:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 20)))
        else:
            del data[at:]
        if not data:
            break
    if kind == "parquet" and len(data) > 16 and data[-4:] == b"PAR1" and rng.random() < 0.8:
        # Nothing else is looked at where the footer is not.
        data[-8:-4] = struct.pack("<I", max(0, footer - 8))
    return bytes(data)


def file(seed, kinds, rows):
    """The file of `seed`: its kind, its bytes, the end of its name, and whether it is whole."""
    rng = random.Random(seed)
    kind = rng.choice(kinds)
    data, name = KINDS[kind](rng, rows)
    if rng.randrange(WHOLE) == 0:
        return kind, data, name, True
    if name.endswith(".gz") and rng.random() < 0.7:
        return kind, gzip.compress(mutated(rng, gzip.decompress(data), kind)), name, False
    return kind, mutated(rng, data, kind), name, False


class Shell:
    """A shell that is asked many statements. It ends at an error."""

    def __init__(self, path):
        self.command = [path, "--no-init", "--memory-limit", str(LIMIT), "--threads", "2", "--format", "csv"]
        self.process = None

    def ask(self, sql):
        """Lines and `None`, or what is wrong; the error of the statement, if it is one of the file."""
        if self.process is None:
            self.errors = tempfile.TemporaryFile("w+", errors="replace")
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)
        process, lines = self.process, []
        timed_out = []

        def kill():
            timed_out.append(True)
            process.kill()

        guard = threading.Timer(PATIENCE, kill)
        guard.start()
        try:
            process.stdin.write(f"{sql};\nSELECT 'the end of an answer';\n".encode())
            process.stdin.flush()
        except BrokenPipeError:
            pass
        ended = True
        for line in process.stdout:
            if line == b"the end of an answer\n":
                ended = False
                break
            lines.append(line)
        peak = self.peak() if not ended else None
        if ended:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            peak = usage.ru_maxrss << 10
            self.process = None
        guard.cancel()
        if timed_out:
            return lines, None, f"more than {PATIENCE} seconds"
        if peak is not None and peak > MOST:
            self.close()
            return lines, None, f"{peak >> 20} MiB of memory"
        if not ended:
            return lines, None, None
        self.errors.seek(0)
        error = self.errors.read()
        if process.returncode != 1 or any(bug in error for bug in BUGS) or "Error [OGEE_" not in error:
            return lines, None, f"exit code {process.returncode}: {error.strip()[:1000]}"
        return lines, error.strip(), None

    def peak(self):
        try:
            with open(f"/proc/{self.process.pid}/status") as status:
                return next((int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM:")), None)
        except FileNotFoundError:
            return None

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def statement(rng, path):
    return rng.choice(
        [
            f"SELECT * FROM '{path}'",
            f"SELECT * FROM '{path}'",
            f"SELECT count(*) FROM '{path}'",
            f"SELECT i, s FROM '{path}' WHERE i > 5 ORDER BY s, i",
        ]
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shell", default="target/debug/ogee", help="the ogee binary")
    parser.add_argument("--seed", type=int, default=1, help="of the first file; the seeds follow one another")
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=60, help="start no file after this long")
    parser.add_argument("--kinds", default=",".join(KINDS), help="with commas between")
    parser.add_argument("--keep", type=pathlib.Path, default=pathlib.Path("fuzz-found"), help="where files are kept that something is wrong with")
    arguments = parser.parse_args()
    kinds, rows, shell = arguments.kinds.split(","), table(), Shell(arguments.shell)
    begun, counts, wrong = time.monotonic(), collections.Counter(), 0
    with tempfile.TemporaryDirectory() as directory:
        for seed in range(arguments.seed, arguments.seed + arguments.files):
            if time.monotonic() - begun > arguments.seconds:
                break
            kind, data, name, is_whole = file(seed, kinds, rows)
            path = pathlib.Path(directory, f"{seed}.{name}")
            path.write_bytes(data)
            sql = f"SELECT i FROM '{path}' ORDER BY i" if is_whole else statement(random.Random(seed), path)
            lines, error, bug = shell.ask(sql)
            path.unlink()
            if is_whole and bug is None:
                expected = [b"i"] + [str(i).encode() for i in range(ROWS)]
                if error is not None or [line.rstrip() for line in lines[:-1]] != expected:
                    bug = f"a file that is whole: {error or lines[:3]}"
            counts[kind, "read" if error is None else "refused"] += 1
            if bug is not None:
                wrong += 1
                arguments.keep.mkdir(parents=True, exist_ok=True)
                arguments.keep.joinpath(f"{seed}.{name}").write_bytes(data)
                print(f"seed {seed}, {name}: {sql}\n    {bug}", flush=True)
    shell.close()
    for kind in kinds:
        print(f"{kind:8} {counts[kind, 'read']:6} read, {counts[kind, 'refused']:6} refused")
    print(f"files: {sum(counts.values())} from seed {arguments.seed} on in {time.monotonic() - begun:.0f} s, {wrong} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
