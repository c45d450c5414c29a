"""Files by URL, against servers that this starts: an S3 of moto's, and servers of the web with and without parts of files.

    remote.py --shell target/debug/ogee
"""

import argparse
import contextlib
import functools
import http.server
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

import boto3
from moto.server import ThreadedMotoServer

KEY, SECRET = "AKIAEXAMPLE", "very-secret-words"


class Files(http.server.SimpleHTTPRequestHandler):
    """Serves a directory, also parts of its files."""

    has_parts = True

    def log_message(self, *_):
        pass

    def send_head(self):
        path = pathlib.Path(self.translate_path(self.path))
        if self.path.startswith("/signed") and "sig=a/b%2Fc" not in self.path:
            self.send_error(403)
            return None
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not (self.has_parts and wanted and path.is_file()):
            return super().send_head()
        size = path.stat().st_size
        first, last = int(wanted[1]), min(int(wanted[2]), size - 1)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.send_header("Content-Length", str(last - first + 1))
        self.send_header("Last-Modified", self.date_time_string(path.stat().st_mtime))
        self.end_headers()
        file = path.open("rb")
        file.seek(first)
        self.left = last - first + 1
        return file

    def copyfile(self, source, output):
        left = getattr(self, "left", None)
        output.write(source.read() if left is None else source.read(left))
        self.left = None


class Whole(Files):
    has_parts = False


@contextlib.contextmanager
def web(handler, directory):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=directory))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@contextlib.contextmanager
def silent():
    """A server that takes connections and never says a word."""
    server = socket.create_server(("127.0.0.1", 0))
    yield f"http://127.0.0.1:{server.getsockname()[1]}"
    server.close()


class Shell:
    def __init__(self, path, env):
        self.path, self.env = path, {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | env

    def run(self, sql, **env):
        command = [self.path, "--format", "csv", "-c", sql]
        done = subprocess.run(command, env=self.env | env, capture_output=True, text=True, timeout=120)
        return done.stdout, done.stderr



failures = 0


def check(shell, sql, expected=None, error=(), **env):
    """The statement gives the rows, or fails with an error that has all of the texts, and never tells the secret."""
    global failures
    out, err = shell.run(sql, **env)
    rows = [line for line in out.splitlines() if line][1:]
    wrong = SECRET in out + err or "internal error" in err
    wrong |= rows != expected or bool(err) if expected is not None else not err or not all(text in err for text in error)
    if wrong:
        failures += 1
        print(f"FAILED {sql}\n  expected {expected if expected is not None else error}\n  rows {rows}\n  error {err.strip()}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shell", default="target/debug/ogee")
    shell_path = os.path.abspath(parser.parse_args().shell)
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    known = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
    shell = Shell(shell_path, known | {"AWS_ENDPOINT_URL": endpoint})
    s3 = boto3.client("s3", endpoint_url=endpoint, aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name="us-east-1")
    s3.create_bucket(Bucket="bucket")
    with tempfile.TemporaryDirectory() as directory, web(Files, directory) as url, web(Whole, directory) as whole, silent() as mute:
        for part in (1, 2):
            rows = f"SELECT i, i % 7 AS k, 'text ' || i AS t FROM range({part * 1000}) AS r(i)"
            for ending in ("parquet", "csv", "json"):
                shell.run(f"COPY ({rows}) TO '{directory}/{part}.{ending}'")
        shell.run(f"COPY (SELECT 1 AS a) TO '{directory}/signed.parquet'")
        shell.run(f"COPY (SELECT 1 AS a) TO '{directory}/a b.csv.gz' (FORMAT csv, COMPRESSION gzip)")
        for path in pathlib.Path(directory).iterdir():
            for place in ("", "d/k=1/" if path.name.startswith("1") else "d/k=2/"):
                s3.put_object(Bucket="bucket", Key=place + path.name, Body=path.read_bytes())

        for base in (url, "s3://bucket"):
            for ending in ("parquet", "csv", "json"):
                check(shell, f"SELECT count(*), sum(i), max(t) FROM '{base}/1.{ending}'", ["1000,499500,text 999"])
                check(shell, f"SELECT i, t FROM '{base}/2.{ending}' WHERE i = 1234", ["1234,text 1234"])
            check(shell, f"SELECT count(*) FROM read_csv('{base}/1.csv', header = true)", ["1000"])
            check(shell, f"SELECT count(*) FROM read_parquet(['{base}/1.parquet', '{base}/2.parquet'])", ["3000"])
            check(shell, f"SELECT a FROM '{base}/a b.csv.gz'", ["1"])
            check(shell, f"SELECT \"Delimiter\" FROM sniff_csv('{base}/1.csv')", ['","'])
            check(shell, f"CREATE VIEW v AS FROM '{base}/1.parquet'; SELECT count(*) FROM v", ["1000"])
            check(shell, f"FROM '{base}/none.parquet'", error=("none.parquet", "no"))
            check(shell, f"SET enable_external_access = false; FROM '{base}/1.csv'", error=("enable_external_access",))
            check(shell, f"SELECT count(*) FROM '{base}/1.csv' AS a JOIN '{base}/2.parquet' AS b USING (i)", ["1000"])

        check(shell, "SELECT count(*) FROM 's3://bucket/*.parquet' WHERE false", ["0"])
        check(shell, "SELECT count(*) FROM 's3://bucket/[12].parquet'", ["3000"])
        check(shell, "SELECT count(*) FROM 's3://bucket/d/**/[12].csv'", ["3000"])
        check(shell, "SELECT sum(k) FROM read_csv('s3://bucket/d/*/1.csv')", ["1000"])
        check(shell, "SELECT count(*) FROM glob('s3://bucket/d/*/*.json')", ["2"])
        check(shell, "FROM 's3://nowhere/x.parquet'", error=("nowhere", "bucket"))
        check(shell, "FROM 's3://nowhere/*.parquet'", error=("nowhere", "bucket"))
        check(shell, f"SELECT a FROM '{url}/signed.parquet?sig=a/b%2Fc'", ["1"])
        check(shell, f"SELECT a FROM '{url}/signed.parquet?sig={SECRET}'", error=("denies access", "/signed.parquet"))
        check(shell, f"SELECT count(*) FROM '{whole}/1.csv'", ["1000"])
        check(shell, f"FROM '{whole}/1.parquet'", error=("no parts of files", "1.parquet"))
        check(shell, f"FROM '{url}/*.csv'", error=("list no files",))
        check(shell, "FROM 'http://127.0.0.1:9/x.csv'", error=("http://127.0.0.1:9/x.csv",))
        check(shell, "FROM 'https://no.such.host.invalid/x.csv'", error=("no.such.host.invalid", "no network"))
        check(shell, f"FROM ['s3://bucket/1.csv', '{directory}/1.csv']", error=("",))

        # Ctrl-C is heard while a server is silent.
        waiting = subprocess.Popen([shell_path, "-c", f"FROM '{mute}/x.csv'"], stderr=subprocess.PIPE, text=True)
        time.sleep(1)
        begun = time.monotonic()
        waiting.send_signal(2)
        waiting.communicate(timeout=30)
        if time.monotonic() - begun > 5:
            print("FAILED Ctrl-C was not heard")
            sys.exit(1)
    moto.stop()
    print("remote: all good" if failures == 0 else f"remote: {failures} failed")
    sys.exit(failures != 0)


main()
