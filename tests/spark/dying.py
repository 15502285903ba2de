"""Kills the sink's driver, its executors and other writers at random steps, and looks at what they leave.

Usage: ``dying.py FOLDER ROUNDS SEED``. Each round forks what would run on a cluster: a driver that commits a batch of a
stream or a batch job, whose executors are its own children; a ``LogWriter``; ``kafkalog import --resume``; or a copy
with ``append_batches``. Now and then two of them run at the same time. Some are killed (SIGKILL) before or after a
numbered step, which is a call that touches files, or a moment after it began. Each says in a pipe what was
acknowledged. Then

* a job's rows are all there, once and in order, or none of them; those of acknowledged jobs are there;
* a writer's acknowledged records are there, once and in order;
* imports and copies, continued until they end, equal their sources.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import random
import shutil
import signal
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa

import kafkalog
from kafkalog import LogWriter, Record
from kafkalog.cli.main import main as command_line
from kafkalog.spark import append_job, commit
from kafkalog.spark.sink import Sink

if TYPE_CHECKING:
    from collections.abc import Callable

# Calls that touch files.
MODULES = {"posix", "fcntl", "_io"}
PARTITIONS = 3
IMPORTED = 900
# How many steps a process takes, as far as is known.
STEPS = {"driver": 200, "noted driver": 60, "executor": 20, "writer": 40, "import": 80, "copy": 60}
CHECKED_EVERY = 12
# So many rounds in the same log dirs.
WORLD = 120


class Killer:
    """Kills this process at a step."""

    def __init__(self, step: int, how: str, moment: float) -> None:
        self.left, self.how, self.moment = step, how, moment
        self.steps = 0

    def __call__(self, _frame: Any, event: str, called: Any) -> None:
        if event not in {"c_call", "c_return"}:
            return
        owner = type(getattr(called, "__self__", None)).__module__
        if getattr(called, "__module__", None) not in MODULES and owner not in {*MODULES, "kafkalog._core"}:
            return
        self.steps += event == "c_call"
        if self.steps != self.left:
            return
        if self.how == "moment" and event == "c_call":
            # Its action is to end the process, without any cleanup.
            signal.setitimer(signal.ITIMER_REAL, self.moment)
        elif (self.how, event) in {("before", "c_call"), ("after", "c_return")}:
            os.kill(os.getpid(), signal.SIGKILL)


def killer(kind: str, chance: random.Random, often: float) -> Killer:
    """Choose where to kill a process, or not at all."""
    step = chance.randrange(1, STEPS[kind]) if chance.random() < often else -1
    return Killer(step, chance.choice(["before", "after", "moment"]), chance.random() ** 2 * 0.004)


def counted(step: Callable[..., None], counting: Any, *, itself: bool) -> Callable[..., None]:
    """Count steps of the process from this one on, or from its end on."""

    def count(*args: Any) -> None:
        if itself:
            sys.setprofile(counting)
        step(*args)
        sys.setprofile(counting)

    return count


@dataclass
class Child:
    """A process, and what it has said."""

    kind: str
    pid: int
    pipe: int

    def end(self) -> tuple[bool, list[Any]]:
        """Wait; return whether it was killed, and its words."""
        with os.fdopen(self.pipe, "rb") as pipe:
            words = []
            with contextlib.suppress(EOFError, pickle.UnpicklingError):
                while True:
                    words.append(pickle.load(pipe))  # noqa: S301 - from our own child
        status = os.waitpid(self.pid, 0)[1]
        if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status):
            raise AssertionError(f"{self.kind} failed")
        return os.WIFSIGNALED(status), words


def start(kind: str, body: Callable[[Callable[[Any], None]], None], kills: Killer) -> Child:
    """Fork a process."""
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return Child(kind, pid, read)
    os.close(read)

    def say(word: Any) -> None:
        os.write(write, pickle.dumps(word))

    try:
        sys.setprofile(kills)
        body(say)
        sys.setprofile(None)
        say(("steps", kills.steps))
    except kafkalog.LogLockedError:
        sys.setprofile(None)
        say(("locked",))
    except BaseException as error:  # noqa: BLE001 - told by the exit code
        sys.setprofile(None)
        import traceback

        traceback.print_exc()
        sys.stderr.write(f"{kind}: {type(error).__name__}: {error}\n")
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


@dataclass
class World:
    """The log dirs, and what must be in them."""

    root: Path
    chance: random.Random
    batch: int = 0
    job: int = 0
    written: int = 0
    jobs: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    records: dict[int, list[tuple[str, bool]]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    # How often a topic was filled: then the next one of that name begins.
    filled: Counter[str] = field(default_factory=Counter)
    is_contended: bool = False

    def __post_init__(self) -> None:
        for name in ("d1", "d2"):
            (self.root / name).mkdir()
            (self.root / f"link-{name}").symlink_to(self.root / name)
        lines = [Record(b"i%d" % n, b"k%d" % n, 1_700_000_000_000 + n) for n in range(IMPORTED)]
        with LogWriter(self.root / "source", "s", batch_bytes=600) as writer:
            writer.append(lines)
        table = kafkalog.read_table(self.root / "source", columns=["key", "value", "timestamp"])
        with pa.OSFile(str(self.root / "rows.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as rows:
            rows.write_table(table, max_chunksize=50)

    def paths(self) -> tuple[str, ...]:
        """Spell the log dirs in some way."""
        names = [self.chance.choice(["", "link-"]) + name for name in ("d1", "d2")]
        self.chance.shuffle(names)
        return tuple(str(self.root / name) for name in names)

    @staticmethod
    def topic_of(job: str) -> str:
        """Return the topic of a job: some batch jobs have one that may be new."""
        return "t" if job[0] == "s" or int(job[1:]) % 2 else f"new-{int(job[1:]) % 16}"

    def driver(self, *, often: float) -> tuple[Child, str]:
        """Start a driver with the next batch of the stream, or with a batch job of another topic's partitions."""
        is_stream = self.chance.random() < 0.7
        name = f"s{self.batch}" if is_stream else f"j{self.job}"
        self.job += not is_stream
        if name not in self.jobs:
            count = self.chance.choice([1, 5, 40, 400])
            self.jobs[name] = [(self.chance.randrange(PARTITIONS), f"{name}/{n}") for n in range(count)]
        rows, batch = self.jobs[name], self.batch
        sink = Sink(
            paths=self.paths(),
            topic=self.topic_of(name),
            partitions=PARTITIONS,
            compression=None,
            stream="q" if is_stream else None,
        ).prepared()
        half = self.chance.randrange(len(rows) + 1)
        kills = [killer("executor", self.chance, 0.2) for _ in range(2)]
        timed = self.chance.random() < 0.5
        # Mostly between the note and the end.
        kind = "noted driver" if self.chance.random() < 0.75 else "driver"

        def stage(some: list[tuple[int, str]], killed: Killer) -> Any:
            columns: dict[str, Any] = {
                "value": [text for _, text in some],
                "partition": pa.array([partition for partition, _ in some], pa.int32()),
            }
            if timed:
                columns["timestamp"] = pa.array([1_700_000_000_000_000] * len(some), pa.timestamp("us", "UTC"))
            given = pa.RecordBatch.from_pydict(columns)
            while True:
                executor = start("executor", lambda say: say(("staged", sink.write(iter([given])))), killed)
                died, words = executor.end()
                if not died:
                    return next(word[1] for word in words if word[0] == "staged")
                killed = Killer(-1, "", 0)

        def body(say: Callable[[Any], None]) -> None:
            counting = sys.getprofile()
            sys.setprofile(None)
            messages = [stage(rows[:half], kills[0]), stage(rows[half:], kills[1])]
            if kind == "noted driver":
                # In this process alone. A job that appends before it is noted is to be caught.
                for owner, step in ((append_job.Job, "begin"), (commit, "_append")):
                    setattr(owner, step, counted(getattr(owner, step), counting, itself=step == "_append"))
            else:
                sys.setprofile(counting)
            sink.commit(messages, batch if is_stream else None)
            say(("committed", name))

        return start(kind, body, killer(kind, self.chance, often)), name

    def writer(self, *, often: float) -> tuple[Child, str]:
        """Start a writer that appends to a partition of the sink's topic, once that is there."""
        if len(list(self.root.glob("d?/t-*"))) < PARTITIONS:
            return self.copier(often=often)
        partition, count, first = self.chance.randrange(PARTITIONS), self.chance.randrange(1, 5), self.written
        texts = [[f"w{first + n}/{k}" for k in range(self.chance.randrange(1, 60))] for n in range(count)]
        self.written += count
        self.records.setdefault(partition, []).extend((text, False) for each in texts for text in each)
        paths = self.paths()

        def body(say: Callable[[Any], None]) -> None:
            with LogWriter(paths, "t", partition) as log:
                for each in texts:
                    log.append([Record(text.encode()) for text in each])
                    say(("written", partition, each))

        return start("writer", body, killer("writer", self.chance, often)), ""

    def importer(self, *, often: float) -> tuple[Child, str]:
        """Start or continue an import."""
        source = self.chance.choice(["rows.arrow", "source/s-0"])
        name, out = ("imported" if source == "rows.arrow" else "moved"), str(self.root / "d1")
        number = self.filled[name]
        topic = f"{name}{number}"

        def body(say: Callable[[Any], None]) -> None:
            arguments = ["import", str(self.root / source), out, "-t", topic, "-p", "0", "--resume"]
            with contextlib.redirect_stderr(io.StringIO()) as told:
                code = command_line([*arguments, "--ignore-extra"])
            if code:
                is_locked = any(words in told.getvalue() for words in ("another writer", "log dir is running"))
                raise kafkalog.LogLockedError(topic) if is_locked else AssertionError(told.getvalue())
            say(("imported", name, number))

        return start("import", body, killer("import", self.chance, often)), name

    def copier(self, *, often: float) -> tuple[Child, str]:
        """Start or continue a copy of batches."""
        number = self.filled["copied"]
        topic = f"copied{number}"

        def body(say: Callable[[Any], None]) -> None:
            log = kafkalog.PartitionLog(self.root / "source" / "s-0")
            with LogWriter(self.root / "link-d2", topic) as writer:
                if writer.log_end_offset < log.log_end_offset:
                    writer.append_batches(log.batches(starting_offsets=writer.log_end_offset))
            say(("imported", "copied", number))

        return start("copy", body, killer("copy", self.chance, often)), "copied"

    def hear(self, child: Child, name: str) -> None:
        """Wait for a process, and note what it has acknowledged."""
        killed, words = child.end()
        self.counts[f"{child.kind} {'killed' if killed else 'ended'}"] += 1
        if killed and child.kind.endswith("driver"):
            self.counts["driver killed with a note"] += bool(list(self.root.glob("d?/.kafkalog-job")))
        for word in words:
            if word[0] == "committed":
                self.acknowledged.add(name)
                if name == f"s{self.batch}":
                    self.batch += 1
            elif word[0] == "written":
                _, partition, texts = word
                heard = {*texts}
                self.records[partition] = [(t, known or t in heard) for t, known in self.records[partition]]
            elif word[0] == "steps":
                STEPS[child.kind] = max(2, word[1] + 1)
            elif word[0] == "imported":
                # Two may have filled the same one.
                self.filled[word[1]] = max(self.filled[word[1]], word[2] + 1)
            elif word[0] == "locked":
                self.counts["locked"] += 1
        self.counts["acknowledged"] += sum(word[0] in {"committed", "written", "imported"} for word in words)

    def values(self, topic: str) -> dict[int, list[str]]:
        """Read the values of a topic, by partition."""
        found: dict[int, list[str]] = {}
        for name in ("d1", "d2"):
            for log in kafkalog.LogDir(self.root / name).partitions(topic):
                table = kafkalog.read_table(log.path, columns=["offset", "value"])
                assert table["offset"].to_pylist() == list(range(table.num_rows)), log.path
                assert log.partition not in found, f"{topic}-{log.partition} is in both log dirs"
                found[log.partition] = [(value or b"").decode() for value in table["value"].to_pylist()]
        return found

    def check(self) -> None:
        """Settle what died, and compare."""
        for paths in (self.root / "d1", self.root / "link-d2"):
            LogWriter(paths, f"settles-{paths.name}").close()
        assert not list(self.root.glob("d?/.kafkalog-job"))
        topics = ["t", *sorted({*map(self.topic_of, self.jobs)} - {"t"})]
        found: dict[tuple[str, int], list[str]] = {}
        for topic in topics:
            some = self.values(topic)
            assert sorted(some) in ([], list(range(PARTITIONS))), f"topic {topic} was created in part"
            found |= {(topic, partition): values for partition, values in some.items()}
        for (topic, partition), values in found.items():
            counts = Counter(values)
            assert max(counts.values(), default=1) == 1, f"twice: {counts.most_common(3)}"
            theirs = [text for text in values if text[0] == "w"]
            records = self.records.get(partition, []) if topic == "t" else []
            given = [text for text, _ in records]
            ranks = {text: rank for rank, text in enumerate(given)}
            assert [ranks[text] for text in theirs] == sorted(ranks[text] for text in theirs), "out of order"
            lost = {text for text, known in records if known} - {*theirs}
            assert not lost, f"lost: {sorted(lost)[:3]}"
        places = {text: (place, at) for place, values in found.items() for at, text in enumerate(values)}
        for name, rows in self.jobs.items():
            there = [text for _, text in rows if text in places]
            assert len(there) in {0, len(rows)}, f"job {name}: {len(there)} of {len(rows)} rows"
            assert there or name not in self.acknowledged, f"job {name} is lost"
            for partition in range(PARTITIONS):
                at = [places[text] for number, text in rows if number == partition and there]
                place = self.topic_of(name), partition
                assert [each[0] for each in at] == [place] * len(at), f"job {name} is elsewhere"
                # Next to each other, in order.
                assert [each[1] for each in at] == list(range(at[0][1], at[0][1] + len(at)) if at else []), name
        known = {text for rows in self.jobs.values() for _, text in rows}
        known |= {text for records in self.records.values() for text, _ in records}
        assert {*places} <= known
        for name in ("imported", "moved", "copied"):
            for number in range(self.filled[name] + 1):
                values = self.values(f"{name}{number}").get(0, [])
                assert values == [f"i{n}" for n in range(len(values))], f"{name}{number}"
                assert len(values) == IMPORTED or number == self.filled[name], f"{name}{number} lacks records"

    def finish(self) -> None:
        """Let everything end, and compare once more."""
        for start in (self.importer, self.copier):
            self.hear(*start(often=0))
        while f"s{self.batch}" in self.jobs:
            child, name = self.driver(often=0)
            self.hear(child, name)
        self.check()
        assert not list(self.root.glob("d?/.kafkalog-rows.q.*"))


def run(root: Path, rounds: int, seed: int) -> None:
    """Do so many rounds."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    import logging

    logging.disable(logging.CRITICAL)
    chance = random.Random(seed)  # noqa: S311 - to be repeated, not secret
    counts: Counter[str] = Counter()
    for first in range(0, rounds, WORLD):
        folder = root / str(first)
        folder.mkdir()
        world = World(folder, chance)
        live(world, min(WORLD, rounds - first), f"{first} and more of seed {seed}")
        counts += world.counts
        if first + WORLD < rounds:
            shutil.rmtree(folder)
    killed = sum(count for kind, count in counts.items() if kind.endswith("killed"))
    print(f"{rounds} rounds, {killed} killed: {dict(sorted(counts.items()))}")
    assert killed > rounds // 3, counts
    assert counts["driver killed with a note"] > rounds // 12, counts


def live(world: World, rounds: int, name: str) -> None:
    """Do so many rounds in one world."""
    starts = [world.driver] * 5 + [world.writer] * 3 + [world.importer, world.copier]
    for number in range(rounds):
        try:
            world.is_contended = world.chance.random() < 0.3
            some = [world.chance.choice(starts)(often=0.8)]
            if world.is_contended:
                # Not two drivers of one query: Spark runs its batches one by one.
                second = world.chance.choice([world.writer, world.importer, world.copier])
                some.append(second(often=0.8))
            for child, job in some:
                world.hear(child, job)
            if number % CHECKED_EVERY == CHECKED_EVERY - 1:
                world.check()
        except BaseException:  # noqa: PERF203 - says where
            sys.stderr.write(f"round {number} of {name}: {world.root}\n")
            raise
    world.finish()


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
