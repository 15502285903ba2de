"""``ReadOptions``: one list of options, taken by every function that reads."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import pydoc
from datetime import datetime, timezone
from typing import Any

import pytest

import corpus
import kafkalog
from kafkalog import options as module

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
MOMENT = datetime(2023, 11, 15, 6, 39, 50, 1, tzinfo=timezone.utc)
FIELDS = {field.name: field for field in dataclasses.fields(kafkalog.ReadOptions)}
KEYWORDS: dict[Any, type] = {
    kafkalog.scan: module.ScanKeywords,
    kafkalog.read_table: module.ScanKeywords,
    kafkalog.scan_batches: module.ScanBatchesKeywords,
    kafkalog.PartitionLog.scan: module.PartitionScanKeywords,
    kafkalog.PartitionLog.batches: module.BatchRangeKeywords,
}


def test_options_and_keywords_are_one_list() -> None:
    assert module.ScanKeywords.__annotations__.keys() | {"topics"} == FIELDS.keys()
    for name, annotation in module.ScanKeywords.__annotations__.items():
        assert annotation.__forward_arg__ == FIELDS[name].type, name


@pytest.mark.parametrize("function", KEYWORDS, ids=lambda function: function.__qualname__)
def test_signatures_spell_the_options_out(function: Any) -> None:
    parameters = inspect.signature(function).parameters
    shown = {name: each for name, each in parameters.items() if name in FIELDS and name != "topics"}
    assert shown.keys() == KEYWORDS[function].__annotations__.keys()
    for name, each in shown.items():
        # read_table has a thread for each processor.
        default = None if (function, name) == (kafkalog.read_table, "threads") else FIELDS[name].default
        assert (each.kind, each.default) == (inspect.Parameter.KEYWORD_ONLY, default), name
    assert "starting_offsets: 'StartingOffsets' = 'earliest'" in pydoc.plain(pydoc.render_doc(function))


def test_every_option_is_documented_once() -> None:
    text = inspect.getdoc(kafkalog.ReadOptions)
    assert text is not None
    parameters = text[text.index("Parameters\n") : text.index("Attributes\n")]
    heads = [line for line in parameters.splitlines() if " : " in line and not line.startswith(" ")]
    names = [name.strip() for head in heads for name in head.split(" : ")[0].split(",")]
    assert sorted(names) == sorted(FIELDS)


def test_options_equal_keywords() -> None:
    given: dict[str, Any] = {"columns": ["offset", "value"], "min_timestamp": MOMENT, "batch_rows": 100}
    options = kafkalog.ReadOptions(topics="orders", **given)
    want = kafkalog.read_table(DATA, "orders", **given)
    assert want.num_rows
    assert kafkalog.read_table(DATA, options=options) == want
    assert kafkalog.scan(DATA, options=options).read_all() == want
    own = kafkalog.ReadOptions(**given)
    assert kafkalog.read_table(DATA, "orders", options=own) == want
    assert kafkalog.PartitionLog(DATA / "orders-0").scan(options=own).read_all() == want


def test_keywords_take_precedence() -> None:
    options = kafkalog.ReadOptions(topics="ledger", columns="offset", min_offset=5)
    table = kafkalog.read_table(DATA, "orders", options=options, columns=["topic", "offset"])
    assert table.column_names == ["topic", "offset"]
    assert set(table["topic"].to_pylist()) == {"orders"}
    assert table.num_rows == 875


def test_what_a_function_does_not_take_is_refused() -> None:
    log = kafkalog.PartitionLog(DATA / "orders-0")
    with pytest.raises(TypeError, match=r"scan\(\) got an unexpected keyword argument 'colums' \(did you"):
        kafkalog.scan(DATA, colums="offset")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"PartitionLog.scan\(\) got an unexpected keyword argument 'topics'"):
        log.scan(topics="orders")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match=r"PartitionLog.scan\(\) does not take topics, which options sets"):
        log.scan(options=kafkalog.ReadOptions(topics="orders"))
    with pytest.raises(ValueError, match=r"scan_batches\(\) does not take columns"):
        kafkalog.scan_batches(DATA, options=kafkalog.ReadOptions(columns="offset"))
    with pytest.raises(TypeError, match=r"options must be a kafkalog\.ReadOptions, not "):
        kafkalog.scan(DATA, options={"columns": "offset"})  # type: ignore[arg-type]
    assert log.batches(options=kafkalog.ReadOptions(check_crcs=False)).read_all()["isValid"].null_count == 38


def test_values_are_kept_in_one_form() -> None:
    one = kafkalog.ReadOptions(
        topics="orders", columns=iter(["offset"]), starting_timestamp=MOMENT, max_timestamp=MOMENT
    )
    again = kafkalog.ReadOptions(
        topics=["orders"], columns=("offset",), starting_timestamp=1_700_030_390_001, max_timestamp=1_700_030_390_000
    )
    assert one == again
    assert hash(one) == hash(again)
    assert repr(one) == (
        "kafkalog.ReadOptions(topics=('orders',), columns=('offset',), "
        "starting_timestamp=1700030390001, max_timestamp=1700030390000)"
    )
    assert eval(repr(one)) == one  # noqa: S307 - our own text
    assert kafkalog.ReadOptions(**one.changed()) == one
    assert repr(kafkalog.ReadOptions()) == "kafkalog.ReadOptions()"


def test_pickles() -> None:
    options = kafkalog.ReadOptions(
        topics=(name for name in ["orders"]), partitions={"orders": [0]}, starting_offsets={"orders": {0: 5}}, threads=2
    )
    again = pickle.loads(pickle.dumps(options))  # noqa: S301 - our own bytes
    assert again == options
    assert kafkalog.read_table(DATA, options=again).num_rows == 875


def test_frozen_and_keyword_only() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        kafkalog.ReadOptions().threads = 2  # type: ignore[misc]
    with pytest.raises(TypeError):
        kafkalog.ReadOptions("orders")  # type: ignore[call-arg]
    assert dataclasses.replace(kafkalog.ReadOptions(threads=2), layout="view").threads == 2
    with pytest.warns(DeprecationWarning, match="latest is now called latest_per_key") as warned:
        changed = dataclasses.replace(kafkalog.ReadOptions(threads=2), latest=True)  # type: ignore[call-arg]
    assert changed == kafkalog.ReadOptions(threads=2, latest_per_key=True)
    assert [each.filename for each in warned] == [__file__]
