"""Install everything and run every check: Rust and Python, lints and types, a real broker and Spark.

Usage: ``python3 tests/run.py [STEP...]``; without steps, all of them. Needs Python >= 3.10, Rust and Java 17, and Maven
for the tests that ask Kafka's own classes (without it they are skipped, except in CI, which requires it). The virtual
environment is ``target/test-venv``.

A single step prints as it goes. Several steps run two at a time, because half of them wait for brokers and JVMs: each
writes its output to ``target/steps``, and the whole of it is printed when the step ends. A step runs even if another
failed, unless it needs that one. The summary at the end says which failed, and where the time went.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from steps import FailedError, Step, alone, together


def python_of(venv: Path) -> Path:
    """Return the interpreter of an environment."""
    return venv / ("Scripts" if os.name == "nt" else "bin") / "python"


ROOT = Path(__file__).resolve().parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
VENV = TARGET / "test-venv"
PYTHON = python_of(VENV)
# Has a debug build of kafkalog, and finds all other packages in the environment above.
DEBUG_VENV = TARGET / "debug-venv"
WHEELS = TARGET / "wheels"
DEBUG_WHEELS = TARGET / "debug-wheels"
OUTPUTS = TARGET / "steps"
# Another compiler, and another build of the library, have folders of their own: cargo's name for it is the same.
OLDEST_RUST = TARGET / "oldest-rust"
FUZZ_PACKAGE = ROOT / "tests" / "fuzz"
FUZZING = TARGET / "fuzzing"
SHARED_CORPUS = ROOT.parent / "shared" / "corpus"
SHARED_LOG_CORPUS = SHARED_CORPUS / "log"
IN_CI = os.environ.get("CI") == "true"

ENVIRONMENT = {
    # What an incremental build prepares for the next one costs half of a compilation more.
    "CARGO_INCREMENTAL": "0",
    **os.environ,
    "CARGO_TARGET_DIR": str(TARGET),
    "CARGO_TERM_COLOR": "never",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def run(*command: str | Path, **extra: str) -> None:
    """Run a command in the clone and pass its output through."""
    words = [str(word) for word in command]
    print("+", " ".join(w if len(w) < 200 else w[:200] + "..." for w in words), flush=True)
    done = subprocess.run(words, cwd=ROOT, env={**ENVIRONMENT, **extra}, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise FailedError(f"{Path(words[0]).name} ended with {done.returncode}")


def answer(*command: str, **extra: str) -> str:
    """Run a command in the clone and return what it prints; nothing if it fails."""
    done = subprocess.run(command, cwd=ROOT, env={**ENVIRONMENT, **extra}, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


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
    if IN_CI and missing:
        raise FailedError(f"missing in CI: {', '.join(missing)}")
    if "cargo" in missing:
        raise FailedError("cargo is not on the PATH: install Rust from https://rustup.rs")


def pip_install(python: Path, *args: str | Path) -> None:
    """Install packages. What pip builds itself, PySpark above all, is stored: it is unpacked at once."""
    settings = TARGET / "pip-builds.cfg"
    TARGET.mkdir(parents=True, exist_ok=True)
    settings.write_text("[bdist_wheel]\ncompression = stored\n", encoding="utf-8")
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, *args, DIST_EXTRA_CONFIG=str(settings))


def environment() -> None:
    """Create the environment and install the test dependencies of pyproject.toml, without kafkalog itself."""
    if not PYTHON.exists():
        run(sys.executable, "-m", "venv", VENV)
    pip_install(PYTHON, "tomli;python_version<'3.11'")
    code = (
        "import sys\n"
        "tomllib = __import__('tomllib' if sys.version_info >= (3, 11) else 'tomli')\n"
        "project = tomllib.load(open('pyproject.toml', 'rb'))['project']\n"
        "print(*project['dependencies'], *project['optional-dependencies']['test'], sep='\\n')\n"
    )
    named = subprocess.run([PYTHON, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    pip_install(PYTHON, *named.stdout.split("\n")[:-1])


def rust_format() -> None:
    run("cargo", "fmt", "--check")


def clippy() -> None:
    """Lint everything with the feature python, and the library without it."""
    for targets in (("--all-targets", "--features", "python"), ("--lib",)):
        run("cargo", "clippy", "--locked", *targets, "--", "-D", "warnings")


def rust_docs() -> None:
    for feature in ((), ("--features", "python")):
        run("cargo", "doc", "--locked", "--no-deps", *feature, RUSTDOCFLAGS="-D warnings")


def rust_tests() -> None:
    """Run the Rust tests on the debug build, in which overflow checks fire; unit tests in `sanitizer`, where it can."""
    run("cargo", "test", "--locked", "--test", "rust")
    run("cargo", "test", "--locked", "--doc")
    if not has_address_sanitizer():
        run("cargo", "test", "--locked", "--lib")


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


def has_address_sanitizer() -> bool:
    """Tell whether the toolchain ships the runtime of AddressSanitizer for this machine; if not, say so."""
    folder = Path(answer("rustc", "--print", "target-libdir").strip())
    if any(folder.glob("librustc-*_rt.asan.*")):
        return True
    print(f"no AddressSanitizer: {folder} has no runtime of it (librustc-*_rt.asan)")
    return False


# Compiles our own packages with the flags in SANITIZER_FLAGS, and dependencies without.
INSTRUMENTING_RUSTC = FUZZ_PACKAGE / "rustc.sh"
# Leaks are not errors here: some tests leak on purpose, and finding leaks takes ptrace.
SANITIZER_OPTIONS = {"ASAN_OPTIONS": "detect_leaks=0"}
# The coverage that cargo-fuzz uses.
COVERAGE = ("level=4", "inline-8bit-counters", "pc-table", "trace-compares")


def sanitizer() -> None:
    """Run the unit tests under AddressSanitizer; without one, rust_tests runs them."""
    if not has_address_sanitizer():
        return
    # A wrapper for the workspace: cargo keeps what it builds apart from other builds.
    wrapper = {"RUSTC_WORKSPACE_WRAPPER": str(INSTRUMENTING_RUSTC), "SANITIZER_FLAGS": "-Zsanitizer=address"}
    run("cargo", "test", "--locked", "--lib", **wrapper, **SANITIZER_OPTIONS)


FUZZ_SECONDS = 60
# What each fuzz target is first given: files of these kinds, the small ones of all corpora.
SEEDS = {
    "batch": ("*.log",),
    "segment": ("*.log",),
    "resync": ("*.log",),
    "append": ("*.log",),
    "record": (),
    "decompress": (),
    "index": ("*.index", "*.timeindex", "*.txnindex"),
    "tables": ("__*/*.log", "__*/*.checkpoint"),
    "names": ("*checkpoint", "*.snapshot", "*.metadata", "*.properties"),
}
SEED_BYTES, SEED_FILES = 1 << 15, 300


def seeds(target: str) -> Path:
    """Copy the seeds of a fuzz target into a folder of its own: libFuzzer takes folders without subfolders."""
    folder = fresh(FUZZING / target / "seeds")
    folder.mkdir(parents=True)
    larger = os.environ.get("KAFKALOG_CORPUS", str(SHARED_CORPUS)).split(os.pathsep)
    for number, root in enumerate((ROOT / "tests" / "golden", *map(Path, larger))):
        found = sorted({path for pattern in SEEDS[target] for path in root.rglob(pattern)})
        found = [path for path in found if path.is_file() and 0 < path.stat().st_size <= SEED_BYTES]
        # A sample over the whole corpus, the same every time.
        for index, path in enumerate(found[:: max(1, len(found) // SEED_FILES)]):
            shutil.copyfile(path, folder / f"{number}-{index:04}")
    return folder


def share_dependencies(built: Path) -> None:
    """Give a build of its own the dependencies that the clone has compiled; cargo finds those up to date that fit."""
    import fcntl

    compiled = TARGET / "debug"
    if built.exists() or not (compiled / ".cargo-lock").exists():
        return
    ours = shutil.ignore_patterns("*kafkalog*", "rust-*")
    with (compiled / ".cargo-lock").open() as lock:
        # As cargo locks it, which another step may run.
        fcntl.flock(lock, fcntl.LOCK_SH)
        for name in ("deps", "build", ".fingerprint"):
            shutil.copytree(compiled / name, built / "debug" / name, symlinks=True, ignore=ours)


def fuzz() -> None:
    """Fuzz each target of tests/fuzz for its share of a minute, from seeds and what earlier runs found."""
    if not has_address_sanitizer():
        return
    # The package is a workspace of its own. Its lock starts from the clone's, so that both have the same crates.
    shutil.copyfile(ROOT / "Cargo.lock", FUZZ_PACKAGE / "Cargo.lock")
    flags = ["-Zsanitizer=address", "-Cpasses=sancov-module", "--cfg=fuzzing"]
    flags += [f"-Cllvm-args=-sanitizer-coverage-{each}" for each in COVERAGE]
    wrapper = {"RUSTC_WRAPPER": str(INSTRUMENTING_RUSTC), "SANITIZER_FLAGS": " ".join(flags)}
    built = FUZZING / "build"
    share_dependencies(built)
    # Optimising our code takes longer than what it saves in a minute.
    quick = ("--config", "profile.dev.package.kafkalog.opt-level=0")
    manifest = ("--manifest-path", FUZZ_PACKAGE / "Cargo.toml")
    run("cargo", "build", *quick, *manifest, **wrapper, CARGO_TARGET_DIR=str(built))
    for target in SEEDS:
        found = FUZZING / target / "found"
        found.mkdir(parents=True, exist_ok=True)
        limits = ("-timeout=10", "-rss_limit_mb=3000", f"-max_len={SEED_BYTES}", "-print_final_stats=1", "-verbosity=0")
        program = built / "debug" / target
        share = f"-max_total_time={max(1, FUZZ_SECONDS // len(SEEDS))}"
        # A failure leaves the input here; the same program with its path as the only argument repeats it.
        run(program, share, *limits, f"-artifact_prefix={FUZZING / target}/", found, seeds(target), **SANITIZER_OPTIONS)


def ruff() -> None:
    run(PYTHON, "-m", "ruff", "format", "--check", ".")
    run(PYTHON, "-m", "ruff", "check", ".")


def packages_of(python: Path) -> Path:
    """Return the folder in which an interpreter's packages are installed."""
    ask = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return Path(subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip())


def install(wheel: Path, python: Path) -> None:
    """Install kafkalog in place of the one that is installed."""
    pip_install(python, "--force-reinstall", "--no-deps", wheel)


def fresh(folder: Path) -> Path:
    """Delete a folder that an earlier run left."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def the_wheel(folder: Path) -> Path:
    """Return the only wheel in a folder."""
    found = list(folder.glob("*.whl"))
    if len(found) != 1:
        raise FailedError(f"{folder} holds {len(found)} wheels instead of one: run the step that builds it")
    return found[0]


def over_test_venv(home: Path) -> Path:
    """Make an environment that has the packages of the test environment, except what it has itself."""
    python = python_of(home)
    if not python.exists():
        run(sys.executable, "-m", "venv", home)
    (packages_of(python) / "test-venv.pth").write_text(f"{packages_of(PYTHON)}\n", encoding="utf-8")
    return python


def debug_build() -> None:
    """Build a wheel with overflow checks and install it into an environment of its own."""
    maturin = (PYTHON, "-m", "maturin", "build", "--locked", "--profile", "dev", "--interpreter", PYTHON)
    run(*maturin, "--out", fresh(DEBUG_WHEELS))
    install(the_wheel(DEBUG_WHEELS), over_test_venv(DEBUG_VENV))


def types() -> None:
    python = python_of(DEBUG_VENV)
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


# These spend their time in Python and in starting processes, or measure memory over large files. They run on the
# release build only, the others on the debug build only, for the steps corpus, interop, spark and main_job read and
# write with the release build. In the slow profile the release build runs all.
RELEASE_ONLY = (
    "cli",
    "cli_errors",
    "cli_groups",
    "cli_mistakes",
    "cli_selection",
    "cli_sources",
    "dry_run",
    "export_ends",
    "flags_cli",
    "guides",
    "import",
    "import_resume",
    "lack",
    "memory",
    "readme",
    "recover_cli",
    "start",
    "truncate_cli",
    "typing",
)


def python_debug() -> None:
    """Run the Python tests on the debug build, where overflow checks fire in the core."""
    left_out = [f"--ignore=tests/python/test_{name}.py" for name in RELEASE_ONLY]
    pytest("tests/python", *left_out, *SIDE_BY_SIDE, python=python_of(DEBUG_VENV))


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


def python_release() -> None:
    """Run Python tests on the release build."""
    short = [f"tests/python/test_{name}.py" for name in RELEASE_ONLY]
    pytest(*(["tests/python"] if is_slow() else short), *SIDE_BY_SIDE, python=PYTHON, **SHORT_QUERIES)


# They take their cases from KAFKALOG_CORPUS.
OF_A_CORPUS = (
    *("corpus", "damage_corpus", "tables", "tables_cluster", "tables_replay"),
    *("verify", "verify_replicas", "verify_topics"),
)


def corpus() -> None:
    """Read, verify and decode every partition folder of a larger corpus, ``KAFKALOG_CORPUS``."""
    if "KAFKALOG_CORPUS" not in os.environ and not SHARED_CORPUS.is_dir():
        print("skipped: KAFKALOG_CORPUS is not set; other steps read tests/golden")
        return
    root = os.environ.get("KAFKALOG_CORPUS", str(SHARED_CORPUS))
    tests = [f"tests/python/test_{name}.py" for name in OF_A_CORPUS]
    pytest(*tests, *SIDE_BY_SIDE, KAFKALOG_CORPUS=root)


def spark() -> None:
    if shutil.which("java") is None:
        raise FailedError("java is not on the PATH: Spark needs Java 17")
    settings = with_archived_classes()
    pytest("tests/spark", python=PYTHON, KAFKALOG_WHEEL=str(the_wheel(WHEELS)), **settings)


def of_spark(*names: str) -> tuple[str, ...]:
    """Return the paths of test files."""
    return tuple(f"tests/spark/test_{name}.py" for name in names)


OF_DATA_SOURCES = (
    *("lazy", "schema", "rows_and_their_order", "null_and_empty", "from_and_to", "a_limit_ends_early"),
    *("from_checkpoint_to_checkpoint", "was_not_committed", "a_users_schema", "a_frame_is_written", "an_empty_frame"),
)
# In addition to the version that pip chose above: the oldest without and with data sources. What differs between
# versions is how Spark calls us, so they share out the ways to read and write, with the tests that pass most kinds of
# values through each. In the slow profile all versions run all tests.
OLDER_SPARKS = {
    "3.5": (
        *of_spark("read", "transform", "lazy"),
        *("-k", "lazy or counting or a_function_ or schema or rows_and_their_order or null_and_empty or from_and_to"),
    ),
    "4.0": (
        *of_spark("read", "lazy", "stream", "sink"),
        *("-k", f"not by_map_in_arrow and ({' or '.join(OF_DATA_SOURCES)})"),
    ),
}
OTHER_SPARKS = ("4.1", "4.2")


def spark_versions() -> None:
    """Run Spark tests on older versions, each in its own environment; tests skip what a version lacks."""
    versions = (*OLDER_SPARKS, *OTHER_SPARKS) if is_slow() else tuple(OLDER_SPARKS)
    wheel = the_wheel(WHEELS)
    for version in versions:
        home = TARGET / f"spark-{version}-venv"
        python = python_of(home)
        if not python.exists():
            run(sys.executable, "-m", "venv", home)
        # None of them accepts pandas 3.
        named = ("pandas<3", "pyarrow", "setuptools", "pytest", "pytest-timeout", "hypothesis")
        pip_install(python, f"pyspark=={version}.*", *named)
        install(wheel, python)
        # PySpark 4.0 and 3.5 leave sockets of their own to the garbage collector, and 3.5 imports distutils.
        kinds = ("ResourceWarning", "DeprecationWarning", "pytest.PytestUnraisableExceptionWarning")
        theirs = [word for kind in kinds for word in ("-W", f"ignore::{kind}")]
        tests = ("tests/spark",) if is_slow() else OLDER_SPARKS[version]
        pytest(*theirs, *tests, python=python, KAFKALOG_WHEEL=str(wheel), **SHORT_QUERIES)


def is_slow() -> bool:
    """Tell whether the slow profile is on, by the variable that the Rust tests read too."""
    return os.environ.get("KAFKALOG_SLOW", "0") != "0"


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
STEPS = (
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
    Step(spark_versions, release_build),
    Step(python_release, release_build),
    Step(corpus, release_build),
    Step(main_job, release_build),
    Step(distributed, release_build),
)


def main(chosen: list[str]) -> int:
    """Run the steps and close with a summary."""
    known = {step.name: step for step in STEPS}
    unknown = set(chosen) - set(known)
    if unknown:
        print(f"unknown steps: {', '.join(sorted(unknown))}; the steps are: {', '.join(known)}")
        return 2
    if len(chosen) == 1:
        return alone(known[chosen[0]])
    chosen_steps = [step for step in STEPS if not chosen or step.name in chosen]
    return together(chosen_steps, fresh(OUTPUTS))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
