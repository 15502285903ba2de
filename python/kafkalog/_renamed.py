"""Accepts old spellings of arguments, with a ``DeprecationWarning`` that names the new one."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_Function = TypeVar("_Function", bound="Callable[..., Any]")
_PACKAGE = str(Path(__file__).parent)


def renamed(*positional: str, **names: str) -> Callable[[_Function], _Function]:
    """Let a function take old keywords, and by position what has become keyword-only."""

    def decorate(function: _Function) -> _Function:
        called = function.__qualname__.removesuffix(".__init__")
        kinds = [each.kind for each in inspect.signature(function).parameters.values()]
        most = kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)

        @functools.wraps(function)
        def wrapper(*arguments: Any, **keywords: Any) -> Any:
            for name, value in zip(positional, arguments[most:], strict=False):
                if name in keywords:
                    raise TypeError(f"{called}() got multiple values for argument {name!r}")
                warn(f"{called}() takes {name} by keyword: write {name}=...")
                keywords[name] = value
            taken = arguments[:most] + arguments[most + len(positional) :]
            return function(*taken, **with_new_names(called, names, keywords))

        return wrapper  # type: ignore[return-value]

    return decorate


def with_new_names(function: str, names: Mapping[str, str], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return keywords under their new names."""
    found = dict(keywords)
    for old in names.keys() & found.keys():
        new = names[old]
        # ``dataclasses.replace`` gives every field.
        if new in found and sys._getframe(2).f_code.co_filename != dataclasses.__file__:  # noqa: SLF001
            raise TypeError(f"{function}() got both {new!r} and {old!r}, its old name")
        warn(f"{function}(): {old} is now called {new}")
        found[new] = found.pop(old)
    return found


def warn(text: str) -> None:
    """Warn at the line outside this package that made the call."""
    depth, frame = 2, sys._getframe(1)  # noqa: SLF001 - the documented way to a caller
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_PACKAGE, dataclasses.__file__)):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(text, DeprecationWarning, stacklevel=depth)
