"""A real broker for the tests: one KRaft node from the jars of Maven, and a Java client driven by JSON lines.

The jars and the witness (``tests/interop/witness``, Java) are built by Maven once.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interop.jvm import Jvm
from interop.maven import SHORT_LIVED_JVM, alone, class_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from typing_extensions import Self

PROJECT = Path(__file__).resolve().parent / "witness"
# A broker without Kafka's tools and our Java.
NEWEST = PROJECT.with_name("newest")
TIERED = PROJECT.with_name("tiered")
START_SECONDS = 90.0


@dataclass(frozen=True)
class Witness:
    """The class path of Kafka and of our Java, and what other flags its JVMs take."""

    class_path: str
    flags: tuple[str, ...] = ()

    @classmethod
    def build(cls) -> Witness:
        """Compile the project, which is quick when nothing has changed."""
        jars = class_path(PROJECT)
        # The archive holds the classes of the jars, so they come first.
        return cls(f"{jars}:{PROJECT / 'target' / 'classes'}", of_archive(jars))

    @classmethod
    def of_newest(cls) -> Witness:
        """Return the class path of the newest broker, whose version our Java is not compiled with."""
        return cls(class_path(NEWEST))

    def with_tiered_storage(self) -> Witness:
        """Return the class path with ``LocalTieredStorage``, whose jar has settings of the logs of its own."""
        return Witness(
            f"{self.class_path}:{class_path(TIERED)}", (*self.flags, "-Dlog4j2.configurationFile=log4j2.xml")
        )

    def command(self, main: str, *args: str, level: str = "error", heap: str = "512m") -> list[str]:
        """Return the command line of a Java program."""
        flags = [f"-Xmx{heap}", *SHORT_LIVED_JVM, *self.flags, f"-Dlevel={level}"]
        return ["java", *flags, "-cp", self.class_path, main, *args]

    def run(self, *args: str) -> str:
        """Run one command of the witness and return what it prints."""
        code, out, err = self.jvm().run("witness.Main", *args)
        assert code == 0, err[-3000:]
        return out

    def jvm(self) -> Jvm:
        """The JVM that this process has for it."""
        return _jvm(self)


@cache
def _jvm(witness: Witness) -> Jvm:
    return Jvm(witness.command("witness.Main", "tools"))


@contextmanager
def held_ports(count: int) -> Iterator[list[int]]:
    """Reserve ports until the end of the block, even while nothing listens on them.

    They are bound, but not listened on: who binds with ``SO_REUSEADDR``, as Java's servers do, may still do both.
    """
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind(("127.0.0.1", 0))
        yield [int(each.getsockname()[1]) for each in sockets]


class Driver:
    """The Java client of one broker: ``ask("create", topic=..., ...)``."""

    def __init__(self, witness: Witness, bootstrap: str) -> None:
        """Start the client, which then connects."""
        self._socket = witness.jvm().client(bootstrap)
        self._lines = self._socket.makefile("rw", encoding="utf-8")

    def ask(self, do: str, **args: Any) -> Any:
        """Send a command and wait for its answer."""
        self._lines.write(json.dumps({"do": do, **args}) + "\n")
        self._lines.flush()
        line = self._lines.readline()
        if not line:
            msg = f"the client ended: {do} {args}"
            raise RuntimeError(msg)
        answer = json.loads(line)
        if "error" in answer:
            msg = f"{do} {args}: {answer['error']}"
            raise RuntimeError(msg)
        return answer["ok"]

    def close(self) -> None:
        """End the client; one whose broker is gone may not end."""
        with self._socket, self._lines:
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.settimeout(20)
            with suppress(TimeoutError):
                self._socket.recv(1)


@dataclass
class Broker:
    """One broker and controller in one process, with log dirs ``data-0`` and ``data-1`` in ``home``.

    Its own class path may be another than that of the clients.
    """

    witness: Witness
    home: Path
    overrides: dict[str, str] = field(default_factory=dict)
    topics: dict[str, dict[str, str]] = field(default_factory=dict)
    server: Witness | None = None

    def __post_init__(self) -> None:
        """Choose ports and write the settings."""
        self._held = ExitStack()
        self.port, self.controller = self._held.enter_context(held_ports(2))
        self.work = self.home.parent / f"{self.home.name}-work"
        self.work.mkdir(parents=True)
        self.home.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._driver: Driver | None = None
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller}",
            "log.dirs": ",".join(str(d) for d in self.log_dirs),
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            "log.cleaner.backoff.ms": "200",
            "log.cleaner.dedupe.buffer.size": "4194304",
            "log.flush.offset.checkpoint.interval.ms": "300",
            "log.flush.start.offset.checkpoint.interval.ms": "300",
            "log.index.size.max.bytes": "65536",
            "log.initial.task.delay.ms": "200",
            "log.retention.check.interval.ms": "300",
            "log.retention.ms": "-1",
            "log.segment.delete.delay.ms": "300",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            **self.overrides,
        }
        self._settings = self.work / "broker.properties"
        self._settings.write_text("".join(f"{k}={v}\n" for k, v in settings.items()), encoding="utf-8")

    @property
    def log_dirs(self) -> list[Path]:
        """Both log dirs."""
        return [self.home / "data-0", self.home / "data-1"]

    @property
    def bootstrap(self) -> str:
        """Address at which clients connect."""
        return f"127.0.0.1:{self.port}"

    @property
    def driver(self) -> Driver:
        """The client, while the broker runs."""
        assert self._driver is not None, "the broker does not run"
        return self._driver

    @property
    def output(self) -> str:
        """The last lines of the logs of broker and client, for a failing test."""
        texts = [p.read_text(errors="replace")[-4000:] for p in sorted(self.work.glob("*.log"))]
        return "\n".join(texts)

    def format(self) -> Broker:
        """Format the log dirs."""
        args = ("format", "--standalone", "-t", "kafkalogTESTclusterAA", "-c", str(self._settings))
        if self.server is None:
            code, out, err = self.witness.jvm().run("kafka.tools.StorageTool", *args)
        else:
            command = self.server.command("kafka.tools.StorageTool", *args)
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
            code, out, err = done.returncode, done.stdout, done.stderr
        assert code == 0, out + err
        return self

    def start(self) -> Broker:
        """Start the broker and wait until it answers."""
        with (self.work / "broker.log").open("ab") as log:
            server = self.server or self.witness
            command = server.command("kafka.Kafka", str(self._settings), level="warn", heap="768m")
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.work)
        deadline = time.monotonic() + START_SECONDS
        while True:
            assert self._process.poll() is None, f"the broker ended\n{self.output}"
            assert time.monotonic() < deadline, f"the broker did not start\n{self.output}"
            with socket.socket() as probe:
                probe.settimeout(1)
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    break
            time.sleep(0.2)
        self._driver = Driver(self.witness, self.bootstrap)
        while self._driver.ask("ready") == 0:
            assert time.monotonic() < deadline, f"the broker did not register\n{self.output}"
            time.sleep(0.2)
        return self

    def create(self, topic: str, partitions: int = 1, **config: str | float) -> None:
        """Create a topic; ``segment_bytes`` sets the internal setting, which has no lower bound."""
        named = {k.replace("_", "."): str(v) for k, v in config.items()}
        if "segment.bytes" in named:
            named["internal.segment.bytes"] = named.pop("segment.bytes")
        self.topics[topic] = named
        self.driver.ask("create", topic=topic, partitions=partitions, config=named)

    def folder(self, topic: str, partition: int = 0) -> Path:
        """Return the folder of a partition in whichever log dir has it."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for log_dir in self.log_dirs:
                if (log_dir / f"{topic}-{partition}").is_dir():
                    return log_dir / f"{topic}-{partition}"
            time.sleep(0.05)
        msg = f"{topic}-{partition} in none of {self.log_dirs}"
        raise FileNotFoundError(msg)

    def _end(self, how: signal.Signals) -> None:
        if self._driver is not None:
            self._driver.close()
            self._driver = None
        if self._process is not None:
            self._process.send_signal(how)
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                raise
            finally:
                self._process = None

    def stop(self) -> None:
        """Stop cleanly."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the broker."""
        self._end(signal.SIGKILL)

    def __enter__(self) -> Self:
        """Format and start."""
        self.format().start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave no process running."""
        with self._held:
            self.kill()


def of_archive(jars: str) -> tuple[str, ...]:
    """Return the flags that map the classes of a broker from an archive (JEP 350), made by the first process that asks.

    A broker that starts and stops takes about 60 % of the processor time with it.
    """
    java = Path(shutil.which("java") or "java").resolve()
    made_from = f"{jars}\n{java}\n{java.stat().st_mtime_ns}"
    archive = PROJECT / "target" / f"classes-{hashlib.sha256(made_from.encode()).hexdigest()[:16]}.jsa"
    with alone():
        if not archive.exists():
            with tempfile.TemporaryDirectory() as scratch:
                made = Path(scratch) / archive.name
                server = Witness(jars, (f"-XX:ArchiveClassesAtExit={made}",))
                ours = Witness(f"{jars}:{PROJECT / 'target' / 'classes'}")
                with Broker(ours, Path(scratch) / "home") as broker:
                    broker.stop()
                    broker.server = server
                    broker.start().create("any")
                    broker.stop()
                ours.jvm().close()
                shutil.move(made, archive)
    # Without a word where the JVM finds that it does not fit: it does without.
    return (f"-XX:SharedArchiveFile={archive}", "-Xlog:disable")


@contextmanager
def answered(broker: Broker) -> Iterator[Path]:
    """Ask Kafka's classes about all that a stopped broker left, in the corpus format; return the folder of the case."""
    expected = broker.home / "expected"
    expected.mkdir(exist_ok=True)
    case = {"kafka_version": "4.3.1", "topics": broker.topics}
    (expected / "case.json").write_text(json.dumps(case), encoding="utf-8")
    broker.witness.run("expect", str(broker.home))
    yield broker.home
