"""The main job, from a clone to rows: install kafkalog, export a real broker's log dirs on Spark, look at the result.

Needs Python >= 3.10, Rust and Java 17. ``--python`` names an environment that has kafkalog already; without it one is
made in ``.venv`` and kafkalog is built into it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BROKER = ROOT / "tests" / "golden" / "clean-restarts"
RECORDS = {"events": 1760, "ledger": 907, "orders": 880, "state": 120}

SHOW = """
import sys
import pyarrow.compute as pc
import pyarrow.dataset as ds

out, expected = sys.argv[1], dict(pair.split("=") for pair in sys.argv[2:])
table = ds.dataset(out, format="parquet", partitioning="hive").to_table()
counted = {g["topic"]: g["offset_count"] for g in table.group_by("topic").aggregate([("offset", "count")]).to_pylist()}
files = len(ds.dataset(out, format="parquet").files)
print(f"{table.num_rows} records in {files} Parquet file{'s' if files != 1 else ''}:",
      ", ".join(f"{topic} {n}" for topic, n in sorted(counted.items())))
rows = table.sort_by([("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")])
head = f"{'topic':8} {'part.':>5} {'offset':>6}  {'timestamp':23}  {'key':10}  value"
print(head)
print("-" * 100)
for topic in sorted(counted):
    for row in rows.filter(pc.equal(rows["topic"], topic)).slice(0, 3).to_pylist():
        text = {n: "null" if row[n] is None else row[n].decode("utf-8", "backslashreplace") for n in ("key", "value")}
        stamp = f"{row['timestamp']:%Y-%m-%d %H:%M:%S.%f}"[:23]
        print(f"{topic:8} {row['partition']:5} {row['offset']:6}  {stamp}  {text['key'][:10]:10}  {text['value'][:38]}")
wanted = {topic: int(n) for topic, n in expected.items()}
if counted != wanted:
    sys.exit(f"expected {wanted}")
"""


def environment() -> Path:
    """Make ``.venv`` where there is none, build kafkalog into it, and give its interpreter."""
    home = ROOT / ".venv"
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{ROOT}[spark]"]
    subprocess.run(install, check=True, env={**os.environ, "CARGO_TARGET_DIR": str(ROOT / "target")})
    return python


def say(text: str) -> None:
    """Print at once."""
    print(text, flush=True)


def main() -> int:
    """Install, export, show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--python", help="an interpreter whose environment has kafkalog[spark]")
    parser.add_argument("--out", help="where the Parquet files go; out/ by default, replaced")
    args = parser.parse_args()
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        say("Spark needs Java 17: install it, or set JAVA_HOME")
        return 1
    begun = time.monotonic()
    if args.python:
        python = Path(args.python)
    else:
        say("installing kafkalog into .venv (the first build takes a few minutes)")
        python = environment()
    out = Path(args.out) if args.out else ROOT / "out" / "clean-restarts"
    if out.exists():
        shutil.rmtree(out)
    log_dirs = [str(BROKER / "data-0"), str(BROKER / "data-1")]
    say(f"exporting {BROKER.relative_to(ROOT)} through Spark local[*] to {out}")
    started = time.monotonic()
    command = [str(python), "-m", "kafkalog", "export", *log_dirs, str(out), "--spark", "local[*]"]
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(command, check=False, stdout=said, stderr=said)
        if done.returncode != 0:
            said.seek(0)
            sys.stderr.buffer.write(said.read())
            return done.returncode
    say(f"exported in {time.monotonic() - started:.1f} s, Spark's start included")
    counts = [f"{topic}={n}" for topic, n in RECORDS.items()]
    shown = subprocess.run([str(python), "-c", SHOW, str(out), *counts], check=False)
    say(f"done in {time.monotonic() - begun:.0f} s")
    return shown.returncode


if __name__ == "__main__":
    sys.exit(main())
