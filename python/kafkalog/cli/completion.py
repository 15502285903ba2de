"""``kafkalog completion``: prints what makes a shell complete ``kafkalog``'s words.

The scripts are short: at each tab they call ``kafkalog completion --words`` with the words so far, which answers from
the commands' own parsers, and from the folders of the path that was typed.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from kafkalog.cli._commands import COMMANDS
from kafkalog.cli._words import INSTEAD_OF_PATH, split_option

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

EPILOG = """\
Commands, options, their values and files are completed, and topics and partitions of the path that stands before them.

examples:
  source <(kafkalog completion bash)    # in ~/.bashrc
  source <(kafkalog completion zsh)     # in ~/.zshrc, after compinit
  kafkalog completion fish > ~/.config/fish/completions/kafkalog.fish"""

# Each calls back with the words up to the cursor; a first line ":files" asks for files.
SCRIPTS = {
    "bash": r"""_kafkalog() {
    local IFS=$'\n' answers
    answers=($("${COMP_WORDS[0]}" completion --words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    COMPREPLY=()
    if [[ ${answers[0]} == :files ]]; then
        compopt -o default
        return
    fi
    local answer
    for answer in "${answers[@]}"; do COMPREPLY+=("$(printf %q "${answer%%$'\t'*}")"); done
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *, ]] && compopt -o nospace
    return 0
}
complete -F _kafkalog kafkalog
""",
    "zsh": r"""#compdef kafkalog
_kafkalog() {
    local -a answers names shown
    local answer
    answers=("${(@f)$("${words[1]}" completion --words -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ ${answers[1]} == :files ]]; then
        _files
        return
    fi
    for answer in $answers; do
        names+=("${answer%%$'\t'*}")
        shown+=("${answer/$'\t'/  -- }")
    done
    (( $#names )) && compadd -l -d shown -a names
}
compdef _kafkalog kafkalog
""",
    "fish": r"""function __kafkalog_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l answers ($words[1] completion --words -- $words[2..-1] 2>/dev/null)
    if test "$answers[1]" = ":files"
        __fish_complete_path (commandline -ct)
    else
        printf '%s\n' $answers
    end
end
complete -c kafkalog -f -a '(__kafkalog_complete)'
""",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("shell", nargs="*", metavar="SHELL", help=f"one of {', '.join(SCRIPTS)}")
    parser.add_argument("--words", action="store_true", help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Print the script of a shell, or what completes words."""
    if arguments.words:
        print("\n".join(answers(arguments.shell)))
        return 0
    if len(arguments.shell) != 1 or arguments.shell[0] not in SCRIPTS:
        default = os.path.basename(os.environ.get("SHELL", ""))  # noqa: PTH119 - of any text
        hint = f"; your shell is {default}" if default in SCRIPTS and not arguments.shell else ""
        found = " ".join(arguments.shell) or "none"
        raise ValueError(f"expected one shell of {', '.join(SCRIPTS)}, found {found!r}{hint}")
    sys.stdout.write(SCRIPTS[arguments.shell[0]])
    return 0


FILES = [":files"]


def answers(words: Sequence[str]) -> list[str]:
    """Return what the last word may become, each with a tab and a description; or that it is a file."""
    *before, last = [_unquoted(word) for word in _joined(words)] or [""]
    if not before:
        return [f"{name}\t{summary}" for name, summary in COMMANDS.items() if name.startswith(last)] + _long(
            ["--help", "--version", "--debug"], last
        )
    command, *given = before
    if command not in COMMANDS:
        return FILES
    parser = argparse.ArgumentParser(prog="kafkalog", add_help=True)
    from kafkalog.cli.main import module_of

    module_of(command).configure(parser)
    action, prefix, value = _action(parser, given, last)
    # Bash replaces only what follows the sign at which it splits words.
    prefix = "" if "=" in words else prefix
    if action is None and last.startswith("-") and last != "-":
        shown = [each for each in parser._actions if each.help != argparse.SUPPRESS]  # noqa: SLF001
        return [
            f"{name}\t{_first_sentence(each.help)}"
            for each in shown
            for name in each.option_strings
            if name.startswith(last)
        ]
    if action is None:
        choices = [each.choices for each in parser._actions if not each.option_strings and each.choices]  # noqa: SLF001
        if command == "completion":
            choices = [SCRIPTS]
        return [str(each) for each in choices[0] if str(each).startswith(value)] if choices else FILES
    return [prefix + each for each in _values(parser, action, given, value)] or FILES


def _joined(words: Sequence[str]) -> list[str]:
    """Return the words as the user typed them: bash splits ``--topic=orders`` at the sign."""
    found: list[str] = []
    for word in words:
        if found and (word == "=" or found[-1].endswith("\0")):
            found[-1] = found[-1].removesuffix("\0") + word + ("\0" if word == "=" else "")
        else:
            found.append(word)
    return [word.removesuffix("\0") for word in found]


def _action(
    parser: argparse.ArgumentParser, given: Sequence[str], last: str
) -> tuple[argparse.Action | None, str, str]:
    """Return the option whose value is typed, what stands before the value in its word, and the value so far."""
    if last.startswith("--") and "=" in last:
        name, _, value = last.partition("=")
        return split_option(parser, name)[0], f"{name}=", value
    if given and given[-1].startswith("-") and given[-1] != "-":
        action, attached = split_option(parser, given[-1])
        if action is not None and action.nargs != 0 and attached is None:
            return action, "", last
    return None, "", last


def _values(parser: argparse.ArgumentParser, action: argparse.Action, given: Sequence[str], value: str) -> list[str]:
    """Return the values of an option that begin as typed; of several with commas the last one is completed."""
    head, comma, tail = value.rpartition(",")
    if action.choices is not None:
        return [str(each) for each in action.choices if str(each).startswith(value)]
    if action.dest in {"topic", "topics", "partition"}:
        from kafkalog.cli._selection import partitions_below

        there = partitions_below(os.path.expanduser(each) for each in _paths(parser, given))  # noqa: PTH111
        taken = set(head.split(","))
        numbers = {number for some in there.values() for number in some}
        names: Iterable[str] = map(str, sorted(numbers)) if action.dest == "partition" else sorted(there)
        return [head + comma + name for name in names if name.startswith(tail) and name not in taken]
    return []


def _paths(parser: argparse.ArgumentParser, given: Sequence[str]) -> list[str]:
    """Return the words that stand by themselves, and the values of options that name the path."""
    found, expected = [], None
    for word in given:
        if expected is not None:
            found += [word] if expected.dest == INSTEAD_OF_PATH else []
            expected = None
        elif word.startswith("-") and word != "-":
            action, value = split_option(parser, word)
            expected = action if action is not None and action.nargs != 0 and value is None else None
            if action is not None and action.dest == INSTEAD_OF_PATH and value is not None:
                found.append(value)
        else:
            found.append(word)
    return found


def _unquoted(word: str) -> str:
    """Return a word without the quotes and backslashes that shells hand over."""
    import shlex

    try:
        return "".join(shlex.split(word, comments=False)) if set(word) & set("'\"\\") else word
    except ValueError:
        return word


def _long(names: Iterable[str], last: str) -> list[str]:
    return [name for name in names if last.startswith("-") and name.startswith(last)]


def _first_sentence(text: str | None) -> str:
    return " ".join((text or "").replace("%%", "%").split()).partition(";")[0][:60]
