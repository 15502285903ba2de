"""Options of a store: mistakes are named without their values, and one bucket is read by several accounts."""

from __future__ import annotations

import pickle
import traceback
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
from kafkalog import storage
from s3_server import CLIENTS, SECRET, S3Server

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG_DIR = corpus.GOLDEN / "clean-restarts" / "data-1"
URL = "s3://bkt/L"
OTHER = f"other-{SECRET}"


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    made = S3Server()
    made.put_folder(LOG_DIR, "L/")
    yield made
    made.close()


@pytest.fixture(params=CLIENTS)
def options(request: pytest.FixtureRequest, server: S3Server, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    return server.options_for(request.param, monkeypatch, 6)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_retries", "abc"),
        ("max_retries", 3.7),
        ("max_retries", True),
        ("max_retries", [3]),
        ("Max_Retries", "abc"),
        ("timeout", "x"),
        ("TIMEOUT", "x"),
        ("timeout", [30]),
        ("connect_timeout", "x"),
        ("aws_region", ["r"]),
        ("aws_allow_http", "perhaps"),
        ("aws_secret_access_key", SECRET.encode()),
        ("aws_secret_access_key", [SECRET]),
        ("aws_session_token", {"x": SECRET}),
        ("client_kwargs", "x"),
    ],
)
def test_a_mistake_is_named_but_not_shown(options: dict[str, Any], name: str, value: Any) -> None:
    given = {each: old for each, old in options.items() if each.lower() != name.lower()}
    with pytest.raises((TypeError, ValueError), match=f"(?i)storage option '?{name}'?") as raised:
        kafkalog.read_table(URL, storage_options={**given, name: value})
    assert SECRET not in "".join(traceback.format_exception(raised.value))


def test_what_a_client_refuses_is_a_value_error(options: dict[str, Any]) -> None:
    given = {each: old for each, old in options.items() if each != "aws_access_key_id"}
    for more in ({}, {"aws_access_key_id": "k", "proxy_url": f"http://u:{OTHER}@no host"}):
        with pytest.raises(ValueError, match="s3://bkt: storage_options: ") as raised:
            kafkalog.read_table(URL, storage_options={**given, **more})
        assert OTHER not in "".join(traceback.format_exception(raised.value))
    for empty in ((), "", 0):
        with pytest.raises(TypeError, match="must be a mapping"):
            kafkalog.read_table(URL, storage_options=empty)  # type: ignore[arg-type]


def test_none_and_numbers_are_taken(options: dict[str, Any]) -> None:
    unset = {"timeout": None, "connect_timeout": None, "aws_session_token": None}
    given = {**options, **unset, "max_retries": str(options["max_retries"]), "aws_allow_http": True}
    assert kafkalog.read_table(URL, storage_options=given).equals(kafkalog.read_table(LOG_DIR))


@pytest.mark.parametrize("name", ["proxy_url", "aws_endpoint_url"])
def test_a_password_in_a_url_is_a_secret(options: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options |= {"aws_secret_access_key": "env:KAFKALOG_TEST_SECRET"}
    monkeypatch.setenv("KAFKALOG_TEST_SECRET", SECRET)
    monkeypatch.setenv("KAFKALOG_TEST_URL", f"http://user:{OTHER}@127.0.0.1:9")
    assert pickle.dumps(storage.open_storage(URL, {**options, name: "http://127.0.0.1:9"}))
    place = storage.open_storage(URL, {**options, name: f"http://user:{OTHER}@127.0.0.1:9"})
    with pytest.raises(ValueError, match=f"storage option '{name}' has a secret") as raised:
        pickle.dumps(place)
    assert OTHER not in str(raised.value) + repr(place)
    pickled = pickle.dumps(storage.open_storage(URL, {**options, name: "env:KAFKALOG_TEST_URL"}))
    assert OTHER.encode() not in pickled


def test_several_accounts_of_one_bucket(server: S3Server, options: dict[str, Any], request: Any) -> None:
    """Each reader asks by its own account, whatever others were opened before and after it."""
    expected = kafkalog.read_table(LOG_DIR)
    accounts = [
        {**options, "aws_access_key_id": account, "aws_secret_access_key": f"{SECRET}-{account}"}
        for account in ("first", "wrong", "second")
    ]
    first, wrong, second = accounts

    def asked() -> set[str]:
        found, server.accounts = server.accounts, set()
        return found

    server.refused = {"wrong"}
    request.addfinalizer(server.refused.clear)
    asked()
    with kafkalog.scan(URL, storage_options=first) as reader:
        for _ in range(2):
            with pytest.raises(PermissionError, match="s3://bkt") as raised:
                kafkalog.read_table(URL, storage_options=wrong, threads=2)
            assert SECRET not in "".join(traceback.format_exception(raised.value))
            assert asked() <= {"wrong", "first"}
            assert kafkalog.read_table(URL, storage_options=second, threads=2).equals(expected)
            assert asked() <= {"second", "first"}
        asked()
        assert reader.read_all().equals(expected)
    assert asked() <= {"first"}
    places = [storage.open_storage(URL, each) for each in accounts]
    assert len({str(place) for place in places}) == 3
    # A path says which of them.
    assert kafkalog.read_table(str(places[2])).equals(expected)
    assert asked() == {"second"}
    with pytest.raises(PermissionError):
        kafkalog.LogDir(places[1])
    assert asked() == {"wrong"}
