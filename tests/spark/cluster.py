"""A standalone cluster on loopback, from the pip package of pyspark, and the commands of the guide ``cluster``.

The package has no ``start-master.sh``; what the script would run is run here.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack
from json import loads
from pathlib import Path
from typing import TYPE_CHECKING

import documents
from interop.broker import held_ports
from interop.maven import SHORT_LIVED_JVM

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60
WORKERS = 2


def spark_home() -> Path:
    """Return the folder of the installed pyspark, which is a complete Spark."""
    import pyspark

    return Path(pyspark.__file__).parent


def wheel(into: Path) -> Path:
    """Return the wheel of this tree: the one that tests/run.py built, or one built here."""
    if named := os.environ.get("KAFKALOG_WHEEL"):
        return Path(named)
    build = [sys.executable, "-m", "maturin", "build", "--quiet", "--release", "--locked", "--out", str(into)]
    subprocess.run([*build, "--interpreter", sys.executable], check=True, cwd=ROOT)
    return next(into.glob("*.whl"))


def guide_commands() -> str:
    """Return the commands of the guide ``cluster``."""
    (found,) = documents.blocks("cluster", "sh")
    return found


class Cluster:
    """A master and its workers, one core each; their folders are ``worker-0`` and so on below ``home``."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._started = ExitStack()
        self.port, self.web = self._started.enter_context(held_ports(2))
        # Nothing of the environment that runs the tests reaches the cluster.
        ours = ("PYTHON", "PYSPARK", "SPARK_SUBMIT")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        self.environment = {**kept, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(spark_home())}
        self.environment |= {"SPARK_DAEMON_MEMORY": "256m", "SPARK_CONF_DIR": str(home / "conf")}
        # Python compiles what is imported; pip would compile all of pandas.
        self.environment["PIP_NO_COMPILE"] = "1"
        flags = " ".join(SHORT_LIVED_JVM)
        self.environment["SPARK_DAEMON_JAVA_OPTS"] = flags
        (home / "conf").mkdir()
        settings = ["driver.host 127.0.0.1", "driver.memory 600m", "executor.memory 600m", "ui.enabled false"]
        settings += [f"{process}.defaultJavaOptions {flags}" for process in ("driver", "executor")]
        (home / "conf" / "spark-defaults.conf").write_text("".join(f"spark.{each}\n" for each in settings))

    @property
    def master(self) -> str:
        """The master's URL."""
        return f"spark://127.0.0.1:{self.port}"

    def _start(self, kind: str, name: str, host: str, *args: str) -> None:
        folder = self.home / name
        folder.mkdir(parents=True)
        command = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [*command, "--host", host, *args],
                stdout=log,
                stderr=log,
                env=self.environment,
                start_new_session=True,
            )
        self._started.callback(self._end, process)

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        """Terminate a process and everything that it started."""
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def __enter__(self) -> Self:
        """Start, and wait until all workers have registered."""
        try:
            ports = ("--port", str(self.port), "--webui-port", str(self.web))
            self._start("master.Master", "master", "127.0.0.1", *ports)
            for number in range(WORKERS):
                folder = self.home / f"worker-{number}"
                size = ("--cores", "1", "--memory", "1g")
                where = ("--work-dir", str(folder), "--webui-port", "0", self.master)
                # Distinct loopback addresses: Spark does not retry a task on a host that is still running it.
                self._start("worker.Worker", folder.name, f"127.0.0.{number + 1}", *size, *where)
            deadline = time.monotonic() + START_SECONDS
            while self._alive() < WORKERS:
                assert time.monotonic() < deadline, f"the cluster did not start\n{self.said}"
                time.sleep(0.2)
        except BaseException:
            self._started.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave neither processes nor unpacked archives."""
        self._started.close()
        for number in range(WORKERS):
            shutil.rmtree(self.home / f"worker-{number}", ignore_errors=True)

    def _alive(self) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.web}/json/", timeout=2) as answer:
                return int(loads(answer.read())["aliveworkers"])
        except (OSError, ValueError):
            # The master serves its page before it serves JSON: until then, this address too answers with the page.
            return 0

    @property
    def said(self) -> str:
        """The last lines of the master's and the workers' logs, for a failing test."""
        return "\n".join(file.read_text(errors="replace")[-3000:] for file in sorted(self.home.glob("*/log")))

    def run(self, commands: str) -> None:
        """Run shell commands in ``home``, with Spark on the path."""
        here = [str(spark_home() / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
        done = subprocess.run(
            ["bash", "-euxc", commands],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.home,
            env={**self.environment, "PATH": os.pathsep.join(here)},
            timeout=480,
        )
        assert done.returncode == 0, f"{done.stderr[-6000:]}\n{self.said}"
