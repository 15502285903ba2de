"""Sanitized builds: the unit tests under AddressSanitizer, and libFuzzer over `tests/fuzz`."""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
from pathlib import Path

from clone import ROOT, SHARED_CORPUS, TARGET, answer, fresh, run

FUZZ_PACKAGE = ROOT / "tests" / "fuzz"
FUZZING = TARGET / "fuzzing"


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
    "chunks": (),
    "index": ("*.index", "*.timeindex", "*.txnindex"),
    "tables": ("__*/*.log", "__*/*.checkpoint"),
    "names": ("*checkpoint", "*.snapshot", "*.metadata", "*.properties"),
    "protobuf": (),
    "json": (),
    "avro": (),
    "framing": (),
}
SEED_BYTES, SEED_FILES = 1 << 15, 300


def decoded_seeds(target: str) -> list[bytes]:
    """Make seeds of typed values, in the form of the check, of payloads in `tests/golden/*.jsonl.gz`."""
    golden = ROOT / "tests" / "golden" / f"{'avro' if target == 'framing' else target}.jsonl.gz"
    if target not in {"avro", "framing", "protobuf", "json"}:
        return []
    texts: dict[int, list[str]] = {}
    found = []
    for line in map(json.loads, gzip.decompress(golden.read_bytes()).splitlines()):
        if "body" not in line:
            texts[line.get("schema", -1)] = line.get("texts", [])
            continue
        body = base64.b64decode(line["body"])
        if target == "framing":
            found += [bytes([0, *start]) + body for start in (b"\0\0\0\0\1", b"\0\0\0\0\2", b"\3\0", b"\1")]
        elif target == "avro":
            schemas = [texts[number][-1].encode() for number in (line["writer"], line.get("reader", line["writer"]))]
            found.append(b"\0".join([*schemas, body]))
        else:
            found.append(body)
    found = [each for each in found if len(each) <= SEED_BYTES]
    return found[:: max(1, len(found) // SEED_FILES)]


def chunk_seeds() -> list[bytes]:
    """Make chunks in the form of the check: zstd frames of one block, its bytes or one of them repeated."""

    def frame(kind: int, block: bytes, size: int) -> bytes:
        return b"\x28\xb5\x2f\xfd\x20" + bytes([size]) + (size << 3 | kind << 1 | 1).to_bytes(3, "little") + block

    stored = [frame(0, b"chunk", 5), frame(1, b"x", 200)]
    sizes = [
        len(each).to_bytes(2, "big") + size.to_bytes(2, "big") for each, size in zip(stored, (5, 200), strict=True)
    ]
    return [b"\2" + b"".join([*sizes, *stored]), b"\0" + stored[1], b"\1\0\5\0\5bytes"]


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
    for index, seed in enumerate(chunk_seeds() if target == "chunks" else decoded_seeds(target)):
        (folder / f"decoded-{index:04}").write_bytes(seed)
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
