"""Install everything and run the checks: the short tier, or all of them.

Usage: ``python3 tests/run.py [--full] [STEP...]``; without steps, all of the tier. The short tier has each kind of
witness once: Rust tests, the Python suite, a real broker, Spark, the main job, types and lints. ``--full`` has every
check. Needs Python >= 3.10, Rust and Java 17, and Maven for the tests that ask Kafka's own classes (without it they are
skipped, except in CI, which requires it). The virtual environment is ``target/test-venv``.

A single step prints as it goes. Several steps run two at a time, because half of them wait for brokers and JVMs: each
writes its output to ``target/steps``, and the whole of it is printed when the step ends. A step runs even if another
failed, unless it needs that one. The summary at the end says which failed, and where the time went.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from clone import (
    DEBUG_VENV,
    DEBUG_WHEELS,
    IN_CI,
    PYTHON,
    ROOT,
    SHARED_CORPUS,
    TARGET,
    VENV,
    WHEELS,
    answer,
    fresh,
    install,
    new_venv,
    over_test_venv,
    pip_install,
    python_of,
    run,
    the_wheel,
)
from fuzzing import fuzz, has_address_sanitizer, sanitizer
from steps import FailedError, Step, alone, together

if TYPE_CHECKING:
    from pathlib import Path

OUTPUTS = TARGET / "steps"
# Another compiler has a folder of its own: cargo's name for its output is the same.
OLDEST_RUST = TARGET / "oldest-rust"
SHARED_LOG_CORPUS = SHARED_CORPUS / "log"
# What the tests themselves read (tests/tiers.py): a step that runs as a process of its own inherits it.
FULL_TIER = "KAFKALOG_FULL"


def is_full() -> bool:
    """Tell whether this is the full tier or the slow profile."""
    return is_slow() or os.environ.get(FULL_TIER, "0") != "0"


def is_slow() -> bool:
    """Tell whether the slow profile is on, by the variable that the Rust tests read too."""
    return os.environ.get("KAFKALOG_SLOW", "0") != "0"


def prerequisites() -> None:
    """Print the versions of the tools that steps need; outside CI only Rust and Python are required."""
    if sys.version_info < (3, 10):  # noqa: UP036 - the python3 of the PATH may be any
        raise FailedError("Python 3.10 or newer is needed")
    missing = []
    for tool, question, needed_for in (
        ("cargo", "--version", "all steps"),
        ("java", "-version", "Spark and Kafka's classes"),
        ("mvn", "-version", "the tests that ask Kafka's own classes"),
    ):
        if shutil.which(tool) is None:
            missing.append(tool)
            print(f"{tool} is missing; {needed_for} need it")
            continue
        done = subprocess.run([tool, question], capture_output=True, text=True, check=False)
        print((done.stdout + done.stderr).strip().splitlines()[0])
    if is_full():
        chromium()
    if IN_CI and missing:
        raise FailedError(f"missing in CI: {', '.join(missing)}")
    if "cargo" in missing:
        raise FailedError("cargo is not on the PATH: install Rust from https://rustup.rs")


def chromium() -> None:
    """Install the browser in which the report is tested, where this process may; else the tests say that it lacks."""
    names = ("chromium", "chromium-browser", "google-chrome")
    if any(map(shutil.which, names)):
        return
    if IN_CI and shutil.which("apt-get") and os.geteuid() == 0:
        subprocess.run(["apt-get", "update", "-qq"], check=False)
        subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"], check=False)
    if not any(map(shutil.which, names)):
        print("chromium is missing; the tests of the report in a browser need it")


def environment() -> None:
    """Create the environment and install the test dependencies of pyproject.toml, without kafkalog itself."""
    new_venv(VENV)
    pip_install(PYTHON, "tomli;python_version<'3.11'")
    extras = ["test", "engines"] if is_full() else ["test"]
    code = (
        "import sys\n"
        "tomllib = __import__('tomllib' if sys.version_info >= (3, 11) else 'tomli')\n"
        "project = tomllib.load(open('pyproject.toml', 'rb'))['project']\n"
        "extras = project['optional-dependencies']\n"
        f"print(*project['dependencies'], *(each for name in {extras} for each in extras[name]), sep='\\n')\n"
    )
    named = subprocess.run([PYTHON, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    pip_install(PYTHON, *named.stdout.split("\n")[:-1])


def rust_format() -> None:
    run("cargo", "fmt", "--check")


def clippy() -> None:
    """Lint everything with the feature python; in the full tier the library as users build it, too.

    That has no `internal`, which the tests use: what nothing else needs is dead code there.
    """
    # The short tier has built its dependencies' C and procedural macros in its own profile.
    profile = "dev" if is_full() else "short"
    run(
        *("cargo", "clippy", "--locked", "--profile", profile, "--all-targets", "--features", "python"),
        *("--", "-D", "warnings"),
    )
    if is_full():
        for feature in ((), ("--features", "python")):
            run("cargo", "clippy", "--locked", "--lib", *feature, "--", "-D", "warnings")


def rust_docs() -> None:
    for feature in ((), ("--features", "python")):
        run("cargo", "doc", "--locked", "--no-deps", *feature, RUSTDOCFLAGS="-D warnings")


def rust_tests() -> None:
    """Run the Rust tests on the debug build, in which overflow checks fire; unit tests in `sanitizer`, where it can."""
    run("cargo", "test", "--locked", "--test", "rust")
    run("cargo", "test", "--locked", "--doc")
    if not has_address_sanitizer():
        run("cargo", "test", "--locked", "--lib")


def rust_tests_short() -> None:
    """Run the Rust tests with fewer random rounds."""
    run("cargo", "test", "--locked", "--profile", "short", "--lib", "--test", "rust")


def log_cases() -> None:
    """Run all cases of writing and recovery that Kafka's classes answered, not only the selection in tests/golden."""
    if "KAFKALOG_LOG_CORPUS" not in os.environ and not SHARED_LOG_CORPUS.is_dir():
        print("skipped: KAFKALOG_LOG_CORPUS is not set; the step rust_tests runs the selection in tests/golden")
        return
    root = os.environ.get("KAFKALOG_LOG_CORPUS", str(SHARED_LOG_CORPUS))
    run("cargo", "test", "--locked", "--test", "rust", "log_cases", KAFKALOG_LOG_CORPUS=root)


def rust_benches() -> None:
    """Check that the benchmarks build and link; to measure, build them in release mode."""
    run("cargo", "bench", "--locked", "--no-run", "--profile", "dev")


def minimum_rust() -> None:
    """Check the library with the oldest Rust that Cargo.toml allows."""
    text = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    version = next(line.split('"')[1] for line in text.splitlines() if line.startswith("rust-version"))
    # A fixed patch release, so that rustup need not ask for a newer one when it has this one.
    toolchain = f"{version}.0"
    if shutil.which("rustup") is None or (
        toolchain not in answer("rustup", "toolchain", "list")
        and not answer("rustup", "toolchain", "install", toolchain, "--profile", "minimal", "--no-self-update")
        and toolchain not in answer("rustup", "toolchain", "list")
    ):
        print(f"rustup cannot provide Rust {toolchain} here. In its place, the step clippy denies the lint")
        print("incompatible_msrv, which knows in which version the standard library got each item, but not since when")
        print("the language has a construct.")
        return
    # Nothing of it runs, so the C code in it need not be optimised.
    quick = {"CARGO_PROFILE_DEV_OPT_LEVEL": "0", "CARGO_PROFILE_DEV_DEBUG": "false"}
    check = ("cargo", f"+{toolchain}", "check", "--locked", "--lib", "--features", "python")
    run(*check, CARGO_TARGET_DIR=str(OLDEST_RUST), **quick)


def dependencies() -> None:
    """Check licences and duplicates of the crates in Cargo.lock."""
    run(PYTHON, "tests/dependencies.py")
    if answer("cargo", "deny", "--version"):
        run("cargo", "deny", "--locked", "check", "--config", ".deny.toml", "licenses", "bans")


def workflows() -> None:
    """Check the workflows of GitHub, where their linter is installed."""
    if shutil.which("actionlint") is None:
        print("skipped: actionlint is not on the PATH (go install github.com/rhysd/actionlint/cmd/actionlint@latest)")
        return
    run("actionlint")


def ruff() -> None:
    run(PYTHON, "-m", "ruff", "format", "--check", ".")
    run(PYTHON, "-m", "ruff", "check", ".")


MATURIN = (PYTHON, "-m", "maturin", "build", "--locked", "--interpreter", PYTHON)


def debug_build() -> None:
    """Build a wheel with overflow checks and install it into an environment of its own."""
    run(*MATURIN, "--profile", "dev", "--out", fresh(DEBUG_WHEELS))
    install(the_wheel(DEBUG_WHEELS), over_test_venv(DEBUG_VENV))


def short_build() -> None:
    """Build a wheel with overflow checks in the least time, and install it."""
    run(*MATURIN, "--profile", "short", "--out", fresh(WHEELS))
    install(the_wheel(WHEELS), PYTHON)


def release_build() -> None:
    """Build the wheel that users get from the sdist that users get."""
    run(PYTHON, "-m", "maturin", "sdist", "--out", fresh(WHEELS))
    (sdist,) = WHEELS.glob("*.tar.gz")
    # All files of an sdist have the same old modification time, so cargo would consider an earlier build up to date.
    run("cargo", "clean", "--release", "-p", "kafkalog")
    # A file, because the tests of a Spark cluster ship it.
    pip = (PYTHON, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check")
    run(*pip, "--no-deps", "--wheel-dir", WHEELS, sdist)
    install(the_wheel(WHEELS), PYTHON)


def types() -> None:
    python = python_of(DEBUG_VENV) if is_full() else PYTHON
    run(python, "-m", "mypy")
    allowed = ROOT / "tests" / "python" / "stubtest_allowlist.txt"
    run(python, "-m", "mypy.stubtest", "kafkalog._core", *(("--allowlist", allowed) if allowed.exists() else ()))


def pytest(*args: str | Path, python: Path = PYTHON, **extra: str) -> None:
    """Run pytest on the installed wheel, and name the tests that take longest."""
    slowest = ("--durations=15", "--durations-min=3")
    run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *slowest, *args, **extra)


# For tests that share only files that they read: a process for each core, up to four.
SIDE_BY_SIDE = ("-n", "auto", "--maxprocesses", "4")
# For tests that start servers and share them within a file.
TWO_BY_FILE = ("-n", "2", "--dist", "loadfile")


def python() -> None:
    """Run the Python tests of the short tier."""
    pytest("tests/python", *SIDE_BY_SIDE, python=PYTHON, **SHORT_QUERIES)


# Tests marked `release` spend their time in Python and in starting processes, or measure memory over large files. They
# run on the release build only, the others on the debug build only, for the steps corpus, interop, spark and main_job
# read and write with the release build. In the slow profile the release build runs all.
def python_debug() -> None:
    """Run the Python tests on the debug build, where overflow checks fire in the core."""
    pytest("tests/python", "-m", "not release", *SIDE_BY_SIDE, python=python_of(DEBUG_VENV))


def python_release() -> None:
    """Run Python tests on the release build."""
    chosen = () if is_slow() else ("-m", "release")
    pytest("tests/python", *chosen, *SIDE_BY_SIDE, python=PYTHON, **SHORT_QUERIES)


def corpus() -> None:
    """Read, verify and decode every partition folder of a larger corpus, ``KAFKALOG_CORPUS``."""
    if "KAFKALOG_CORPUS" not in os.environ and not SHARED_CORPUS.is_dir():
        print("skipped: KAFKALOG_CORPUS is not set; other steps read tests/golden")
        return
    root = os.environ.get("KAFKALOG_CORPUS", str(SHARED_CORPUS))
    pytest("tests/python", "-m", "corpus", *SIDE_BY_SIDE, KAFKALOG_CORPUS=root)


# The queries of tests are short: optimising what they run takes longer than running it.
SHORT_QUERIES = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def with_archived_classes() -> dict[str, str]:
    """Archive the classes of a short session (JEP 350); return the settings of drivers that map them.

    Such a driver takes some 60 % of the processor time.
    """
    archive = TARGET / "spark-classes.jsa"
    program = (PYTHON, "-W", "ignore", "tests/spark/killing.py", "tests/golden/clean-restarts/data-1/orders-0")
    # Returns when the JVM has written the archive and ended: until then it holds the pipe.
    answer(*map(str, program), f'-XX:ArchiveClassesAtExit="{archive}"', PYSPARK_PYTHON=str(PYTHON), **SHORT_QUERIES)
    if not archive.exists():
        print("this JVM cannot archive classes: drivers load them from their jars")
        return SHORT_QUERIES
    # Without a word where it does not fit: they do without.
    flags = f'{SHORT_QUERIES["SPARK_SUBMIT_OPTS"]} -XX:SharedArchiveFile="{archive}" -Xlog:disable'
    return {"SPARK_SUBMIT_OPTS": flags}


def spark() -> None:
    if shutil.which("java") is None:
        raise FailedError("java is not on the PATH: Spark needs Java 17")
    # In the short tier one driver runs all, and an archive costs as much as another driver.
    settings = with_archived_classes() if is_full() else SHORT_QUERIES
    pytest("tests/spark", python=PYTHON, KAFKALOG_WHEEL=str(the_wheel(WHEELS)), **settings)


# In addition to the version that pip chose above: the oldest without and with data sources. They run the tests marked
# `every_spark`, for what differs between versions is how Spark calls us. In the slow profile all versions run all.
OLDER_SPARKS = ("3.5", "4.0")
OTHER_SPARKS = ("4.1", "4.2")


def spark_versions() -> None:
    """Run Spark tests on older versions, each in its own environment; tests skip what a version lacks."""
    wheel = the_wheel(WHEELS)
    for version in (*OLDER_SPARKS, *OTHER_SPARKS) if is_slow() else OLDER_SPARKS:
        python = new_venv(TARGET / f"spark-{version}-venv")
        # None of them accepts pandas 3.
        named = ("pandas<3", "pyarrow", "setuptools", "pytest", "pytest-timeout", "hypothesis")
        pip_install(python, f"pyspark=={version}.*", *named)
        install(wheel, python)
        # PySpark 4.0 and 3.5 leave sockets of their own to the garbage collector, and 3.5 imports distutils.
        kinds = ("ResourceWarning", "DeprecationWarning", "pytest.PytestUnraisableExceptionWarning")
        theirs = [word for kind in kinds for word in ("-W", f"ignore::{kind}")]
        chosen = () if is_slow() else ("-m", "every_spark")
        pytest(*theirs, "tests/spark", *chosen, python=python, KAFKALOG_WHEEL=str(wheel), **SHORT_QUERIES)


def distributed() -> None:
    """Run the recipes of Ray and Daft, in an environment of their own: Daft wants an older pyarrow."""
    if not is_slow():
        print("skipped: they install 600 MB; KAFKALOG_SLOW=1 runs them")
        return
    python = over_test_venv(TARGET / "distributed-venv")
    pip_install(python, "ray[data]", "daft")
    install(the_wheel(WHEELS), python)
    pytest("tests/python/test_guides.py", "-k", "ray or daft", python=python)


def interop() -> None:
    if shutil.which("mvn") is None and not IN_CI:
        print("mvn is not on the PATH: the tests that ask Kafka's own classes are skipped")
    # Brokers and their clients wait half of the time.
    pytest("tests/interop", *TWO_BY_FILE, python=PYTHON, **SHORT_QUERIES)


def main_job() -> None:
    """Run the first command of the README on the wheel that is installed here."""
    run(PYTHON, "tests/main_job.py", "--python", PYTHON, "--out", TARGET / "main-job")


# When a slot is free, the first step starts that has what it needs. So steps that others need come early, and long ones
# before short ones. Steps that lock the same target folder follow each other.
SHORT_STEPS = (
    Step(prerequisites),
    Step(environment, prerequisites),
    Step(short_build, environment),
    Step(rust_tests_short, short_build),
    Step(interop, short_build),
    Step(spark, short_build),
    Step(python, short_build),
    Step(clippy, rust_tests_short),
    Step(rust_format, prerequisites),
    Step(ruff, environment),
    Step(types, short_build),
    Step(main_job, short_build),
)
FULL_STEPS = (
    Step(prerequisites),
    Step(environment, prerequisites),
    Step(release_build, environment),
    Step(interop, release_build),
    Step(rust_format, prerequisites),
    Step(clippy, prerequisites),
    Step(rust_docs, prerequisites),
    Step(rust_tests, prerequisites),
    Step(log_cases, rust_tests),
    Step(rust_benches, prerequisites),
    Step(debug_build, environment),
    Step(spark, release_build),
    Step(ruff, environment),
    Step(types, debug_build),
    Step(python_debug, debug_build),
    Step(sanitizer, prerequisites),
    Step(fuzz, sanitizer),
    Step(minimum_rust, prerequisites),
    Step(dependencies, environment),
    Step(workflows, prerequisites),
    Step(spark_versions, release_build),
    Step(python_release, release_build),
    Step(corpus, release_build),
    Step(main_job, release_build),
    Step(distributed, release_build),
)


def main(words: list[str]) -> int:
    """Run the steps and close with a summary."""
    if "--full" in words:
        os.environ[FULL_TIER] = "1"
    chosen = [word for word in words if word != "--full"]
    tier = FULL_STEPS if is_full() else SHORT_STEPS
    known = {step.name: step for step in (*SHORT_STEPS, *FULL_STEPS)}
    unknown = set(chosen) - set(known)
    if unknown:
        print(f"unknown steps: {', '.join(sorted(unknown))}; the steps are: {', '.join(known)}")
        return 2
    if len(chosen) == 1:
        return alone(known[chosen[0]])
    chosen_steps = [known[name] for name in known if name in chosen] if chosen else list(tier)
    return together(chosen_steps, fresh(OUTPUTS))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
