"""Every command answers the same mistake in the same way: one line on stderr, and the exit code that the guide names.

The commands and their options are those of the command line itself, so a new command is tested as soon as it is in
``COMMANDS``. Exit codes: 1 the answer is no, 2 wrong usage, 3 input or output failed.
"""

from __future__ import annotations

import argparse
import importlib
import keyword
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pytest

import corpus
from command import call
from kafkalog.cli import _common
from kafkalog.cli._commands import COMMANDS, OF_STORES
from kafkalog.cli.main import main
from kafkalog.cli.offsets import _time as offsets_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.release

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
ORDERS = DATA / "orders-0"
SEGMENT = ORDERS / f"{0:020}.log"

# How a command calls what it reads.
READS = {"PATH", "SOURCE", "FILE,..."}
# kafka-dump-log skips files that it does not know; so does dump.
AS_KAFKA = {"dump"}
# The exit code of a name that does not exist: grep's 1 says that nothing was found.
NOT_THERE = {"grep": 2}
# What has a command select folders, and not rows.
OF_FOLDERS = {"transactions": ("--aborted",)}
# What a command needs because the log dir has no metadata log, or because it needs one of two options.
NEEDS = {
    "compact": ("--config", "cleanup.policy=compact"),
    "retain": ("--config", "retention.ms=-1"),
    "rescue": ("--dry-run",),
    "completion": ("bash",),
}


def parser_of(command: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"kafkalog {command}")
    module = importlib.import_module(f"kafkalog.cli.{command}{'_' * keyword.iskeyword(command)}")
    module.configure(parser)
    return parser


ACTIONS = {command: [action for action in parser_of(command)._actions if action.dest != "help"] for command in COMMANDS}


def writes(action: argparse.Action) -> bool:
    return action.type in {_common.output, _common.any_output}


def words(command: str, source: Path, target: Path, *more: str, but: argparse.Action | None = None) -> list[str]:
    """Give a command what it requires, except for one argument."""
    given = [command, *more, *NEEDS.get(command, ())]
    for action in ACTIONS[command]:
        is_given = action.metavar == "FILE,..." or (writes(action) and not action.option_strings)
        # Only with a tier there may be no disk.
        is_given |= (command, action.dest) == ("rescue", "path")
        if action is but or not (is_given or (action.required and action.nargs not in {"?", "*"})):
            continue
        value = (
            str(target)
            if writes(action)
            else str(source)
            if action.metavar in READS
            else next(iter(action.choices))
            if action.choices
            else "1"
        )
        given += [action.option_strings[-1], value] if action.option_strings else [value]
    return given


def reading() -> list[str]:
    return [name for name in COMMANDS if any(action.metavar in READS for action in ACTIONS[name])]


class Said(NamedTuple):
    """The answer of a command."""

    code: int
    out: str
    err: str


Ask: TypeAlias = "Callable[..., Said]"


@pytest.fixture
def ask(capfd: pytest.CaptureFixture[str]) -> Ask:
    def ask(*given: str | Path) -> Said:
        code = main([str(word) for word in given])
        said = capfd.readouterr()
        return Said(code, said.out, said.err)

    return ask


def one_line(said: Said, code: int, *parts: str) -> None:
    assert (said.code, said.err.count("\n")) == (code, 1), said.err
    assert said.err.startswith("kafkalog: "), said.err
    for part in parts:
        assert part in said.err, said.err


def test_what_commands_require_is_known_here() -> None:
    """A positional argument that is none of these needs a word in this module."""
    for command, actions in ACTIONS.items():
        for action in actions:
            if action.metavar in READS | {"FILE"} and command != "dump" and not writes(action):
                assert action.type is _common.place, f"{command} {action.dest}: type=_common.place"
            if not action.option_strings:
                known = action.metavar in READS | {"PATTERN", "SHELL", "FILE"}
                assert known or writes(action) or action.choices, (command, action.dest)
            if action.metavar in {"OUT", "LOG_DIR", "DIR"} or action.dest in {"out", "output"}:
                assert writes(action), f"{command} {action.dest}: type=_common.output"


# Paths that are read


@pytest.mark.parametrize("command", reading())
def test_a_path_that_does_not_exist(command: str, tmp_path: Path, ask: Ask) -> None:
    for name in ("nope", "nope-0", "nope.log", "nope/deeper", f"{0:020}.log"):
        said = ask(*words(command, tmp_path / name, tmp_path / "out"))
        error = said.err.removeprefix(f"Ignoring unknown file {tmp_path / name}\n") if command in AS_KAFKA else said.err
        assert (said.code, error) == (3, f"kafkalog: {tmp_path / name}: No such file or directory\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [name for name in reading() if name not in AS_KAFKA])
def test_a_path_of_another_kind(command: str, tmp_path: Path, ask: Ask) -> None:
    (tmp_path / "notes.txt").write_text("notes")
    (tmp_path / "others" / "dbus-1").mkdir(parents=True)
    (tmp_path / "others" / "dbus-1" / "system.conf").touch()
    for name in ("notes.txt", "others", "others/dbus-1"):
        # The path, or the folder around a file.
        one_line(ask(*words(command, tmp_path / name, tmp_path / "out")), 2, f"kafkalog: {tmp_path}")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", reading())
def test_a_path_that_cannot_be_read(command: str, tmp_path: Path, ask: Ask) -> None:
    (tmp_path / "loop-0").symlink_to(tmp_path / "loop-0")
    loop = tmp_path / f"{0:020}.log"
    loop.symlink_to(loop)
    for path in (loop,) if command in AS_KAFKA else (tmp_path / "loop-0", loop):
        one_line(ask(*words(command, path, tmp_path / "out")), 3, f"{path}: Too many levels of symbolic links")
    if os.getuid():
        (tmp_path / "closed").mkdir(mode=0)
        one_line(ask(*words(command, tmp_path / "closed", tmp_path / "out")), 3, "Permission denied")


def paths() -> Iterator[tuple[str, argparse.Action]]:
    for command, actions in ACTIONS.items():
        # The files of dump by position are those of --files.
        some = [each for each in actions if each.option_strings or command != "dump"]
        yield from ((command, each) for each in some if each.metavar in READS | {"FILE"} or writes(each))


@pytest.mark.parametrize(("command", "action"), [*paths()], ids=lambda each: each if isinstance(each, str) else "")
def test_a_url_is_no_local_path(
    command: str, action: argparse.Action, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    """``kafkalog export PATH s3://bucket`` once wrote to ./s3:/bucket, and said that it was in the bucket."""
    monkeypatch.chdir(tmp_path)
    option = action.option_strings[-1:]
    for url in ("s3://user:secret@bucket/x", "dbfs:/x", "file://host/x"):
        is_taken = action.type is _common.any_output or not writes(action)
        if url == "dbfs:/x" and command in OF_STORES and is_taken:
            # A URL that is read or written; the others are by no command.
            continue
        given = (DATA, url) if writes(action) and not option else (DATA if option else url, tmp_path / "out")
        said = ask(*words(command, *given), *([*option, url] if option else []))
        name = "/".join(action.option_strings) or action.metavar
        one_line(said, 2, f"kafkalog: {command}: argument {name}: ", " is a URL: ")
        assert "secret" not in said.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [name for name in reading() if name not in AS_KAFKA])
def test_a_file_url_is_a_local_path(command: str, tmp_path: Path, ask: Ask) -> None:
    url = (tmp_path / "no pe").as_uri()
    said = ask(*words(command, url, tmp_path / "out"))  # type: ignore[arg-type]
    one_line(said, 3, f"kafkalog: {tmp_path / 'no pe'}: No such file or directory")


# Topics and partitions


def selections(dests: set[str]) -> Iterator[tuple[str, str]]:
    for command in COMMANDS:
        for action in ACTIONS[command]:
            # Those of dump and verify name a segment outside a log dir; those of groups, offsets that are not here.
            if action.dest in dests and action.option_strings and command not in {"dump", "verify", "groups"}:
                yield command, action.option_strings[-1]


@pytest.mark.parametrize(("command", "option"), [*selections({"topic", "topics", "topic_pattern"})])
def test_a_topic_that_does_not_exist(command: str, option: str, tmp_path: Path, ask: Ask) -> None:
    said = ask(*words(command, DATA, tmp_path / "out", option, "nope", *OF_FOLDERS.get(command, ())))
    one_line(said, NOT_THERE.get(command, 1), *(["found: "] if option != "--topic-pattern" else []))
    assert not (tmp_path / "out").exists()
    assert said.out == ""


@pytest.mark.parametrize(("command", "option"), [*selections({"partition", "partitions"})])
def test_a_partition_that_does_not_exist(command: str, option: str, tmp_path: Path, ask: Ask) -> None:
    topic = [option for name, option in selections({"topic"}) if name == command]
    for named in ([], [topic[0], "orders"]) if topic and command != "cat" else ([topic[0], "orders"],):
        said = ask(*words(command, DATA, tmp_path / "out", *named, option, "99", *OF_FOLDERS.get(command, ())))
        one_line(said, NOT_THERE.get(command, 1), "found: ")
        assert not (tmp_path / "out").exists()


# Words


def long_options() -> Iterator[tuple[str, str]]:
    for command in COMMANDS:
        for action in ACTIONS[command]:
            # Of those of two letters, what remains of one is the beginning of others.
            yield from ((command, option) for option in action.option_strings if option.startswith("--") and option[5:])


@pytest.mark.parametrize(("command", "option"), list(long_options()))
@pytest.mark.sampled(50)
def test_a_misspelt_option_gets_the_nearest_as_a_hint(command: str, option: str, tmp_path: Path, ask: Ask) -> None:
    """Two letters are swapped, one is missing; what the command requires is missing as well."""
    at = next(n for n in range(3, len(option)) if option[n] != option[n - 1])
    swapped = option[: at - 1] + option[at] + option[at - 1] + option[at + 1 :]
    for wrong in (swapped, option[:3] + option[4:]):
        for given in ([command, wrong], [command, f"{wrong}=1"], words(command, DATA, tmp_path / "out", wrong)):
            one_line(ask(*given), 2, f"kafkalog: {command}: unknown option {wrong}", f"did you mean {option!r}?")


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_that_is_like_no_other_gets_no_hint(command: str, ask: Ask) -> None:
    said = ask(command, "--zzyzx")
    one_line(said, 2, f"kafkalog: {command}: unknown option --zzyzx (kafkalog {command} --help shows the usage)\n")


def test_a_misspelt_command_gets_the_nearest_as_a_hint(ask: Ask) -> None:
    for command in COMMANDS:
        one_line(ask(command + "x"), 2, f"no command '{command}x' (did you mean {command!r}?)")


def typed() -> Iterator[tuple[str, str, argparse.Action]]:
    for command in COMMANDS:
        for action in ACTIONS[command]:
            # test_a_url_is_no_local_path has the only mistake of a path.
            if action.type not in {None, _common.place} or action.choices:
                yield command, action.option_strings[-1] if action.option_strings else "", action


def is_number(action: argparse.Action) -> bool:
    return getattr(action.type, "__qualname__", "").startswith(_common.number.__name__)


def is_time(action: argparse.Action) -> bool:
    return action.type in {_common.time, offsets_time} or "WHEN" in (action.help or "")


def wrong_values(action: argparse.Action) -> Iterator[str]:
    if writes(action):
        yield from () if action.type is _common.any_output else ("-",)
        return
    if action.metavar == "FMT":
        # Text with fields: any but the name of a format.
        yield "json"
        return
    yield ",?!" if action.metavar == "FILE,..." else "?!"
    if is_number(action):
        yield from ("1e3", "1.5", "-1", "9" * 30, "\u0663x")
    if is_time(action):
        at = "s@" if "s@WHEN" in (action.help or "") else ""
        yield from (f"{at}{value}" for value in ("soon", "2024", "2024-01-31", "2024-01-31T12:00:00", "9" * 30))


@pytest.mark.parametrize(
    ("command", "option", "action"), [*typed()], ids=lambda each: each if isinstance(each, str) else ""
)
def test_a_value_that_makes_no_sense(
    command: str, option: str, action: argparse.Action, tmp_path: Path, ask: Ask
) -> None:
    """Numbers, times, choices and the like: the argument is named, and what was found."""
    for value in wrong_values(action):
        given = words(command, DATA, tmp_path / "out", but=action)
        said = ask(
            *given, *([f"{option}={value}"] if option.startswith("--") else [option, value] if option else [value])
        )
        name = "/".join(action.option_strings) or action.metavar
        one_line(said, 2, f"kafkalog: {command}: argument {name}: ", value.removeprefix("s@"))
        assert " --help shows the usage)" in said.err
    assert list(tmp_path.iterdir()) == []


def test_every_option_that_takes_a_number_has_bounds() -> None:
    for command, actions in ACTIONS.items():
        for action in actions:
            assert action.type is not int, f"{command} {action.dest}: type=_common.number(...)"


# Outputs


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


def outputs() -> Iterator[tuple[str, argparse.Action]]:
    # Not rescue --into: a log dir that exists, and topics of it; test_rescue_existing_cluster has its mistakes.
    yield from (
        (command, action)
        for command in COMMANDS
        for action in ACTIONS[command]
        if writes(action) and action.dest != "into"
    )


def writing(command: str, action: argparse.Action, source: Path, target: Path) -> list[str]:
    if not action.option_strings:
        return words(command, source, target)
    # Another output that the command requires is elsewhere.
    elsewhere = Path(tempfile.gettempdir()) / f"kafkalog-not-written-{os.getpid()}"
    return [*words(command, source, elsewhere), action.option_strings[-1], str(target)]


@pytest.mark.parametrize(("command", "action"), [*outputs()], ids=lambda each: each if isinstance(each, str) else "")
def test_an_output_where_a_broker_looks_for_logs(
    command: str, action: argparse.Action, tmp_path: Path, ask: Ask
) -> None:
    shutil.copytree(DATA, tmp_path / "L")
    shutil.copytree(corpus.GOLDEN / "clean-restarts" / "data-0", tmp_path / "M")
    (tmp_path / "link").symlink_to(tmp_path / "L")
    (tmp_path / "plain").mkdir()
    before = contents(tmp_path)
    for target in (
        "L/x",
        "L/absent/x",
        "L/ledger-0/x",
        "M/x",
        "M/absent/orders-0",
        "link/x",
        "plain/../L/x",
        "gone/../L/x",
    ):
        said = ask(*writing(command, action, tmp_path / "L" / "orders-0", tmp_path / target))
        one_line(said, 2, "where a broker looks for logs", str(tmp_path / target))
        assert contents(tmp_path) == before, target


@pytest.mark.parametrize(("command", "action"), [*outputs()], ids=lambda each: each if isinstance(each, str) else "")
def test_an_output_where_a_file_is(command: str, action: argparse.Action, tmp_path: Path, ask: Ask) -> None:
    (tmp_path / "taken").write_text("mine")
    said = ask(*writing(command, action, ORDERS, tmp_path / "taken"))
    one_line(said, 3, f"{tmp_path / 'taken'}: ")
    said = ask(*writing(command, action, ORDERS, tmp_path / "taken" / "deeper"))
    one_line(said, 3, f"{tmp_path / 'taken'}")
    assert contents(tmp_path) == {str(tmp_path / "taken"): b"mine"}


# Streams


# Text and JSON, a table, notes that follow the rows, a file.
STREAMS = {"cat", "export", "ls", "verify"}


@pytest.mark.parametrize("command", [c if c in STREAMS else pytest.param(c, marks=pytest.mark.full) for c in COMMANDS])
@pytest.mark.sampled(2)
def test_a_reader_that_goes_away_and_a_disk_without_room(command: str, tmp_path: Path) -> None:
    dry = ["--dry-run"] if any("--dry-run" in action.option_strings for action in ACTIONS[command]) else []
    if command == "report":
        dry = ["--overwrite"]
    files = any(action.metavar == "FILE,..." for action in ACTIONS[command])
    for source in (SEGMENT,) if files else (DATA, ORDERS):
        given = words(command, source, tmp_path / "out", *dry)
        whole = call(*given, errors="replace")
        if whole.returncode in {0, 1}:
            break
    assert whole.returncode in {0, 1}, whole.stderr

    def piped(streams: str) -> tuple[int, str]:
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        line = f'"$@" {streams}'
        done = subprocess.run(
            ["bash", "-c", line, "bash", sys.executable, "-m", "kafkalog", *given],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return done.returncode, done.stderr

    # Notes that follow the rows are not written for nobody.
    code, said = piped("| true; exit ${PIPESTATUS[0]}")
    assert (code, said or whole.stderr) == ((0 if whole.stdout else whole.returncode), whole.stderr)
    if sys.platform == "linux" and whole.stdout:
        code, said = piped(">/dev/full")
        assert code == 3
        assert said.removeprefix(whole.stderr) == "kafkalog: standard output: No space left on device\n"
