"""Reading a log from an object store, beside the client's own reads of the same bytes and beside the disk.

``python3 benches/python/store.py [--megabytes 1024] [--rounds 3] [--scratch DIR] [--spark]`` writes a log, has the
shared oracle (``../shared/oracle/objects``; Java and Maven) serve it as S3 on loopback by s3proxy, and runs the legs in
turn, each in a process of its own: medians of wall seconds, of the processor seconds of that process, and of the
server's meanwhile. On a machine that does other work compare processor time.

Legs:
  local     kafkalog.scan of the log on the disk, one thread
  raw       obstore's ranges of 8 MiB of the same objects, four at a time, and nothing else
  obstore   kafkalog.scan of the URL, one thread, by obstore
  pyarrow   the same by pyarrow
  lookup    offset_for_timestamp of a time in the middle, with the opening of the partition
  spark 1   with --spark: kafkalog.spark.read with a transform that adds up lengths, on a local-cluster of one executor;
            of a log four times as large, compressed by zstd, so that the executors have more to do than the server
  spark 2   likewise of two
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa

import kafkalog

ORACLE = Path(__file__).resolve().parents[3] / "shared" / "oracle" / "objects"
RECORD = 1000
SEGMENT = 128 << 20

BEFORE = """
import json, os, sys, time
url, options, client, middle = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], int(sys.argv[4])
import pyarrow, obstore, kafkalog
from kafkalog.storage import _clients
_clients._has_obstore = lambda: client != "pyarrow"
given = {"storage_options": options} if options else {}
used = lambda: sum(os.times()[:2])
cpu, begun = used(), time.perf_counter()
"""
AFTER = """
print(json.dumps([found, time.perf_counter() - begun, used() - cpu]))
"""
SCAN = """
reader = kafkalog.scan(url, columns=["offset", "value"], threads=1, **given)
found = sum(batch.num_rows for batch in reader)
"""
RAW = """
from concurrent.futures import ThreadPoolExecutor
bucket, _, prefix = url.removeprefix("s3://").partition("/")
store = obstore.store.S3Store(bucket, config=options, client_options={"allow_http": True})
objects = [each for page in obstore.list(store, prefix=prefix) for each in page if each["path"].endswith(".log")]
step = 8 << 20
ranges = [(each["path"], at, min(each["size"], at + step)) for each in objects for at in range(0, each["size"], step)]
def read(each):
    return len(obstore.get_range(store, each[0], start=each[1], end=each[2]))
with ThreadPoolExecutor(4) as pool:
    found = sum(pool.map(read, ranges))
"""
LOOKUP = """
found = kafkalog.PartitionLog(f"{url}/t-0", **given).offset_for_timestamp(middle).offset
"""
SPARK = """
import json, os, sys, time
url, options, executors = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
from pyspark.sql import SparkSession
import kafkalog.spark
builder = SparkSession.builder.master(f"local-cluster[{executors},1,1024]")
spark = builder.config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
given = {f"storage.{name}": value for name, value in options.items()}
def lengths(batch):
    import pyarrow as pa, pyarrow.compute as pc
    found = pc.sum(pc.binary_length(batch["value"])).as_py()
    return pa.RecordBatch.from_pydict({"rows": [batch.num_rows], "bytes": [found]})
schema = "rows bigint, bytes bigint"
def rows():
    made = kafkalog.spark.read(spark, url, columns=["value"], transform=lengths, schema=schema, **given)
    return made.groupBy().sum().collect()[0][0]
rows()
begun = time.perf_counter()
found = rows()
print(json.dumps([found, time.perf_counter() - begun, 0]))
"""


def write(folder: Path, megabytes: int, values: list[bytes], **config: str) -> int:
    """Write a log of one partition; return the number of records."""
    column, rows, count = pa.array(values, pa.binary()), len(values), 0
    with kafkalog.LogWriter(folder, "t", 0, config=config) as log:
        while count * RECORD < megabytes << 20:
            times = pa.array(range(count, count + rows), pa.timestamp("ms", "UTC"))
            log.append(pa.table({"value": column, "timestamp": times}))
            count += rows
    return count


def texts(count: int) -> list[bytes]:
    """Make JSON of about the length of a record, which compresses as such text does."""
    fields = range(RECORD // 22)
    return [
        json.dumps({f"measured_{n}": row * n * 7919 % 30_011 / 1000 for n in fields}).encode() for row in range(count)
    ]


def used(process: int) -> float:
    """Processor seconds that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def run(code: str, *words: str, secret: str = "") -> list[float]:
    """Run a leg in a process of its own: what it found, wall and processor seconds."""
    environment = {**os.environ, "KAFKALOG_BENCH_SECRET": secret}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *words], check=True, stdout=subprocess.PIPE, env=environment
    )
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Run the legs, and print their medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("--spark", action="store_true")
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="kafkalog-store-", dir=options.scratch))
    server = None
    try:
        segment = {"segment.bytes": str(SEGMENT)}
        records = write(scratch / "all" / "L", options.megabytes, [os.urandom(RECORD)] * 10_000, **segment)
        size = sum(file.stat().st_size for file in (scratch / "all").rglob("*.log"))
        if options.spark:
            segment = {"segment.bytes": str(SEGMENT // 4), "compression.type": "zstd"}
            compressed = write(scratch / "all" / "Z", options.megabytes * 4, texts(10_000), **segment)
        shutil.copytree(ORACLE, scratch / "oracle")
        command = [sys.executable, scratch / "oracle" / "run", "s3", scratch / "all", "--port", str(free_port())]
        server = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
        said = json.loads(server.stdout.readline() if server.stdout else "")
        url, given = f"{said['url']}/L", json.dumps(said["storage_options"])
        by_name = {**said["storage_options"], "aws_secret_access_key": "env:KAFKALOG_BENCH_SECRET"}
        secret = said["storage_options"]["aws_secret_access_key"]
        middle = str(records // 2)
        legs = {
            "local": (BEFORE + SCAN + AFTER, str(scratch / "all" / "L"), "{}", "", middle),
            "raw": (BEFORE + RAW + AFTER, url, given, "", middle),
            "obstore": (BEFORE + SCAN + AFTER, url, given, "obstore", middle),
            "pyarrow": (BEFORE + SCAN + AFTER, url, given, "pyarrow", middle),
            "lookup": (BEFORE + LOOKUP + AFTER, url, given, "obstore", middle),
        }
        wanted = {"raw": size, "lookup": records // 2}
        if options.spark:
            legs |= {f"spark {n}": (SPARK, f"{said['url']}/Z", json.dumps(by_name), str(n)) for n in (1, 2)}
            wanted |= {"spark 1": compressed, "spark 2": compressed}
        times: dict[str, list[list[float]]] = {name: [] for name in legs}
        for _ in range(options.rounds):
            for name, words in legs.items():
                before = used(said["server_pid"])
                found, *taken = run(*words, secret=secret)
                taken.append(used(said["server_pid"]) - before)
                if found != wanted.get(name, records):
                    raise SystemExit(f"{name} found {found}, not {wanted.get(name, records)}")
                times[name].append(taken)
                print(f"{name}: {taken[0]:.2f} s, cpu {taken[1]:.2f} s, server {taken[2]:.2f} s", file=sys.stderr)
        print(f"{size / 1e9:.2f} GB, {records} records, load {os.getloadavg()[0]:.1f}")
        for name, each in times.items():
            wall, cpu, theirs = (statistics.median(column) for column in zip(*each, strict=True))
            speed = f"{size / 1e6 / wall:7.0f} MB/s" if name in {"local", "raw", "obstore", "pyarrow"} else ""
            print(f"{name:10} wall {wall:6.2f} s  cpu {cpu:6.2f} s  server {theirs:6.2f} s  {speed}")
    finally:
        if server is not None:
            server.terminate()
            server.communicate(timeout=30)
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
