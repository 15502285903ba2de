"""Shell completion: what the shells themselves make of the scripts. Without a shell its test is left out."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

import corpus
from command import call, fails
from kafkalog.cli._commands import COMMANDS
from kafkalog.cli.completion import SCRIPTS, answers

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.release

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
TOPICS = ["__transaction_state", "events", "ledger", "orders"]


def needs(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")


@pytest.fixture(name="program")
def kafkalog_on_the_path(tmp_path: Path) -> Path:
    """Give a folder with the command, whatever interpreter runs the tests."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "kafkalog"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kafkalog "$@"\n')
    program.chmod(0o755)
    return folder


def environment(program: Path) -> dict[str, str]:
    paths = os.pathsep.join([str(program), os.environ["PATH"]])
    return {**os.environ, "PATH": paths, "HOME": str(program.parent), "TERM": "dumb", "PS1": "", "HISTFILE": ""}


def typed(command: list[str], program: Path, before: str, keys: str, awaited: str) -> str:
    """Type into an interactive shell, and give what it shows until it shows what is awaited."""
    child, master = pty.fork()
    if child == 0:
        os.chdir(program.parent)
        os.execvpe(command[0], command, environment(program))  # noqa: S606 - it is one
    shown = b""

    def read_until(text: str, seconds: float) -> bool:
        nonlocal shown
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if text.encode() in shown:
                return True
            if select.select([master], [], [], 0.1)[0]:
                try:
                    shown += os.read(master, 65536)
                except OSError:
                    break
        return text.encode() in shown

    try:
        os.write(master, f"{before}\necho rea''dy\n".encode())
        assert read_until("ready\r\n", 30), shown
        shown = b""
        os.write(master, keys.encode())
        read_until(awaited, 30)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(master)
    return shown.decode(errors="replace")


BASH = ["bash", "--norc", "--noprofile", "-i"]
ZSH = ["zsh", "-f", "-i"]
SOURCES = {
    "bash": "source <(kafkalog completion bash)",
    "zsh": "autoload -U compinit; compinit -u -D; source <(kafkalog completion zsh)",
}


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        ("kafkalog offs\t {data} -t ord\t\n", "orders:0:880"),
        ("kafkalog offsets {data} --topic=ord\t\n", "orders:0:880"),
        ("kafkalog offsets {data}/ord\t\n", "orders:0:880"),
        ("kafkalog offsets {data} -t orders,led\t --ti\t earliest\n", "ledger:0:0"),
    ],
)
@pytest.mark.sampled(2)
def test_at_a_tab(shell: str, keys: str, answer: str, program: Path) -> None:
    needs(shell)
    command = BASH if shell == "bash" else ZSH
    shown = typed(command, program, SOURCES[shell], keys.format(data=DATA), answer)
    assert answer in shown, shown


def test_fish(program: Path) -> None:
    needs("fish")

    def completed(line: str) -> list[str]:
        code = f"{SCRIPTS['fish']}\ncomplete -C '{line}'"
        done = subprocess.run(
            ["fish", "--no-config", "-c", code],
            env=environment(program),
            cwd=DATA.parent,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.stderr == ""
        return done.stdout.splitlines()

    assert {line.split("\t")[0] for line in completed("kafkalog ")} == set(COMMANDS)
    assert sorted(completed("kafkalog cat data-1 -t ")) == TOPICS
    assert completed("kafkalog cat data-1 --topic=o") == ["--topic=orders"]
    assert completed("kafkalog cat data-1 -t orders,l") == ["orders,ledger"]
    assert completed("kafkalog cat dat") == ["data-0/", "data-1/"]


def test_answers() -> None:
    assert {line.split("\t")[0] for line in answers([""])} == set(COMMANDS)
    assert answers(["cat", str(DATA), "-t", ""]) == TOPICS
    assert answers(["cat", "-b", str(DATA), "-t", "led"]) == ["ledger"]
    assert answers(["cat", f"-b{DATA}", "-qt", "led"]) == ["ledger"]
    assert answers(["cat", str(DATA), "-p", ""]) == ["0", "1"]
    assert answers(["cat", str(DATA), "-t", "ledger,"]) == [f"ledger,{name}" for name in TOPICS if name != "ledger"]
    assert answers(["cat", str(DATA), "--topic", "=", "led"]) == ["ledger"]
    assert answers(["cat", f"'{DATA}'", "-t", "led"]) == ["ledger"]
    assert answers(["cat", str(DATA / "orders-0"), "-t", ""]) == ["orders"]
    assert answers(["cat", "/no such", "-t", ""]) == answers(["cat", "x"]) == answers(["nope", ""]) == [":files"]
    assert "--isolation-level" in {line.split("\t")[0] for line in answers(["cat", "--iso"])}
    assert "--topics" not in {line.split("\t")[0] for line in answers(["cat", "--"])}, "spellings that are only taken"


def test_scripts_and_what_is_refused() -> None:
    for shell, script in SCRIPTS.items():
        assert call("completion", shell).stdout == script
        if shutil.which(shell):
            checked = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, check=False)
            assert (checked.returncode, checked.stderr) == (0, "")
    assert re.search("one shell of bash, zsh, fish, found 'tcsh'", fails(2, "completion", "tcsh"))
    assert "found 'none'" in fails(2, "completion")
