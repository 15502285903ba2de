"""``kafkalog``: finds the command, runs it, and turns an error into one line and an exit code.

Exit codes: 0 success, 1 damaged data or a negative answer, 2 wrong usage, 3 input or output failed.
"""

from __future__ import annotations

import argparse
import importlib
import keyword
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from kafkalog.errors import KafkaLogError

if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE, FAILED = 2, 3

COMMANDS = {
    "ls": "list topics, partitions and segments: offsets, times, sizes",
    "dump": "print what kafka-dump-log prints, with its flags",
    "cat": "print records to standard output, with kcat's options",
    "offsets": "print topic:partition:offset, as kafka-get-offsets does",
    "stats": "count records, sizes, codecs and producers, from batch headers alone",
    "verify": "verify every file of a log dir, and report faults and what to do about them",
    "explain": "explain why each segment still exists, until when, and what can be freed",
    "groups": "print what kafka-consumer-groups --describe prints: offsets, lag, members, states",
    "transactions": "print transactional ids and their transactions, open ones or aborted ones",
    "topics": "print what kafka-topics --describe prints, from the metadata log",
    "export": "write directories as Parquet, Arrow, JSON lines or CSV, here or on Spark",
    "recover": "recover a log dir or a partition after a crash, as a broker's start-up does",
    "rebuild": "rebuild the indexes of a partition",
    "rescue": "rebuild a startable cluster from a dead cluster's disks",
    "truncate": "copy a partition up to an offset into a new log dir",
    "compact": "copy logs into a new log dir, and compact the copy",
    "retain": "copy logs into a new log dir, without what retention deletes",
    "rewrite": "copy logs into a new log dir, without some records, or with another codec",
    "import": "write Parquet, Arrow, JSON lines and other logs into a log dir that a broker can mount",
    "help": "guides to reading, writing, recovering and Spark",
}


def run() -> NoReturn:
    """Run the command line and exit with its exit code."""
    sys.exit(main())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _open_streams()
    parsed: argparse.Namespace | None = None
    try:
        try:
            parsed = _parse(words)
            code: int = _module(parsed.command).run(parsed)
        except SystemExit as leaving:
            # From the parser: --help, --version, wrong usage.
            code = leaving.code if isinstance(leaving.code, int) else USAGE
        sys.stdout.flush()
    except BrokenPipeError:
        _forget(sys.stdout)
        return 0
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
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


def _open_streams() -> None:
    """Replace streams that the caller closed, so that no file gets their numbers."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_WRONLY), number)
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115 - it stays open
        # Escape file names that are not UTF-8 rather than fail.
        getattr(getattr(sys, name), "reconfigure", lambda **_: None)(errors="backslashreplace")


def _module(command: str) -> Any:
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

    def error(self, message: str) -> NoReturn:
        command = self.prog.partition(" ")[2]
        text = " ".join(f"{command}: {message}".split() if command else message.split())
        self.exit(USAGE, f"kafkalog: {text} ({self.prog} --help shows the usage)\n")

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        # The parser of a command gets its words; before anything else they must be options that it has. Otherwise a
        # misspelt option would be reported as a required one that is missing.
        if args is not None and " " in self.prog:
            self._check_options(args)
        return super().parse_known_args(args, namespace)

    def _check_options(self, words: Sequence[str]) -> None:
        known = [option for action in self._actions for option in action.option_strings]
        for word in words:
            if word == "--":
                return
            name = word.partition("=")[0]
            if name.startswith("--") and " " not in name and not any(option.startswith(name) for option in known):
                self.error(f"unknown option {name}{_hint(name, known)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            valid = ", ".join(choices)
            raise argparse.ArgumentError(
                action, f"invalid choice: {value!r}{_hint(str(value), choices)} (choose from {valid})"
            )

    def print_help(self, file: Any = None) -> None:
        # argparse itself ignores errors of printing.
        print(self.format_help(), end="", file=file)


def _parse(words: list[str]) -> argparse.Namespace:
    common = _Parser(add_help=False)
    # Given before the command, it must not be reset by the default after it.
    common.add_argument(
        "--debug", action="store_true", default=argparse.SUPPRESS, help="show the traceback of an error"
    )
    parser = _Parser(
        prog="kafkalog",
        description="Apache Kafka's on-disk logs, without a broker. Commands that read logs write nothing to them.",
        epilog="Exit codes: 0 success, 1 damaged data or a negative answer, 2 wrong usage, 3 input or output failed.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    called = next((word for word in words if not word.startswith("-")), None)
    for name, summary in COMMANDS.items():
        description = f"{summary[0].upper()}{summary[1:]}."
        command = commands.add_parser(
            name, help=summary, description=description, parents=[common], formatter_class=_Formatter
        )
        if name == called:
            module = _module(name)
            command.description = getattr(module, "DESCRIPTION", description)
            command.epilog = getattr(module, "EPILOG", None)
            module.configure(command)
    parsed, rest = parser.parse_known_args(words)
    if rest:
        commands.choices[parsed.command].error(f"unrecognized arguments: {' '.join(rest)}")
    return parsed


def _hint(given: str, valid: Sequence[str]) -> str:
    from kafkalog._arguments import did_you_mean

    return did_you_mean(given, valid)


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from kafkalog import __version__

        print(f"kafkalog {__version__}")
        parser.exit()


def _report(error: Exception) -> int:
    """Report an error on one line, and return its exit code."""
    from kafkalog.cli import _common

    if isinstance(error, (KafkaLogError, OSError)):
        text, code = _common.described(error)
    elif isinstance(error, KeyError):
        text, code = str(error.args[0]) if error.args else str(error), USAGE
    elif isinstance(error, (ValueError, TypeError, LookupError)):
        text, code = str(error), USAGE
    elif isinstance(error, ImportError):
        needed = (error.name or "").split(".")[0]
        text, code = f"{error}; pip install {'kafkalog[spark]' if needed == 'pyspark' else needed}", FAILED
    else:
        text, code = f"{type(error).__name__}: {error} (--debug shows where)", FAILED
    _common.warn(" ".join(text.split()))
    return code


def _forget(stream: TextIO) -> None:
    """Discard the flush at exit: its reader has ended, or the disk is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
