"""``kafkalog``: finds the command, runs it, and turns an error into one line and an exit code.

Exit codes: 0 success, 1 damaged data or a negative answer, 2 wrong usage, 3 input or output failed.
"""

from __future__ import annotations

import argparse
import importlib
import keyword
import os
import shlex
import shutil
import signal
import sys
import textwrap
from contextlib import suppress
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from kafkalog.cli._commands import (
    ANSWERING,
    COMMANDS,
    ELSEWHERE,
    FIRST_STEPS,
    FOREIGN,
    GROUPS,
    MODES,
    OF_STORES,
    SYNONYMS,
)
from kafkalog.cli._style import styled
from kafkalog.cli._words import NEGATIVE, ordered
from kafkalog.errors import KafkaLogError

if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE, FAILED, INTERRUPTED = 2, 3, 128 + signal.SIGINT


def run() -> NoReturn:
    """Run the command line and exit with its exit code."""
    code = main()
    if code == INTERRUPTED:
        # The interpreter's end would wait for answers of stores.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _open_streams()
    parsed: argparse.Namespace | None = None
    try:
        try:
            parsed = _parse(words)
            code: int = _run(parsed)
        except SystemExit as leaving:
            # From the parser: --help, --version, wrong usage.
            code = leaving.code if isinstance(leaving.code, int) else USAGE
        sys.stdout.flush()
    except BrokenPipeError:
        _forget(sys.stdout)
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - every error becomes an exit code
        if parsed is not None and parsed.debug:
            import traceback

            traceback.print_exc()
        code = _report(error)
        try:
            sys.stdout.flush()
        except OSError:
            _forget(sys.stdout)
    return code


def _run(parsed: argparse.Namespace) -> int:
    if not parsed.storage_option:
        return _run_at(parsed)
    from kafkalog import storage

    options = {}
    for each in parsed.storage_option:
        name, equals, value = each.partition("=")
        if not equals or not name:
            # A value without a name may be a secret.
            raise ValueError("--storage-option takes NAME=VALUE")
        options[name] = value
    with storage.defaults(options):
        return _run_at(parsed)


def _run_at(parsed: argparse.Namespace) -> int:
    """Run a command; with a tier, on log dirs that have its segments, too. Two commands look at both apart."""
    name = "paths" if hasattr(parsed, "paths") else "path"
    failed = 0
    if parsed.command in ANSWERING and isinstance(getattr(parsed, name, None), list):
        from kafkalog.cli import _common

        left, failed = _common.listable(getattr(parsed, name))
        setattr(parsed, name, left)
    if parsed.command not in {"verify", "rescue"} and getattr(parsed, "remote", None) is not None:
        from kafkalog import _tiered

        given = {"remote_layout": parsed.remote_layout, "keyring": dict(parsed.remote_key)}
        parsed.local_paths = getattr(parsed, name)
        # Without paths the tier is read alone.
        setattr(parsed, name, _tiered.located(getattr(parsed, name) or None, remote=parsed.remote, **given))
    if getattr(parsed, "topic", None):
        from kafkalog.cli._selection import settle

        settle(parsed)
    code: int = module_of(parsed.command).run(parsed)
    return max(code, failed)


def _open_streams() -> None:
    """Replace streams that the caller closed, so that no file gets their numbers."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_WRONLY), number)
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115 - it stays open
        # Escape file names that are not UTF-8 rather than fail.
        getattr(getattr(sys, name), "reconfigure", lambda **_: None)(errors="backslashreplace")


def module_of(command: str) -> Any:
    """Import the module of a command."""
    # A keyword cannot be the name of a module.
    return importlib.import_module(f"kafkalog.cli.{command}{'_' * keyword.iskeyword(command)}")


class _Formatter(argparse.HelpFormatter):
    """Wraps paragraphs at the width of the terminal, but those with indented lines: examples and tables."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        wrap = super()._fill_text
        parts = text.strip("\n").split("\n\n")
        return "\n\n".join(each if "\n  " in each else wrap(each, width, indent) for each in parts)


class _Parser(argparse.ArgumentParser):
    """Reports wrong usage on one line."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # Times from now on are values, too: --from -2h.
        self._negative_number_matcher = NEGATIVE

    def error(self, message: str) -> NoReturn:
        text = " ".join(f"{self.prog.partition(' ')[2]}: {message}".split())
        name = styled("kafkalog:", "red", sys.stderr)
        self.exit(USAGE, f"{name} {text} ({self.prog} --help shows the usage)\n")

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        # The parser of a command gets its words; before anything else they must be options that it has. Otherwise a
        # misspelt option would be reported as a required one that is missing.
        if args is not None:
            self._check_options(args)
        return super().parse_known_args(args, namespace)

    def _check_options(self, words: Sequence[str]) -> None:
        known = [option for action in self._actions for option in action.option_strings]
        for word in words:
            if word == "--":
                return
            name = word.partition("=")[0]
            if name.startswith("--") and " " not in name and not any(option.startswith(name) for option in known):
                self._refuse(name, known)
            is_short = name.startswith("-") and name[1:2] not in {"", "-"} and not NEGATIVE.match(name)
            if is_short and name[:2] not in known:
                self._refuse(name[:2], known)

    def _refuse(self, name: str, known: Sequence[str]) -> NoReturn:
        hints = {**FOREIGN, **ELSEWHERE.get(self.prog.partition(" ")[2], {})}
        short = {"--topic": "-t", "--topics": "-t", "--partition": "-p", "--partitions": "-p"}.get(name, name)
        # Two letters that differ say nothing about each other.
        nearest = _hint(name, known) if name.startswith("--") else ""
        hint = f": {hints[short]}" if short in hints else nearest
        self.error(f"unknown option {name}{hint}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            if action.dest == "guide" and value in COMMANDS:
                raise argparse.ArgumentError(action, f"{value} is a command: kafkalog {value} --help describes it")
            choices = [str(choice) for choice in action.choices]
            valid = ", ".join(choices)
            raise argparse.ArgumentError(
                action, f"invalid choice: {value!r}{_hint(str(value), choices)} (choose from {valid})"
            )

    def print_help(self, file: Any = None) -> None:
        # argparse itself ignores errors of printing.
        print(self.format_help(), end="", file=file)


def _parse(words: list[str]) -> argparse.Namespace:
    """Find the command, and parse its words."""
    if words and words[0][:2] in {"-b", "-t"}:
        # kcat takes its options in any order, and reads if it is not told otherwise.
        words = [next(filter(MODES.get, words), "-C"), *(word for word in words if word not in MODES)]
    common = _Parser(add_help=False)
    common.add_argument("--debug", action="store_true", help="show the traceback of an error")
    common.add_argument(
        "--storage-option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an option of the store that URLs are in, by its name in object_store; secrets as NAME=env:VARIABLE",
    )
    before = list(takewhile(lambda word: word.startswith("-") and word not in MODES, words))
    for word in before:
        if word == "--version":
            from kafkalog import __version__

            print(f"kafkalog {__version__}")
            raise SystemExit(0)
        if word in {"-h", "--help"}:
            print(_overview(), end="")
            raise SystemExit(0)
        if word != "--debug":
            hint = _hint(word, ("--version", "--help", "--debug"))
            _wrong(f"unknown option {word}{hint}; options of a command follow its name: kafkalog ls DIR -J")
    if len(before) == len(words):
        print(FIRST_STEPS, end="")
        raise SystemExit(0)
    name, *rest = words[len(before) :]
    if name == "-P":
        _wrong("no option -P; records are written by kafkalog import FILE LOG_DIR -t TOPIC")
    if name in MODES:
        name, rest = MODES[name], [word for word in (name, *rest) if MODES[name] == "cat" or word != name]
    if name not in COMMANDS:
        _wrong(_instead_of(name, rest))
    module = module_of(name)
    description = f"{COMMANDS[name][0].upper()}{COMMANDS[name][1:]}."
    command = _Parser(
        prog=f"kafkalog {name}",
        parents=[common],
        formatter_class=_Formatter,
        description=getattr(module, "DESCRIPTION", description),
        epilog=getattr(module, "EPILOG", None),
    )
    from kafkalog.cli import _common, _tier

    _common.expect_urls(of_stores=name in OF_STORES)
    module.configure(command)
    in_order = ordered(command, rest)
    _tier.require_no_path(command, in_order)
    parsed = command.parse_args(in_order)
    parsed.command, parsed.debug = name, parsed.debug or bool(before)
    return parsed


def _wrong(text: str) -> NoReturn:
    print(f"{styled('kafkalog:', 'red', sys.stderr)} {text} (kafkalog --help shows the usage)", file=sys.stderr)
    raise SystemExit(USAGE)


def _instead_of(word: str, rest: list[str]) -> str:
    """Return what to say about a word that is no command: the nearest thing that works."""
    known = SYNONYMS.get(word.lower().removeprefix("kafka-").removesuffix(".sh"))
    if known is None and (os.sep in word or os.path.lexists(word)):
        return f"{word!r} is no command; to list what is in it: kafkalog ls {shlex.quote(word)}"
    if known is not None:
        given = [each for each in rest if not each.startswith("-")][: 2 if known == "grep" else 1]
        example = ["PATTERN", "DIR"] if known == "grep" else ["DIR"]
        what = "" if known in {"--version", "help"} else f" {shlex.join(given or example)}"
        return f"no command {word!r}; use kafkalog {known}{what}"
    return f"no command {word!r}{_hint(word, tuple(COMMANDS))}"


def _overview() -> str:
    """Return the help: commands in groups."""
    shown = shutil.get_terminal_size().columns
    width = max(map(len, COMMANDS))
    lines = [
        "usage: kafkalog COMMAND PATH... [options]",
        "",
        "Apache Kafka's on-disk logs, without a broker. Commands that read logs write nothing to them.",
    ]
    for group, commands in GROUPS.items():
        lines += ["", styled(group, "bold", sys.stdout)]
        for name, summary in commands.items():
            first, *more = textwrap.wrap(summary, max(shown - width - 5, 20))
            lines.append(f"  {styled(name, 'green', sys.stdout)}{' ' * (width - len(name))}  {first}")
            lines += [f"{' ' * (width + 4)}{line}" for line in more]
    lines += [
        "",
        styled("options", "bold", sys.stdout),
        "  --help  --version  --debug (the traceback of an error)",
        "",
        "kafkalog COMMAND --help shows the options of a command.",
        "Exit codes: 0 success, 1 damaged data or a negative answer, 2 wrong usage, 3 input or output failed.",
    ]
    return "".join(f"{line}\n" for line in lines)


def _hint(given: str, valid: Sequence[str]) -> str:
    from kafkalog._arguments import did_you_mean

    return did_you_mean(given, valid)


def _report(error: Exception) -> int:
    """Report an error on one line, and return its exit code."""
    from kafkalog.cli import _common, _printing

    if isinstance(error, (KafkaLogError, OSError)):
        text, code = _common.described(error)
    elif isinstance(error, KeyError):
        text, code = str(error.args[0]) if error.args else str(error), USAGE
    elif isinstance(error, (ValueError, TypeError, LookupError)):
        text, code = _printing.in_options(str(error)), USAGE
    elif isinstance(error, ImportError):
        needed = (error.name or "").split(".")[0]
        text, code = f"{error}; pip install {'kafkalog[spark]' if needed == 'pyspark' else needed}", FAILED
    else:
        text, code = f"{type(error).__name__}: {error} (--debug shows where)", FAILED
    _printing.warn(" ".join(text.split()))
    return code


def _forget(stream: TextIO) -> None:
    """Discard the flush at exit: its reader has ended, or the disk is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
