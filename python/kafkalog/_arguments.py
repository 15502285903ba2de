"""Converts arguments of callers to those of the compiled module, and checks them, once.

Every error names what would have been valid.
"""

from __future__ import annotations

import errno
import operator
import os
import re
from collections.abc import Iterable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalog import _core
from kafkalog._times import since_1970, to_millis

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalog.typing import EndingOffsets, Partitions, Paths, StartingOffsets, StrPath, Timestamps

_T = TypeVar("_T", bound=str)

EARLIEST = -2
LATEST = -1
MAX_THREADS = 1024
INT32_MAX = (1 << 31) - 1
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
# Topic.validate
TOPIC_NAME = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}")


def choose(option: str, given: str, valid: Sequence[_T]) -> _T:
    """Return the value if it is valid; the error lists the valid ones."""
    if not isinstance(given, str):
        raise TypeError(f"{option} must be one of {listing(valid)}, not {given!r}")
    for value in valid:
        if value == given:
            return value
    raise ValueError(f"unknown {option} {given!r}{did_you_mean(given, valid)}; valid are {listing(valid)}")


def listing(names: Iterable[str]) -> str:
    """Write names for a message."""
    return ", ".join(repr(name) for name in names)


def did_you_mean(given: str, valid: Iterable[str]) -> str:
    """Suggest the nearest name, if one is near."""
    name = nearest(given, valid)
    return "" if name is None else f" (did you mean {name!r}?)"


def nearest(given: str, valid: Iterable[str]) -> str | None:
    """Return the name that takes the fewest edits, of those the one with the longest common start, if one is near."""
    wanted = given.casefold()

    def distance(name: str) -> tuple[int, int]:
        folded = name.casefold()
        common = takewhile(lambda pair: pair[0] == pair[1], zip(wanted, folded, strict=False))
        return _edits(wanted, folded), -sum(1 for _ in common)

    name = min(valid, key=distance, default=None)
    return None if name is None or _edits(wanted, name.casefold()) > max(1, len(given) // 3) else name


def _edits(one: str, other: str) -> int:
    """Count the letters to insert, delete, replace or swap with the next one (Damerau and Levenshtein)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for n, a in enumerate(one, 1):
        before, last, row = row, before, [n]
        for m, b in enumerate(other, 1):
            row.append(min(before[m] + 1, row[m - 1] + 1, before[m - 1] + (a != b)))
            if n > 1 and m > 1 and (a, one[n - 2]) == (other[m - 2], b):
                row[m] = min(row[m], last[m - 2] + 1)
    return row[-1]


def taken(out: Path | str) -> FileExistsError:
    """Make the error for an output that exists, in the words of the core."""
    reason = f"{os.strerror(errno.EEXIST)}: choose another path for the result, or remove the one that exists"
    return FileExistsError(errno.EEXIST, reason, str(out))


def path(given: StrPath) -> str:
    """Return a path for reading as text, from the root: it must hold when the process changes its working directory.

    A URL of a store is one, which is mounted now.
    """
    from kafkalog import storage

    text = _text(given)
    return storage.place(text) or local(text)


def local(given: StrPath) -> str:
    """Return a path on a disk likewise; URLs other than ``file:`` are refused."""
    text = _core.local_path(at_home(_text(given)))
    if "\0" in text:
        raise ValueError(f"a path cannot contain a null character: {text!r}")
    # Not os.path.abspath: it resolves .. without regard to links.
    return text if text.startswith("/") else str(Path(text).absolute())


def at_home(text: str) -> str:
    """Return a path below ``~/`` as one of the home folder: a shell leaves it in quotes and behind ``=`` as it is."""
    return str(Path(text).expanduser()) if text == "~" or text.startswith("~/") else text


def _text(given: StrPath) -> str:
    text = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(text, str):
        raise TypeError(f"a path must be a str or os.PathLike[str], not {given!r}")
    if not text:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), text)
    return text


def local_paths(given: Paths) -> list[str]:
    """Return one path or several on a disk as a list."""
    return _several(given, local)


def paths(given: Paths) -> list[str]:
    """Return one path or several for reading as a list."""
    return _several(given, path)


def _several(given: Paths, one: Callable[[StrPath], str]) -> list[str]:
    if isinstance(given, (str, os.PathLike)):
        return [one(given)]
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise TypeError(f"a path must be a str or os.PathLike[str], or a list of them, not {given!r}")
    found = [one(each) for each in given]
    if not found:
        raise ValueError("the list of paths is empty")
    return found


def names(option: str, given: str | Iterable[str] | None) -> list[str] | None:
    """Return one name or several as a list."""
    if given is None:
        return None
    if not isinstance(given, Iterable):
        raise TypeError(f"{option} must be a name or a list of names, not {given!r}")
    found = [given] if isinstance(given, str) else list(given)
    for each in found:
        if not isinstance(each, str):
            raise TypeError(f"{option} takes names, not {each!r}")
    return found


def column_names(given: str | Iterable[str] | None, valid: Sequence[str]) -> tuple[str, ...] | None:
    """Return the columns in the order given, each at most once; all for ``"*"``."""
    if given == "*":
        return tuple(valid)
    found = names("columns", given)
    if found is None:
        return None
    if not found:
        raise ValueError(f"no columns are named; valid are {', '.join(valid)}")
    for name in found:
        if name not in valid:
            raise ValueError(f"unknown column {name!r}{did_you_mean(name, valid)}; valid are {', '.join(valid)}")
        if found.count(name) > 1:
            raise ValueError(f"column {name!r} is named twice")
    return tuple(found)


def integer(option: str, given: Any, least: int = INT64_MIN, most: int = INT64_MAX) -> int:
    """Return a whole number within its bounds."""
    if isinstance(given, bool):
        raise TypeError(f"{option} must be a number, not {given!r}")
    try:
        number = operator.index(given)
    except TypeError:
        raise TypeError(f"{option} must be a whole number, not {given!r}") from None
    if not least <= number <= most:
        raise ValueError(f"{option} is {number}, which is not within {least} to {most}")
    return number


def optional_integer(option: str, given: Any, least: int = INT64_MIN, most: int = INT64_MAX) -> int | None:
    """Return a whole number within its bounds, or None."""
    return None if given is None else integer(option, given, least, most)


def flag(option: str, given: Any) -> bool:
    """Return a bool; other values that count as true or false are probably mistakes."""
    if not isinstance(given, bool):
        raise TypeError(f"{option} must be True or False, not {given!r}")
    return given


def function(option: str, given: Any) -> Any:
    """Return a callable, or None."""
    if given is not None and not callable(given):
        raise TypeError(f"{option} must be callable, not {given!r}")
    return given


def text(option: str, given: Any) -> str | None:
    """Return a str, or None."""
    if given is not None and not isinstance(given, str):
        raise TypeError(f"{option} must be a str, not {given!r}")
    return given


def partitions(given: Partitions | None) -> list[int] | dict[str, list[int]] | None:
    """Return partition numbers, for every topic or by topic."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        return {_topic("partitions", topic): _partitions(some) for topic, some in given.items()}
    return _partitions(given)


def _partitions(given: Any) -> list[int]:
    if isinstance(given, (str, bytes)):
        raise TypeError(f"partitions takes numbers, not {given!r}")
    several = given if isinstance(given, Iterable) else [given]
    return [_partition("partitions", each) for each in several]


def _partition(option: str, given: Any) -> int:
    return integer(f"a partition in {option}", given, 0, INT32_MAX)


def _topic(option: str, given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError(f"{option} takes {{topic: ...}}, not {given!r} as a topic")
    return given


def starting_offsets(option: str, given: StartingOffsets) -> Any:
    """Return "earliest", "oldest", an offset, or offsets by partition."""
    return _offsets(option, given, ("earliest", "oldest"), EARLIEST)


def ending_offsets(option: str, given: EndingOffsets) -> Any:
    """Return "latest", "high_watermark", an offset, or offsets by partition."""
    return _offsets(option, given, ("latest", "high_watermark"), LATEST)


def _offsets(option: str, given: Any, words: Sequence[str], word_number: int) -> Any:
    def offset(value: Any) -> int:
        number = integer(option, value)
        if number < 0 and number != word_number:
            raise ValueError(f"{option} is {number}; the only negative offset is {word_number}, for {words[0]}")
        return number

    if isinstance(given, str):
        return choose(option, given, words)
    if isinstance(given, Mapping):
        return _by_partition(option, given, offset)
    number = offset(given)
    return words[0] if number == word_number else number


def _by_partition(option: str, given: Mapping[Any, Any], value: Callable[[Any], int]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for topic, each in given.items():
        if not isinstance(each, Mapping):
            raise TypeError(f"{option} takes {{topic: {{partition: ...}}}}, not {each!r} for topic {topic!r}")
        found[_topic(option, topic)] = {_partition(option, number): value(one) for number, one in each.items()}
    return found


def timestamps(option: str, given: Timestamps | None) -> int | dict[str, dict[int, int]] | None:
    """Return milliseconds since the epoch, for all partitions or by partition."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        return _by_partition(option, given, lambda value: lookup_time(option, value))
    return lookup_time(option, given)


def lookup_time(option: str, given: Any) -> int:
    """Return the milliseconds since the epoch of a time to look up."""
    return since_1970(to_millis(given, option), option)
