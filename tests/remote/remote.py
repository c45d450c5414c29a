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


def secrets(shell, host, port):
    """Secrets open files where the environment says nothing; that of the longest scope does."""
    place = f"ENDPOINT '{host}:{port}', URL_STYLE path, USE_SSL false, REGION 'us-east-1'"
    secret = f"CREATE SECRET s (TYPE s3, KEY_ID '{KEY}', SECRET '{SECRET}', {place})"
    count = "SELECT count(*) FROM 's3://bucket/1.parquet'"
    check(shell, f"{secret}; {count}", ["1000"])
    check(shell, f"{secret}; {count}; DROP SECRET s; {count}", error=("1.parquet",), AWS_ENDPOINT_URL="http://127.0.0.1:9", AWS_REGION="x")
    check(shell, f"{secret}; CREATE SECRET near (TYPE s3, ENDPOINT '127.0.0.1:9', USE_SSL false, SCOPE 's3://bucket/1'); {count}", error=("1.parquet",))
    check(shell, f"{secret}; CREATE SECRET other (TYPE s3, ENDPOINT '127.0.0.1:9', SCOPE ['s3://other', 's3://bucket/d']); {count}", ["1000"])
    check(shell, f"{secret}; SELECT name FROM which_secret('s3://bucket/1.parquet', 's3')", ["s"])
    check(shell, f"{secret}; SELECT secret_string LIKE '%secret=redacted%' FROM duckdb_secrets()", ["true"])
    check(shell, f"CREATE PERSISTENT SECRET s (TYPE s3, KEY_ID 'a', SECRET '{SECRET}')", error=("PERSISTENT",))
    for wrong in (f"CREATE SECRET s (TYPE s3, KEY_ID 'a' SECRET '{SECRET}')", f"CREATE SECRET s (TYPE s3, SECRET '{SECRET}", f"EXPLAIN {secret}", f"PREPARE p AS {secret}"):
        check(shell, wrong, error=("Error",))


def copies(shell, s3, url):
    """COPY writes where files are read."""
    def keys(prefix):
        return sorted(found["Key"] for found in s3.list_objects_v2(Bucket="bucket", Prefix=prefix).get("Contents", []))

    def are(prefix, expected):
        global failures
        if keys(prefix) != expected:
            failures += 1
            print(f"FAILED {prefix}: {keys(prefix)}, not {expected}")

    rows = "SELECT i, i % 3 AS k, 'text ' || i AS t FROM range(1000) AS r(i)"
    for ending in ("parquet", "csv", "json", "csv.gz"):
        check(shell, f"COPY ({rows}) TO 's3://bucket/w/one.{ending}'; SELECT count(*), sum(i), max(t) FROM 's3://bucket/w/one.{ending}'", ["1000,499500,text 999"])
    check(shell, f"COPY ({rows}) TO 's3://bucket/w/a b+c.json' (ARRAY true); SELECT count(*) FROM 's3://bucket/w/a b+c.json'", ["1000"])
    check(shell, f"COPY ({rows}) TO 's3://bucket/w/plain' (FORMAT csv); SELECT count(*) FROM read_csv('s3://bucket/w/plain')", ["1000"])
    check(shell, f"COPY ({rows}) TO 's3://bucket/h' (FORMAT parquet, PARTITION_BY (k)); SELECT k, count(*), sum(i) FROM 's3://bucket/h/*/*.parquet' GROUP BY k ORDER BY k", ["0,334,166833", "1,333,166167", "2,333,166500"])
    are("h/", ["h/k=0/data_0.parquet", "h/k=1/data_0.parquet", "h/k=2/data_0.parquet"])
    check(shell, f"COPY ({rows}) TO 's3://bucket/h' (FORMAT parquet, PARTITION_BY (k))", error=("not empty", "OVERWRITE_OR_IGNORE"))
    check(shell, f"COPY ({rows}) TO 's3://bucket/h' (FORMAT parquet, PARTITION_BY (k), OVERWRITE)", error=("not removed",))
    check(shell, f"COPY ({rows}) TO 's3://bucket/h' (FORMAT parquet, PARTITION_BY (k), OVERWRITE_OR_IGNORE); SELECT count(*) FROM 's3://bucket/h/*/*.parquet'", ["1000"])
    check(shell, f"COPY ({rows}) TO 's3://bucket/h' (FORMAT parquet, PARTITION_BY (k), APPEND); SELECT count(*) FROM 's3://bucket/h/*/*.parquet'", ["2000"])
    check(shell, f"COPY ({rows}) TO 's3://bucket/f.csv' (RETURN_FILES true)", ["1000,['s3://bucket/f.csv']"])
    # Of more than one part, with little memory; and of one that fails, or nothing is left.
    many = "SELECT i, hash(i) AS h, md5(i::VARCHAR) AS t FROM range(2000000) AS r(i)"
    check(shell, f"SET memory_limit = '256MB'; COPY ({many}) TO 's3://bucket/w/many.parquet'; SELECT count(*), sum(i) FROM 's3://bucket/w/many.parquet'", ["2000000,1999999000000"])
    check(shell, f"SET memory_limit = '256MB'; COPY ({many}) TO 's3://bucket/w/many.csv'; SELECT count(*), sum(i) FROM 's3://bucket/w/many.csv'", ["2000000,1999999000000"])
    check(shell, "COPY (SELECT i, error('stop') FROM range(10) AS r(i)) TO 's3://bucket/fails/x.csv'", error=("stop",))
    check(shell, "COPY (SELECT i, if(i = 1900000, error('stop'), md5(i::VARCHAR)) FROM range(2000000) AS r(i)) TO 's3://bucket/fails/y.csv'", error=("stop",))
    are("fails/", [])
    uploads = s3.list_multipart_uploads(Bucket="bucket").get("Uploads", [])
    global failures
    if uploads:
        failures += 1
        print(f"FAILED parts are left: {uploads}")
    check(shell, f"COPY ({rows}) TO 's3://nowhere/x.csv'", error=("nowhere",))
    check(shell, f"COPY ({rows}) TO '{url}/x.csv'", error=("take no files",))
    check(shell, f"COPY ({rows}) TO 's3://bucket'", error=("names no file",))
    check(shell, f"SET enable_external_access = false; COPY ({rows}) TO 's3://bucket/x.csv'", error=("enable_external_access",))


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

        secrets(Shell(shell_path, {}), host, port)
        copies(shell, s3, url)

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
