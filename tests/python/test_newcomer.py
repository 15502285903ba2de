"""Mistakes of a first hour with logs in a bucket: what an error says is there to be found, or what to do about it."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
import tiered_cases
from kafkalog.cli.main import main
from kafkalog.storage import open_storage
from s3_server import CLIENTS, S3Server

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG_DIR = corpus.GOLDEN / "clean-restarts" / "data-1"
TYPED = corpus.GOLDEN / "typed" / "keys" / "data-0"
# Answers of AWS to a request for a bucket of this name.
ANSWERS = {
    "no-such": (404, "NoSuchBucket", "The specified bucket does not exist", {}),
    "elsewhere": (
        400,
        "AuthorizationHeaderMalformed",
        "The authorization header is malformed; the region 'eu-central-1' is wrong; expecting 'eu-west-1'",
        {"x-amz-bucket-region": "eu-west-1"},
    ),
    "moved": (301, "PermanentRedirect", "must be addressed using the specified endpoint", {}),
    "refused": (403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.", {}),
}


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    made = S3Server()
    made.put_folder(LOG_DIR, "L/")
    made.put_folder(TYPED, "T/")
    yield made
    made.close()


@pytest.fixture(params=CLIENTS)
def options(request: pytest.FixtureRequest, server: S3Server, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    return server.options_for(request.param, monkeypatch, 4)


@pytest.fixture(scope="module")
def aws() -> Iterator[str]:
    """The address of a server that answers as AWS does to mistakes."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            code, name, text, headers = ANSWERS[self.path.strip("/").partition("?")[0].partition("/")[0]]
            body = f'<?xml version="1.0"?>\n<Error><Code>{name}</Code><Message>{text}</Message></Error>'.encode()
            self.send_response(code)
            for each in {"Content-Type": "application/xml", "Content-Length": str(len(body)), **headers}.items():
                self.send_header(*each)
            self.end_headers()
            self.wfile.write(body)

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{made.server_address[1]}"
    made.shutdown()
    made.server_close()


def words(options: dict[str, Any]) -> list[str]:
    return [word for name, value in options.items() for word in ("--storage-option", f"{name}={value}")]


def test_a_topic_that_is_not_there_is_told_from_those_that_are(
    options: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    found = r'no topic "order" in these logs; found: __transaction_state, events, ledger, orders'
    for path in (LOG_DIR, "s3://bkt/L"):
        with pytest.raises(kafkalog.UnknownTopicOrPartitionError, match=found):
            kafkalog.read_table(path, "order", storage_options=options)
    assert main(["cat", "s3://bkt/L", "-t", "order", *words(options)]) == 1
    assert found in capsys.readouterr().err


def test_a_topic_that_is_not_in_a_tier(tmp_path: Path) -> None:
    case = tiered_cases.unpack("lineage", tmp_path)
    with pytest.raises(kafkalog.UnknownTopicOrPartitionError, match=r'no topic "move" .*; found: diverged, moved$'):
        kafkalog.read_table(None, "move", **case.remote)
    with pytest.raises(kafkalog.UnknownTopicOrPartitionError, match=r"found: __cluster_metadata, .*, diverged, moved$"):
        kafkalog.read_table(case.data, "move", **case.remote)


@pytest.mark.parametrize(
    ("bucket", "kind", "said"),
    [
        ("no-such", FileNotFoundError, "no such bucket|there is no object below it"),
        ("elsewhere", OSError, "(?s)expecting 'eu-west-1'.*another region: give storage option aws_region"),
        ("moved", OSError, "another region: give storage option aws_region"),
        ("refused", PermissionError, "Access Key Id you provided does not exist"),
    ],
)
def test_what_aws_refuses(aws: str, options: dict[str, Any], bucket: str, kind: type[Exception], said: str) -> None:
    given = {**options, "aws_endpoint_url": aws, "aws_region": "eu-central-1"}
    with pytest.raises(kind, match=said) as raised:
        kafkalog.LogDir(f"s3://{bucket}/L", storage_options=given)
    assert "<Code>" not in str(raised.value)


@pytest.mark.skipif("obstore" not in CLIENTS, reason="pyarrow asks without credentials, and is answered")
def test_credentials_that_are_nowhere_are_asked_for(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    given = {"aws_endpoint_url": server.endpoint, "aws_region": "us-east-1", "max_retries": 0, "timeout": "2s"}
    with pytest.raises(OSError, match="no credentials were found: give them in storage_options"):
        kafkalog.LogDir("s3://bkt/L", storage_options=given)


def test_a_segment_in_a_store(options: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    name = f"orders-0/{0:020}.log"
    outputs = []
    given: list[str]
    for path, given in ((f"{LOG_DIR}/{name}", []), (f"s3://bkt/L/{name}", words(options))):
        assert main(["ls", path, *given]) == 0
        # Objects have times of their own.
        outputs.append([line.split()[:-1] for line in capsys.readouterr().out.splitlines()])
    assert outputs[0] == outputs[1]
    assert main(["stats", f"s3://bkt/L/{name}", *words(options)]) == 2
    assert "a segment in a store; give the folder that it is in" in capsys.readouterr().err


def test_schemas_of_another_log_dir_in_the_store(options: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    expected = kafkalog.read_table(TYPED, "key-record", decode="value")
    # A bucket of its own, since the options of a bucket hold for its URLs.
    alone = S3Server()
    try:
        alone.put_folder(TYPED / "key-record-0", "A/key-record-0/")
        given = {**options, "aws_endpoint_url": alone.endpoint}
        alone.put_folder(TYPED, "T/")
        for schemas in ("s3://bkt/T", Path(TYPED), [str(TYPED)]):
            table = kafkalog.read_table(
                "s3://bkt/A", "key-record", decode="value", schemas=schemas, storage_options=given
            )
            assert table.equals(expected)
        command = ["cat", "s3://bkt/A", "-t", "key-record", "--decode", "value", "--schemas", "s3://bkt/T", "-c", "1"]
        assert main([*command, *words(given)]) == 0
        assert capsys.readouterr().out.startswith('{"a":')
    finally:
        alone.close()


def test_urls_and_filesystems_that_name_no_bucket() -> None:
    with pytest.raises(ValueError, match=r"s3://: expected s3://BUCKET/PATH, found no bucket"):
        open_storage("s3://")
    with pytest.raises(TypeError, match=r"must be a pyarrow.fs, fsspec or obstore object, not 's3'"):
        kafkalog.LogDir("bkt/L", filesystem="s3")


def test_a_tier_that_is_described_wrongly(tmp_path: Path) -> None:
    case = tiered_cases.unpack("lineage", tmp_path)
    with pytest.raises(TypeError, match="keyring must be a dict from ids of key pairs to files"):
        kafkalog.read_table(case.data, "moved", remote=case.tier, keyring="key.pem")  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match="no object is named as remote_layout 'aiven' names them; as 'local' does, some"
    ):
        kafkalog.read_table(case.data, "moved", remote=case.tier, remote_layout="aiven")
    folder = next((case.tier / "kafka-tiered-storage").iterdir())
    with pytest.raises(ValueError, match="Give the folder or prefix that the keys of the plugin begin with"):
        kafkalog.read_table(case.data, "moved", remote=folder)


def test_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "logs").symlink_to(LOG_DIR)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert kafkalog.read_table("~/logs", "orders").num_rows == 880
    assert kafkalog.LogDir(Path("~/logs")).topics == kafkalog.LogDir(LOG_DIR).topics
    # A shell leaves it as it is in quotes.
    assert main(["offsets", "~/logs", "-t", "orders"]) == 0
    assert capsys.readouterr().out == "orders:0:880\n"
