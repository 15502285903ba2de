"""Nothing is written where logs are read: one rule for every verb that has an output."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kafkalog
from command import call

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "clean-restarts" / "data-1"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "L"))


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() if path.is_file() else b"" for path in sorted(folder.rglob("*"))}


def truncate(source: Path, out: Path) -> None:
    kafkalog.truncate(source, out, offset=1)


def recover(source: Path, out: Path) -> None:
    kafkalog.recover(source, out=out)


def rebuild(source: Path, out: Path) -> None:
    kafkalog.rebuild_indexes(source, out=out)


def export(source: Path, out: Path) -> None:
    done = call("export", source, out)
    if done.returncode:
        assert done.returncode == 2
        raise ValueError(done.stderr)


def retain(source: Path, out: Path) -> None:
    kafkalog.retain(source, out, config={"retention.ms": -1})


def compact(source: Path, out: Path) -> None:
    kafkalog.compact(source, out, config={"cleanup.policy": "compact"})


def rewrite(source: Path, out: Path) -> None:
    kafkalog.rewrite(source, out)


VERBS = [compact, retain, rewrite, truncate, recover, rebuild, export]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("out", ["L/x", "L/orders-0/z.parquet", "L/orders-9", "L/new/deeper", "link/x", "plain/../L/x"])
def test_no_output_lands_among_logs(verb: Callable[[Path, Path], None], out: str, log_dir: Path) -> None:
    (log_dir.parent / "link").symlink_to(log_dir)
    (log_dir.parent / "plain").mkdir()
    before = contents(log_dir)
    with pytest.raises(ValueError, match="where a broker looks for logs"):
        verb(log_dir / "orders-0", log_dir.parent / out)
    assert contents(log_dir) == before


@pytest.mark.parametrize("verb", VERBS)
def test_another_log_dir_is_no_place_for_results_either(
    verb: Callable[[Path, Path], None], log_dir: Path, tmp_path: Path
) -> None:
    other = tmp_path / "M"
    with kafkalog.LogWriter(other, "events") as writer:
        writer.append([kafkalog.Record(b"1")])
    before = contents(other)
    for out in ("x", "events-0/x", "absent/orders-0"):
        with pytest.raises(ValueError, match="where a broker looks for logs"):
            verb(log_dir / "orders-0", other / out)
    assert contents(other) == before


@pytest.mark.parametrize("verb", [recover, rebuild])
def test_a_partition_goes_into_another_log_dir_by_its_name(
    verb: Callable[[Path, Path], None], log_dir: Path, tmp_path: Path
) -> None:
    other = tmp_path / "M"
    with kafkalog.LogWriter(other, "events") as writer:
        writer.append([kafkalog.Record(b"1")])
    verb(log_dir / "orders-0", other / "orders-0")
    assert kafkalog.read_table(other, "orders").equals(kafkalog.read_table(log_dir, "orders"))


@pytest.mark.parametrize("verb", VERBS)
def test_elsewhere_it_is_written(verb: Callable[[Path, Path], None], log_dir: Path, tmp_path: Path) -> None:
    verb(log_dir / "orders-0", tmp_path / "elsewhere" / "out")
    assert (tmp_path / "elsewhere" / "out").is_dir()


def write(log_dir: Path) -> None:
    with kafkalog.LogWriter(log_dir, "events") as writer:
        writer.append([kafkalog.Record(b"1")])


def import_(log_dir: Path) -> None:
    done = call("import", GOLDEN / "orders-0", log_dir)
    if done.returncode:
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        raise ValueError(done.stderr)


@pytest.mark.parametrize("verb", [write, import_])
@pytest.mark.parametrize(
    "found",
    [
        [],
        ["lost+found/"],
        [".lock"],
        ["events-0/", "meta.properties.tmp"],
        ["notes.txt"],
        ["notes.txt", "meta.properties"],
    ],
    ids=str,
)
def test_what_may_become_a_log_dir(verb: Callable[[Path], None], found: list[str], tmp_path: Path) -> None:
    place(tmp_path / "logs", found)
    verb(tmp_path / "logs")
    assert kafkalog.read_table(tmp_path / "logs").num_rows > 0


@pytest.mark.parametrize("name", ["copy", "link", "orders-0.0123456789abcdef0123456789abcdef-delete"])
@pytest.mark.parametrize(
    "verb",
    [
        lambda source, out: kafkalog.compact(source, out, config={"cleanup.policy": "compact"}),
        lambda source, out: kafkalog.retain(source, out, config={"retention.ms": -1}),
        lambda source, out: kafkalog.rewrite(source, out, config={}),
    ],
    ids=["compact", "retain", "rewrite"],
)
def test_a_partition_by_another_name_is_put_into_no_log_dir(
    verb: Callable[[Path, Path], object], name: str, tmp_path: Path
) -> None:
    """A broker ends at a folder in its log dir that is not named as a partition."""
    source = tmp_path / name
    if name == "link":
        source.symlink_to(GOLDEN / "orders-0")
    else:
        shutil.copytree(GOLDEN / "orders-0", source)
    with pytest.raises(ValueError, match=f"{name}: expected a folder named as its partition"):
        verb(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def place(folder: Path, names: list[str]) -> None:
    folder.mkdir()
    for name in names:
        if name.endswith("/"):
            (folder / name).mkdir()
        else:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).touch()
