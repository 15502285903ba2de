"""Build the wheel that users download, audit it, and use it where nothing can be compiled.

Usage: ``python3 tests/wheel.py [WHEEL]``; with a wheel, that one instead of a new build. Needs Linux on x86-64, Rust,
Java 17 and Python; maturin, zig and the auditors come from PyPI. ``--only TARGET`` builds for another target, as
``aarch64-unknown-linux-musl``, or the ``sdist``, and stops there.

The wheel is built against the C library of manylinux2014 (glibc 2.17, by zig's linker) and CPython's stable ABI, so one
file serves every Python from 3.10 on. It must be as auditwheel and abi3audit want it, and smaller than 6 MB. Then the
oldest and the newest Python of this machine install it into new environments and run `USE`: a read, Spark's data source
and a `mapInArrow` job.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from clone import ROOT, TARGET, answer, fresh, new_venv, pip_install, python_of, run, the_wheel
from steps import FailedError

HOME = TARGET / "wheel"
BUILT = HOME / "built"
POLICY = "manylinux_2_17_x86_64"
MOST_BYTES = 6_000_000
TOOLS = ("maturin>=1.9.4,<2", "ziglang", "auditwheel", "abi3audit")
VERSIONS = [(3, minor) for minor in range(10, 20)]
DATA = ROOT / "tests" / "golden" / "clean-restarts" / "data-1"

# `mapInArrow` calls kafkalog on the executors as a user's function does.
USE = """
import sys
import kafkalog
import pyarrow as pa
from pyspark.sql import SparkSession

path = sys.argv[1]
expected = kafkalog.read_table(path, topics="orders").num_rows
assert expected > 0 and kafkalog.read_table(path, topics="orders").to_pandas().head().shape[0] == 5

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
frame = spark.read.format("kafkalog").option("subscribe", "orders").load(path)
counted = {"read_table": expected, "data source": frame.count()}

def rows(batches):
    for batch in batches:
        for partition in batch["partition"].to_pylist():
            with kafkalog.scan(path, topics="orders", partitions=[partition], columns=["offset"]) as reader:
                yield from (pa.RecordBatch.from_pydict({"n": [each.num_rows]}) for each in reader)

partitions = frame.select("partition").distinct()
counted["mapInArrow"] = partitions.mapInArrow(rows, "n long").groupBy().sum("n").first()[0]
counted["kafkalog.spark.read"] = kafkalog.spark.read(spark, path, subscribe="orders").count()
spark.stop()
print(f"Python {sys.version.split()[0]}, PySpark {sys.modules['pyspark'].__version__}: {counted}")
sys.exit(len(set(counted.values())) != 1)
"""


def tools() -> Path:
    """Return the interpreter of an environment with the tools."""
    python = new_venv(HOME / "tools")
    pip_install(python, *TOOLS)
    return python


def build(target: str) -> None:
    """Build the wheel for a target of Rust's, or the sdist. On Linux zig links it, against old or foreign libraries."""
    maturin = (tools(), "-m", "maturin")
    if target == "sdist":
        run(*maturin, "sdist", "--out", fresh(BUILT))
        return
    if answer("rustup", "--version"):
        run("rustup", "target", "add", target)
    policy = "musllinux_1_2" if target.endswith("-musl") else "manylinux2014"
    linked = ("--zig", "--compatibility", policy) if "-linux-" in target else ()
    built = ("build", "--locked", "--release", "--compression-level", "9", "--target", target, *linked)
    # maturin asks the python3 of the PATH for zig.
    path = os.pathsep.join([str(tools().parent), os.environ["PATH"]])
    run(*maturin, *built, "--out", fresh(BUILT), PATH=path)


def audit(wheel: Path) -> None:
    """Ask the auditors of PyPA and of the stable ABI, and weigh the wheel."""
    python = tools()
    shown = subprocess.run([python, "-m", "auditwheel", "show", wheel], capture_output=True, text=True, check=True)
    print(shown.stdout.strip())
    # It wraps lines.
    if f'following platform tag: "{POLICY}"' not in " ".join(shown.stdout.split()):
        raise FailedError(f"auditwheel does not find {wheel.name} to be {POLICY}")
    run(python, "-m", "abi3audit", "--strict", "--summary", wheel)
    with zipfile.ZipFile(wheel) as files:
        largest = max(files.infolist(), key=lambda each: each.file_size)
    size = wheel.stat().st_size
    print(f"{wheel.name}: {size:,} bytes; unpacked, {largest.filename} has {largest.file_size:,}")
    if size >= MOST_BYTES:
        raise FailedError(f"the wheel has {size:,} bytes, which is not less than {MOST_BYTES:,}")


def pythons() -> list[str]:
    """Return the oldest and the newest Python here that the wheel serves: of the PATH, and those that pyenv keeps."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    path = os.pathsep.join([os.environ["PATH"], *map(str, sorted(kept.glob("*/bin")))])
    found = []
    for major, minor in VERSIONS:
        for folder in path.split(os.pathsep):
            python = Path(folder) / f"python{major}.{minor}"
            # pyenv puts names on the PATH that it does not serve.
            if python.exists() and subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0:
                found.append(str(python))
                break
    return [found[0], *found[1:][-1:]]


def use(wheel: Path, python: str) -> None:
    """Install the wheel into a new environment, where no compiler is found, and use it."""
    home = fresh(HOME / Path(python).name)
    # Packages that have no wheel, as PySpark, are pure Python: a compiler that is asked ends the installation.
    nothing = dict.fromkeys(("CARGO", "RUSTC", "CC", "CXX"), "/bin/false")
    pip_install(new_venv(home, python), f"{wheel}[spark]", **nothing)
    script = home / "use.py"
    script.write_text(USE, encoding="utf-8")
    here = python_of(home)
    # From elsewhere, so that the clone's own package is not found.
    done = subprocess.run(
        [here, "-W", "ignore", script, DATA], cwd=home, env={**os.environ, "PYSPARK_PYTHON": str(here)}, check=False
    )
    if done.returncode != 0:
        raise FailedError(f"{here}: what the wheel reads is not the same everywhere")


def main(words: list[str]) -> int:
    """Build, audit, install and use."""
    try:
        if words[:1] == ["--only"]:
            build(words[1])
            return 0
        if not words:
            build("x86_64-unknown-linux-gnu")
        wheel = Path(words[0]).resolve() if words else the_wheel(BUILT)
        audit(wheel)
        for python in pythons():
            use(wheel, python)
    except (FailedError, OSError, subprocess.SubprocessError) as error:
        print(f"FAILED: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
