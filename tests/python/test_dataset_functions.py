"""No public function of pyarrow crashes on a dataset of logs: it reads the rows, or says what does.

``pyarrow.dataset.Scanner.from_dataset`` and others use the dataset in C++, which no Python class has by itself.
Each module of pyarrow gets a process, which prints what it is about to call.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

import corpus

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
PROLOGUE = f"""
import faulthandler, inspect, sys
import pyarrow as pa, pyarrow.dataset as ds, pyarrow.acero as acero, pyarrow.compute as pc
import kafkalog
d = kafkalog.dataset({str(DATA)!r}, columns=["topic", "offset"])
rows = d.count_rows()
"""


def run(code: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    program = PROLOGUE + textwrap.dedent(code)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=timeout)


READ = {
    "write_dataset": "import tempfile; t = tempfile.mkdtemp(); ds.write_dataset(d, t, format='ipc'); "
    "assert ds.dataset(t, format='ipc').count_rows() == rows",
    "batches": "assert ds.Scanner.from_batches(d.to_batches(), schema=d.schema).count_rows() == rows",
    "in memory": "assert ds.InMemoryDataset(d.to_table()).count_rows() == rows",
    "dataset of datasets": "assert ds.dataset([d, d]).count_rows() == 2 * rows",
    "fragments": "assert sum(f.count_rows() for f in d.get_fragments()) == rows",
}
REFUSED = {
    "Scanner.from_dataset": "ds.Scanner.from_dataset(d).to_table()",
    "Scanner.from_dataset.head": "ds.Scanner.from_dataset(d, columns=['offset']).head(3)",
    "Scanner.from_dataset.count_rows": "ds.Scanner.from_dataset(d, filter=pc.field('offset') > 3).count_rows()",
    "Scanner.from_dataset.to_reader": "ds.Scanner.from_dataset(d).to_reader().read_all()",
    "UnionDataset": "ds.UnionDataset(d.schema, [d, d]).to_table()",
    "union, filtered": "list(ds.UnionDataset(d.schema, [d]).filter(pc.field('offset') > 3).to_batches())",
    "union, fragments": "[each.to_table() for each in ds.UnionDataset(d.schema, [d]).get_fragments()]",
    "join": "ds.dataset(pa.table({'offset': [1]})).join(d, 'offset', join_type='inner').to_table().num_rows",
    "acero": "acero.Declaration('scan', acero.ScanNodeOptions(d)).to_table()",
    "acero, reader": "acero.Declaration('scan', acero.ScanNodeOptions(d, filter=None)).to_reader().read_all()",
}


@pytest.mark.parametrize("name", READ)
def test_functions_that_read_it(name: str) -> None:
    done = run(READ[name])
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", REFUSED)
def test_functions_that_refuse_it(name: str) -> None:
    done = run(
        f"try:\n    {REFUSED[name]}\nexcept NotImplementedError as error:\n    print(error)\nelse:\n    print('read')"
    )
    assert done.returncode == 0, done.stderr
    assert "use dataset.scanner(...)" in done.stdout


@pytest.mark.parametrize(
    "module", ["lib", "dataset", "acero", "parquet", "feather", "ipc", "csv", "json", "orc", "flight", "substrait"]
)
def test_whatever_takes_a_dataset_does_not_crash(module: str) -> None:
    """Every public function, class and static method, with the dataset in each of its first places."""
    done = run(f"""
        import contextlib, importlib, os, tempfile
        os.chdir(tempfile.mkdtemp())
        faulthandler.dump_traceback_later(120, exit=True)
        try:
            module = importlib.import_module("pyarrow.{module}")
        except ImportError:
            sys.exit()
        calls = {{}}
        for name, found in vars(module).items():
            if name.startswith("_") or not callable(found) or "pyarrow" not in getattr(found, "__module__", ""):
                continue
            calls[name] = found
            if inspect.isclass(found):
                for each, method in vars(found).items():
                    if isinstance(method, (staticmethod, classmethod)) and not each.startswith("_"):
                        calls[f"{{name}}.{{each}}"] = getattr(found, each)
        def read(result):
            for way in ("to_table", "read_all", "count_rows", "to_batches", "get_fragments"):
                if hasattr(result, way):
                    with contextlib.suppress(Exception):
                        got = getattr(result, way)()
                        list(got) if way in ("to_batches", "get_fragments") else got
        # Others do crash on any object that they do not expect.
        calls = {{name: call for name, call in calls.items() if "dataset" in f"{{name}} {{call.__doc__}}".lower()}}
        for name, call in calls.items():
            for given in ((d,), ([d, d],), (d, d), (d.schema, [d, d]), (d, "x"), ("x", d), (d, "y", d)):
                print(name, [type(each).__name__ for each in given], flush=True)
                with contextlib.suppress(Exception):
                    read(call(*given))
        print("calls:", len(calls))
    """)
    assert done.returncode == 0, (done.stdout.splitlines()[-1:], done.stderr[-2000:])
