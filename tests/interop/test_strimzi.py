"""`kafkalog metadata --as strimzi`: the classes of the Strimzi operators read every resource whole."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import clusters
import corpus
from command import call
from interop.maven import MissingToolError, class_path
from metadata_made import HOSTILE, acl, config, make, quota, scram

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900), pytest.mark.full]

PROJECT = Path(__file__).resolve().parent / "strimzi"
yaml = importlib.import_module("yaml")
# What these classes leave out when they write.
DEFAULTS = {"type": "allow", "patternType": "literal", "host": "*"}


@pytest.fixture(scope="module")
def read() -> Callable[[str], list[dict[str, Any]]]:
    """Read YAML with the classes of the operators."""
    try:
        jars = class_path(PROJECT)
    except MissingToolError as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(f"required in CI: {missing}")
        pytest.skip(str(missing))

    def read(text: str) -> list[dict[str, Any]]:
        command = ["java", "-cp", f"{jars}:{PROJECT / 'target' / 'classes'}", "witness.ReadResources"]
        done = subprocess.run(command, input=text.encode(), capture_output=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr.decode(errors="replace")[-3000:]
        return [json.loads(line) for line in done.stdout.decode().split("\n") if line]

    return read


def without_defaults(value: Any, place: str = "") -> Any:
    if isinstance(value, list):
        return [without_defaults(each, place) for each in value]
    if not isinstance(value, dict):
        return value
    inside = place in {"acls", "resource"}
    return {
        name: without_defaults(each, name)
        for name, each in value.items()
        if not (inside and DEFAULTS.get(name) == each and (place, name) != ("resource", "type"))
    }


def hostile(folder: Path) -> Path:
    records = [config(2, "orders", f"p.{n}", name) for n, name in enumerate(HOSTILE)]
    records += [acl(n, resourceName=name, host=name, operation=n % 12 + 2) for n, name in enumerate(HOSTILE)]
    records += [acl(50, resourceType=4, resourceName="kafka-cluster"), acl(51, resourceType=5, permissionType=2)]
    records += [quota({"user": "alice"}, "producer_byte_rate", 5.0), scram("alice"), acl(52, principal="User:CN=x")]
    records += [quota({"user": "alice"}, "controller_mutation_rate", 2.5)]
    return make(folder / "disk", records)


@pytest.mark.parametrize("case", ["golden", "hostile", *clusters.CASES])
def test_the_operators_read_it_all(read: Callable[[str], list[dict[str, Any]]], tmp_path: Path, case: str) -> None:
    paths = {"golden": [corpus.GOLDEN / "metadata" / "data-0"], "hostile": []}.get(case)
    if paths == []:
        paths = [hostile(tmp_path)]
    done = call("metadata", *(clusters.disks(case) if paths is None else paths), "--as", "strimzi")
    assert done.returncode == 0, done.stderr
    written = [each for each in yaml.safe_load_all(done.stdout) if each is not None]
    assert len(written) > 1
    assert without_defaults(read(done.stdout)) == without_defaults(written)


def test_they_refuse_what_they_do_not_know(read: Callable[[str], list[dict[str, Any]]]) -> None:
    head = "apiVersion: kafka.strimzi.io/v1\nkind: KafkaUser\nmetadata: {name: a}\n"
    text = f"{head}spec: {{authorization: {{type: simple, acls: ["
    with pytest.raises(AssertionError, match="does not have"):
        read(f"{text}{{resource: {{type: topic, colour: red}}, operations: [Read]}}]}}}}\n")
    # Of a word that they do not know they keep nothing.
    [user] = read(f"{text}{{resource: {{type: topic}}, operations: [Reed]}}]}}}}\n")
    assert user["spec"]["authorization"]["acls"][0]["operations"] == [None]
