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


def run(code: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    program = PROLOGUE + textwrap.dedent(code)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=timeout)


READ = {
    "write_dataset": "import tempfile; t = tempfile.mkdtemp(); ds.write_dataset(d, t, format='ipc'); "
    "assert ds.dataset(t, format='ipc').count_rows() == rows",
    "batches": "assert ds.Scanner.from_batches(d.to_batches(), schema=d.schema).count_rows() == rows",
    "in memory": "assert ds.InMemoryDataset(d.to_table()).count_rows() == rows",
    "dataset of datasets": "assert ds.dataset([d, d]).count_rows() == 2 * rows",
    "fragments": "assert sum(f.count_rows() for f in d.get_fragments()) == rows",
    "Scanner.from_dataset": "assert ds.Scanner.from_dataset(d).to_table().equals(d.to_table())",
    "Scanner.from_dataset.head": "assert ds.Scanner.from_dataset(d, columns=['offset']).head(3).num_rows == 3",
    "Scanner.from_dataset.count_rows": "f = pc.field('offset') > 3; "
    "assert ds.Scanner.from_dataset(d, filter=f).count_rows() == d.count_rows(filter=f) > 0",
    "Scanner.from_dataset.to_reader": "assert ds.Scanner.from_dataset(d).to_reader().read_all().num_rows == rows",
    "UnionDataset": "u = ds.UnionDataset(d.schema, [d, d]); "
    "assert [u.to_table().num_rows, u.count_rows()] == [2 * rows, 2 * rows]",
    "union, filtered": "f = pc.field('offset') > 3; u = ds.UnionDataset(d.schema, [d]).filter(f); "
    "assert sum(b.num_rows for b in u.to_batches()) == d.count_rows(filter=f)",
    "union, fragments": "u = ds.UnionDataset(d.schema, [d]); "
    "assert sum(each.count_rows() for each in u.get_fragments()) == rows",
    "union of many": "u = ds.UnionDataset(d.schema, [d] * 20); assert u.to_table().num_rows == 20 * rows",
    "join": "t = ds.dataset(pa.table({'offset': [1]})); "
    "assert t.join(d, 'offset', join_type='inner').to_table().num_rows > 0",
    "join, union": "u = ds.UnionDataset(d.schema, [d]); t = ds.dataset(pa.table({'offset': [1]})); "
    "assert u.join(t, 'offset', join_type='inner').to_table().num_rows > 0",
    "join_asof": "t = ds.dataset(pa.table({'offset': pa.array([1]), 'topic': ['x']})); "
    "s = kafkalog.dataset(d.files, columns=['topic', 'offset'], topics=['orders'], partitions=[0]); "
    "assert t.join_asof(s, 'offset', 'topic', 0).to_table().num_rows == 1",
    "sort_by, union": "u = ds.UnionDataset(d.schema, [d]); assert u.sort_by('offset').to_table().num_rows == rows",
    "replace_schema, union": "u = ds.UnionDataset(d.schema, [d]); "
    "u = u.replace_schema(pa.schema([d.schema.field('offset')])); assert u.to_table().num_rows == rows",
    # More at a time than Arrow has I/O threads: each waited for another one to read the end of its file.
    "count_rows by threads": "from concurrent.futures import ThreadPoolExecutor; "
    "s = lambda _: ds.Scanner.from_dataset(d).count_rows(); "
    "assert list(ThreadPoolExecutor(12).map(s, range(36))) == [rows] * 36",
    "union by threads": "from concurrent.futures import ThreadPoolExecutor; "
    "s = lambda _: ds.UnionDataset(d.schema, [d, d]).to_table().num_rows; "
    "assert list(ThreadPoolExecutor(12).map(s, range(36))) == [2 * rows] * 36",
    "acero, one thread": "o = acero.ScanNodeOptions(d); "
    "assert acero.Declaration('scan', o).to_table(use_threads=False).num_rows == rows",
    "acero": "assert acero.Declaration('scan', acero.ScanNodeOptions(d)).to_table().num_rows == rows",
    "acero, reader": "o = acero.ScanNodeOptions(d, filter=None); "
    "assert acero.Declaration('scan', o).to_reader().read_all().num_rows == rows",
    "batches as rows": "b = kafkalog.dataset(d.files, table='batches'); "
    "assert ds.Scanner.from_dataset(b).to_table().equals(b.to_table())",
    "views": "v = kafkalog.dataset(d.files, layout='view'); "
    "assert ds.Scanner.from_dataset(v, columns=['value']).to_table().num_rows == rows",
}
# With a filter of its own: on a column that it shows, on one that it does not, and one that no bound answers.
FILTERS = (
    "pc.field('offset') > 3",
    "(pc.field('partition') == 0) & (pc.field('topic') == 'orders')",
    "pc.bit_wise_and(pc.field('offset'), 1) == 1",
    "pc.field('key').is_valid()",
    "pc.field('offset') < 0",
)
FILTERED = {
    "Scanner.from_dataset": "ds.Scanner.from_dataset(d).to_table()",
    # Arrow filters no views.
    "Scanner.from_dataset, filtered again": "(ds.Scanner.from_dataset(d, filter=pc.field('offset') >= 0) "
    "if not options else ds.Scanner.from_dataset(d)).to_table()",
    "UnionDataset": "ds.UnionDataset(d.schema, [d]).to_table()",
    "union, fragments": "pa.concat_tables(f.to_table() for f in ds.UnionDataset(d.schema, [d]).get_fragments())",
    "acero": "acero.Declaration('scan', acero.ScanNodeOptions(d)).to_table().select(d.schema.names)",
    "acero, one thread": "acero.Declaration('scan', acero.ScanNodeOptions(d)).to_table(use_threads=False)"
    ".select(d.schema.names)",
    "in memory": "ds.InMemoryDataset(d.scanner().to_reader()).to_table()",
    "dataset of datasets": "ds.dataset([d]).to_table()",
    "write_dataset": "ds.dataset(ds.write_dataset(d, t := tempfile.mkdtemp(), format='ipc') or t, schema=d.schema, "
    "format='ipc').to_table()",
}


@pytest.mark.parametrize("name", READ)
@pytest.mark.sampled(2)
def test_functions_that_read_it(name: str) -> None:
    done = run(READ[name])
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", FILTERED)
@pytest.mark.sampled(2)
def test_functions_that_read_a_filtered_one(name: str) -> None:
    """They give the rows that Arrow chooses from a table of all."""
    done = run(f"""
        import tempfile
        whole = kafkalog.dataset(d.files).to_table()
        for f in ({", ".join(FILTERS)}):
            for options in ({{}}, dict(columns=["topic", "offset"]), dict(layout="view")):
                d = kafkalog.dataset({str(DATA)!r}, **options).filter(f)
                got, expected = {FILTERED[name]}, whole.filter(f).select(d.schema.names).cast(d.schema)
                assert sorted(map(str, got.to_pylist())) == sorted(map(str, expected.to_pylist())), (f, options)
    """)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_filtered_one_reads_by_threads() -> None:
    """More at a time than Arrow has threads for reading, and for computing."""
    done = run("""
        from concurrent.futures import ThreadPoolExecutor
        pa.set_cpu_count(2), pa.set_io_thread_count(2)
        d = d.filter(pc.bit_wise_and(pc.field('offset'), 1) == 1)
        rows = d.count_rows()
        read = lambda _: ds.UnionDataset(d.schema, [d] * 3).to_table().num_rows
        assert list(ThreadPoolExecutor(12).map(read, range(24))) == [3 * rows] * 24
    """)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.full
@pytest.mark.parametrize(
    "module",
    [
        "lib",
        "compute",
        "interchange",
        "dataset",
        "acero",
        "parquet",
        "feather",
        "ipc",
        "csv",
        "json",
        "orc",
        "flight",
        "substrait",
    ],
)
def test_whatever_takes_a_dataset_does_not_crash(module: str) -> None:
    """Every public function, class and static method, with the dataset, and a filtered one, in its first places."""
    done = run(f"""
        import contextlib, importlib, itertools, os, tempfile
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
        filtered = d.filter(pc.field("offset") > 3)
        for (name, call), d in itertools.product(calls.items(), (d, filtered)):
            for given in ((d,), ([d, d],), (d, d), (d.schema, [d, d]), (d, "x"), ("x", d), (d, "y", d)):
                print(name, [type(each).__name__ for each in given], flush=True)
                with contextlib.suppress(Exception):
                    read(call(*given))
        print("calls:", len(calls))
    """)
    assert done.returncode == 0, (done.stdout.splitlines()[-1:], done.stderr[-2000:])
