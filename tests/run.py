"""Install everything and run every check: Rust and Python, lints and types, a real broker and Spark.

Usage: ``python3 tests/run.py [STEP...]``; without steps, all of them. Needs Python >= 3.10, Rust and Java 17, and Maven
for the tests that ask Kafka's own classes (they say so where it is missing; CI requires it). The environment is made in
``target/test-venv``.

One step alone prints as it goes. Of several, two run at a time, as half of them wait for brokers and JVMs: each one's
output grows in ``target/steps`` and is printed whole when it ends. A step runs even if another failed, but not if one
that it needs did; the last lines say which did.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def python_of(venv: Path) -> Path:
    """Give the interpreter of an environment."""
    return venv / ("Scripts" if os.name == "nt" else "bin") / "python"


ROOT = Path(__file__).resolve().parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
VENV = TARGET / "test-venv"
PYTHON = python_of(VENV)
# Its own packages are looked up first, and the rest in the one above: both builds are there at once.
DEBUG_VENV = TARGET / "debug-venv"
WHEELS = TARGET / "wheels"
DEBUG_WHEELS = TARGET / "debug-wheels"
OUTPUTS = TARGET / "steps"
SHARED_CORPUS = ROOT.parent / "shared" / "corpus"
SHARED_LOG_CORPUS = SHARED_CORPUS / "log"
IN_CI = os.environ.get("CI") == "true"

ENVIRONMENT = {
    **os.environ,
    "CARGO_TARGET_DIR": str(TARGET),
    "CARGO_TERM_COLOR": "never",
    "PYTHONDONTWRITEBYTECODE": "1",
}


class FailedError(RuntimeError):
    """A step did not succeed; the text says why in a line."""


def run(*command: str | Path, **extra: str) -> None:
    """Run a command in the clone, its output passed through."""
    words = [str(word) for word in command]
    print("+", " ".join(w if len(w) < 200 else w[:200] + "..." for w in words), flush=True)
    done = subprocess.run(words, cwd=ROOT, env={**ENVIRONMENT, **extra}, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise FailedError(f"{Path(words[0]).name} ended with {done.returncode}")


def tools() -> None:
    """Show what is installed; what a step needs is missing only by its own words."""
    if sys.version_info < (3, 10):  # noqa: UP036  (run by whatever python3 is there)
        raise FailedError("Python 3.10 or newer is needed")
    missing = []
    for tool, question, needed_for in (
        ("cargo", "--version", "everything"),
        ("java", "-version", "Spark and Kafka's classes"),
        ("mvn", "-version", "the tests that ask Kafka's own classes"),
    ):
        if shutil.which(tool) is None:
            missing.append(tool)
            print(f"{tool} is missing: needed for {needed_for}")
            continue
        done = subprocess.run([tool, question], capture_output=True, text=True, check=False)
        print((done.stdout + done.stderr).strip().splitlines()[0])
    if IN_CI and missing:
        raise FailedError(f"missing in CI: {', '.join(missing)}")
    if "cargo" in missing:
        raise FailedError("Rust is needed: cargo is not on the path")


def environment() -> None:
    """Make the environment and install what pyproject.toml names for the tests, without kafkalog itself."""
    if not PYTHON.exists():
        run(sys.executable, "-m", "venv", VENV)
    pip = (PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "tomli;python_version<'3.11'")
    code = (
        "import sys\n"
        "tomllib = __import__('tomllib' if sys.version_info >= (3, 11) else 'tomli')\n"
        "project = tomllib.load(open('pyproject.toml', 'rb'))['project']\n"
        "print(*project['dependencies'], *project['optional-dependencies']['test'], sep='\\n')\n"
    )
    named = subprocess.run([PYTHON, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    run(*pip, *named.stdout.split("\n")[:-1])


def rust_format() -> None:
    run("cargo", "fmt", "--check")


def clippy() -> None:
    run("cargo", "clippy", "--locked", "--all-targets", "--", "-D", "warnings")


def clippy_python() -> None:
    run("cargo", "clippy", "--locked", "--all-targets", "--features", "python", "--", "-D", "warnings")


def rust_docs() -> None:
    for feature in ((), ("--features", "python")):
        run("cargo", "doc", "--locked", "--no-deps", *feature, RUSTDOCFLAGS="-D warnings")


def rust_tests() -> None:
    """Debug, so that overflow checks fire."""
    run("cargo", "test", "--locked")


def log_cases() -> None:
    """All cases of writing and recovery that Kafka's classes answered, beyond the selection in tests/golden."""
    if "KAFKALOG_LOG_CORPUS" not in os.environ and not SHARED_LOG_CORPUS.is_dir():
        print("no corpus beside the clone and no KAFKALOG_LOG_CORPUS: the golden selection was run with the Rust tests")
        return
    root = os.environ.get("KAFKALOG_LOG_CORPUS", str(SHARED_LOG_CORPUS))
    run("cargo", "test", "--locked", "--test", "rust", "log_cases", KAFKALOG_LOG_CORPUS=root)


def rust_benches() -> None:
    """That they build and link; who measures builds them for it."""
    run("cargo", "bench", "--locked", "--no-run", "--profile", "dev")


def ruff() -> None:
    run(PYTHON, "-m", "ruff", "format", "--check", ".")
    run(PYTHON, "-m", "ruff", "check", ".")


def packages_of(python: Path) -> Path:
    """Give the folder that an interpreter's packages are installed in."""
    ask = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return Path(subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip())


def install(wheel: Path, python: Path) -> None:
    """Replace whatever kafkalog is installed."""
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "--force-reinstall", "--no-deps", wheel)


def fresh(folder: Path) -> Path:
    """Empty a folder of what an earlier run left."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def the_wheel(folder: Path) -> Path:
    """Give the one wheel of a folder."""
    found = list(folder.glob("*.whl"))
    if len(found) != 1:
        raise FailedError(f"{folder} holds {len(found)} wheels: a build goes before")
    return found[0]


def debug_build() -> None:
    """A wheel with overflow checks, in an environment of its own."""
    maturin = (PYTHON, "-m", "maturin", "build", "--locked", "--profile", "dev", "--interpreter", PYTHON)
    run(*maturin, "--out", fresh(DEBUG_WHEELS))
    python = python_of(DEBUG_VENV)
    if not python.exists():
        run(sys.executable, "-m", "venv", DEBUG_VENV)
    (packages_of(python) / "the-others.pth").write_text(f"{packages_of(PYTHON)}\n", encoding="utf-8")
    install(the_wheel(DEBUG_WHEELS), python)


def types() -> None:
    python = python_of(DEBUG_VENV)
    run(python, "-m", "mypy")
    allowed = ROOT / "tests" / "python" / "stubtest_allowlist.txt"
    run(python, "-m", "mypy.stubtest", "kafkalog._core", *(("--allowlist", allowed) if allowed.exists() else ()))


def pytest(*args: str | Path, python: Path = PYTHON, **extra: str) -> None:
    """Run pytest on the installed wheel."""
    run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *args, **extra)


# Tests that share nothing but the files they read; a process for each core, up to four.
SIDE_BY_SIDE = ("-n", "auto", "--maxprocesses", "4")
# Tests that start servers, which their file shares.
TWO_BY_FILE = ("-n", "2", "--dist", "loadfile")


def python_debug() -> None:
    """The Python face on the debug build."""
    pytest("tests/python", *SIDE_BY_SIDE, python=python_of(DEBUG_VENV))


def release_build() -> None:
    """The wheel that users get, built from the sdist that users get."""
    run(PYTHON, "-m", "maturin", "sdist", "--out", fresh(WHEELS))
    (sdist,) = WHEELS.glob("*.tar.gz")
    # Files of an sdist all have one old time, by which cargo takes the last build for the present one.
    run("cargo", "clean", "--release", "-p", "kafkalog")
    # Tests of a cluster ship the wheel.
    pip = (PYTHON, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check")
    run(*pip, "--no-deps", "--wheel-dir", WHEELS, sdist)
    install(the_wheel(WHEELS), PYTHON)


def python_release() -> None:
    """The Python face on the release build."""
    pytest("tests/python", *SIDE_BY_SIDE)


def corpus() -> None:
    """Every partition folder of a larger corpus: KAFKALOG_CORPUS, or the one beside the clone."""
    if "KAFKALOG_CORPUS" not in os.environ and not SHARED_CORPUS.is_dir():
        print("no KAFKALOG_CORPUS: tests/golden was walked by the steps before")
        return
    root = os.environ.get("KAFKALOG_CORPUS", str(SHARED_CORPUS))
    pytest("tests/python/test_corpus.py", *SIDE_BY_SIDE, KAFKALOG_CORPUS=root)


def spark() -> None:
    if shutil.which("java") is None:
        raise FailedError("java is missing: Spark cannot run")
    pytest("tests/spark", KAFKALOG_WHEEL=str(the_wheel(WHEELS)))


# Beside the one that pip chooses above: the oldest for each of the two ways, and in the slow profile the others.
OLDER_SPARKS, OTHER_SPARKS = ("3.5", "4.0"), ("4.1", "4.2")
# What is run on the older ones every time: each way in and out once, some five minutes with what pip fetches; in the
# slow profile all is.
SHORT = ("read", "transform", "lazy", "retry", "stream", "sink")


def spark_versions() -> None:
    """The Spark tests on older Sparks, each in an environment of its own; what they lack is skipped by its version."""
    versions = (*OLDER_SPARKS, *OTHER_SPARKS) if is_slow() else OLDER_SPARKS
    tests = ("tests/spark",) if is_slow() else tuple(f"tests/spark/test_{name}.py" for name in SHORT)
    wheel = the_wheel(WHEELS)
    for version in versions:
        home = TARGET / f"spark-{version}-venv"
        python = python_of(home)
        if not python.exists():
            run(sys.executable, "-m", "venv", home)
        pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        # pandas 3 is too new for all of them.
        named = ("pandas<3", "pyarrow", "setuptools", "pytest", "pytest-timeout", "hypothesis")
        run(*pip, f"pyspark=={version}.*", *named)
        install(wheel, python)
        # PySpark 4.0 and 3.5 leave their own sockets to the garbage collector, and 3.5 asks distutils.
        kinds = ("ResourceWarning", "DeprecationWarning", "pytest.PytestUnraisableExceptionWarning")
        theirs = [word for kind in kinds for word in ("-W", f"ignore::{kind}")]
        pytest(*theirs, *tests, python=python, KAFKALOG_WHEEL=str(wheel))


def is_slow() -> bool:
    """Tell whether the slow profile is asked for, as the Rust tests do."""
    return os.environ.get("KAFKALOG_SLOW", "0") != "0"


def interop() -> None:
    if shutil.which("mvn") is None and not IN_CI:
        print("mvn is missing: the tests that ask Kafka's own classes are skipped")
    # A broker and its clients wait as much as they work.
    pytest("tests/interop", *TWO_BY_FILE)


def main_job() -> None:
    """The first command of the README, on the wheel that is installed here."""
    run(PYTHON, "tests/main_job.py", "--python", PYTHON, "--out", TARGET / "main-job")


class Step:
    """A function of this file, and those that must have passed before it is begun."""

    def __init__(self, do: Callable[[], None], *needs: Callable[[], None]) -> None:
        self.do = do
        self.name = do.__name__
        self.needs = {each.__name__ for each in needs}


# Whenever there is room, the first that has what it needs is begun: so what others need stands early, and what waits
# longest. Steps that lock cargo's debug folder follow each other.
STEPS = (
    Step(tools),
    Step(environment, tools),
    Step(release_build, environment),
    Step(interop, release_build),
    Step(rust_format, tools),
    Step(clippy, tools),
    Step(clippy_python, tools),
    Step(rust_docs, tools),
    Step(rust_tests, tools),
    Step(log_cases, tools),
    Step(rust_benches, tools),
    Step(debug_build, environment),
    Step(spark, release_build),
    Step(ruff, environment),
    Step(types, debug_build),
    Step(python_debug, debug_build),
    Step(spark_versions, release_build),
    Step(python_release, release_build),
    Step(corpus, release_build),
    Step(main_job, release_build),
)
AT_A_TIME = 2


@dataclass(frozen=True)
class Outcome:
    """How a step ended."""

    name: str
    seconds: float
    failure: str | None


def alone(step: Step) -> int:
    """Run one step in this process, its output passed through."""
    print(f"=== {step.name}", flush=True)
    try:
        step.do()
    except (FailedError, OSError, subprocess.SubprocessError, ValueError) as error:
        print(f"FAILED: {step.name}: {error}", flush=True)
        return 1
    return 0


def apart(step: Step) -> Outcome:
    """Run one step as a process of its own, its output kept in a file."""
    begun = time.monotonic()
    with (OUTPUTS / step.name).open("wb") as output:
        command = [sys.executable, str(Path(__file__).resolve()), step.name]
        done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    failure = f"exit {done.returncode}" if done.returncode else None
    return Outcome(step.name, time.monotonic() - begun, failure)


def side_by_side(steps: Sequence[Step]) -> list[Outcome]:
    """Run steps, each when what it needs of them has passed, and print what they said one by one."""
    fresh(OUTPUTS).mkdir(parents=True)
    outcomes: dict[str, Outcome] = {}
    waiting, running = list(steps), set[Future[Outcome]]()
    names = {step.name for step in steps}
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        while waiting or running:
            ready = next((step for step in waiting if step.needs & names <= outcomes.keys()), None)
            if ready is not None and len(running) < AT_A_TIME:
                waiting.remove(ready)
                failed = sorted(name for name in ready.needs & names if outcomes[name].failure)
                if failed:
                    outcomes[ready.name] = Outcome(ready.name, 0, f"not run: {', '.join(failed)} failed")
                    continue
                print(f"... {ready.name}", flush=True)
                running.add(pool.submit(apart, ready))
                continue
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for outcome in (each.result() for each in ended):
                outcomes[outcome.name] = outcome
                print("\n" + (OUTPUTS / outcome.name).read_text(encoding="utf-8", errors="replace"), flush=True)
    return list(outcomes.values())


def main(chosen: list[str]) -> int:
    """Run the steps and close with a summary."""
    known = {step.name: step for step in STEPS}
    unknown = set(chosen) - set(known)
    if unknown:
        print(f"no such step: {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
        return 2
    if len(chosen) == 1:
        return alone(known[chosen[0]])
    begun = time.monotonic()
    outcomes = side_by_side([step for step in STEPS if not chosen or step.name in chosen])
    print("=== summary")
    for outcome in outcomes:
        print(f"{'FAILED' if outcome.failure else 'passed'}  {outcome.seconds:6.0f} s  {outcome.name}", end="")
        print(f": {outcome.failure}" if outcome.failure else "")
    failed = sum(outcome.failure is not None for outcome in outcomes)
    print(f"{time.monotonic() - begun:.0f} s in all")
    print(f"steps: {len(outcomes) - failed} passed, {failed} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
