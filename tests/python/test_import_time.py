"""Importing costs little: nothing heavy comes in before it is needed."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import corpus
import kafkalog

pytestmark = pytest.mark.release

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"


def loaded_after(code: str) -> set[str]:
    """Give the modules that a fresh interpreter has loaded after some code."""
    program = f"import sys\n{code}\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "code",
    [
        "import kafkalog",
        "import kafkalog; kafkalog.spark",
        "import kafkalog; kafkalog.dataset, kafkalog.scan_polars",
        "import kafkalog.schema, kafkalog.typing, kafkalog.errors",
        "from kafkalog.cli.main import main; main(['--help'])",
        f"from kafkalog.cli.main import main; main(['ls', {str(DATA)!r}])",
        f"from kafkalog.cli.main import main; main(['stats', {str(DATA)!r}, '-J'])",
        f"from kafkalog.cli.main import main; main(['offsets', {str(DATA)!r}])",
        f"import kafkalog; kafkalog.scan({str(DATA)!r}).__arrow_c_schema__()",
        f"import kafkalog; kafkalog.PartitionLog({str(DATA / 'orders-0')!r}).lookup(5)",
    ],
)
def test_no_pyarrow_and_no_pyspark(code: str) -> None:
    assert not loaded_after(code) & {"pyarrow", "pyspark", "numpy", "pandas"}


def test_tools_and_tables_are_imported_on_first_use() -> None:
    heavy = {"kafkalog.tools", "kafkalog.tables", "kafkalog.spark", "hashlib"}
    assert not loaded_after("import kafkalog") & heavy
    assert loaded_after("import kafkalog; kafkalog.recover, kafkalog.tables") >= heavy - {"kafkalog.spark", "hashlib"}
    assert loaded_after("from kafkalog import *") >= heavy - {"hashlib"}
    assert set(dir(kafkalog)) >= set(kafkalog.__all__)


def test_polars_takes_a_reader_without_pyarrow() -> None:
    modules = loaded_after(f"import kafkalog, polars; assert polars.DataFrame(kafkalog.scan({str(DATA)!r})).height")
    assert "pyarrow" not in modules


def test_a_dataset_takes_no_engine() -> None:
    modules = loaded_after(f"import kafkalog; assert kafkalog.dataset({str(DATA)!r}).to_table().num_rows")
    assert not modules & {"polars", "duckdb", "datafusion", "ibis"}


def test_a_requested_layout_takes_no_pyarrow() -> None:
    code = """
import kafkalog
wanted = kafkalog.scan(path, layout="view", columns=["value", "offset"]).__arrow_c_schema__()
kafkalog.scan(path).__arrow_c_stream__(wanted)
"""
    assert "pyarrow" not in loaded_after(f"path = {str(DATA)!r}\n{code}")


def test_every_public_name_is_there_and_documented() -> None:
    for name in kafkalog.__all__:
        assert hasattr(kafkalog, name)
        if not name.startswith("__") and name != "build_profile":
            assert (getattr(kafkalog, name).__doc__ or "").strip(), name
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = kafkalog.nope  # type: ignore[attr-defined]


def test_public_methods_are_documented() -> None:
    for name in kafkalog.__all__:
        member = getattr(kafkalog, name)
        if not isinstance(member, type):
            continue
        # Fields have no text of their own: the class describes them.
        docs = "\n".join(each.__doc__ or "" for each in member.__mro__ if each is not object)
        described = re.findall(r"^ *([\w, ]+) : ", docs, re.MULTILINE)
        fields = {field.name for field in dataclasses.fields(member)} if dataclasses.is_dataclass(member) else set()
        assert fields <= {field for line in described for field in line.split(", ")}, name
        for method, value in vars(member).items():
            if not method.startswith("_") and method not in fields:
                assert (getattr(value, "__doc__", "") or "").strip(), f"{name}.{method}"


@pytest.mark.skipif(sys.platform == "win32", reason="extension modules have other names there")
def test_one_wheel_is_for_every_python_from_3_10_on() -> None:
    assert Path(kafkalog._core.__file__).name.endswith(".abi3.so")
    for found in metadata.distributions(name="kafkalog"):
        assert (found.read_text("WHEEL") or "").count("Tag: cp310-abi3-") == 1
        assert "Apache License" in (found.read_text("licenses/LICENSE") or "")
        assert found.metadata["License-Expression"] == "Apache-2.0"


def test_version_is_that_of_the_distribution() -> None:
    root = Path(__file__).resolve().parents[2]
    package = re.search(r'^version = "(.+)"$', (root / "Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert package is not None
    assert kafkalog.__version__ == package[1]
    # None where it is only on the path.
    assert {found.version for found in metadata.distributions(name="kafkalog")} <= {package[1]}
    assert kafkalog.build_profile in {"release", "debug"}
