"""Protobuf or JSON payloads of a corpus of typed logs with the witnesses' answers, for Rust's tests.

A line is a schema (`schema`: its number, `text`, `references`: pairs of name and text) or a payload (`writer` and
`reader`: numbers of schemas; `message`: indexes; `body` in base64; members of the corpus: `value`, `json`, ...).

    python3 tests/value_cases.py PROTOBUF|JSON ../shared/corpus/typed OUT.jsonl [ROWS OF A PARTITION]
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
from pathlib import Path
from typing import Any

from avro_cases import bodies

MEMBERS = ("error", "errors", "readError", "read", "json", "unknown", "text")
FRAMED = {"prefix": 5, "prefix-guid": 17, "header-guid": 0, "header-id": 0}


def references(row: dict[str, Any], rows: dict[Any, dict[str, Any]]) -> list[tuple[str, str]]:
    """Names and texts that a schema refers to, each after those that it refers to itself."""
    found: list[tuple[str, str]] = []
    for reference in row["references"]:
        target = rows[reference["subject"], reference["version"]]
        for pair in [*references(target, rows), (reference["name"], target["schema"])]:
            if pair not in found:
                found.append(pair)
    return found


def indexes(data: bytes) -> tuple[list[int], bytes] | None:
    """Return message indexes and the bytes after them."""
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if not byte & 128:
                return (value >> 1) ^ -(value & 1)

    try:
        count = number()
        if not 0 <= count <= 100:
            return None
        path = [number() for _ in range(count)]
    except IndexError:
        return None
    return path, data[at:]


def main(kind: str, corpus: Path, out: Path, most: int) -> None:  # noqa: C901
    numbers: dict[str, int] = {}
    with out.open("w") as file:

        def number(key: tuple[str, int], rows: dict[Any, dict[str, Any]]) -> int:
            found = json.dumps([rows[key]["schema"], references(rows[key], rows)])
            if found not in numbers:
                numbers[found] = len(numbers)
                text, named = json.loads(found)
                line = {"schema": numbers[found], "text": text, "references": named}
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
            return numbers[found]

        for answers in sorted(corpus.glob("*/expected/*/values.jsonl.gz")):
            case = answers.parents[2]
            listed = map(json.loads, (case / "expected/schemas.jsonl").open())
            rows = {(row["subject"], row["version"]): row for row in listed if "duplicateOf" not in row}
            topic, _, partition = answers.parent.name.rpartition("-")
            lines = list(map(json.loads, gzip.decompress(answers.read_bytes()).splitlines()))
            if not any(answer.get("schemaType") == kind for answer in lines):
                continue
            body = bodies(case, topic, int(partition))
            taken: dict[str, int] = {}
            for answer in lines:
                if answer.get("schemaType") != kind:
                    continue
                payload = body[answer["offset"], answer["side"]][FRAMED[answer["framing"]] :]
                message = answer.get("index")
                if kind == "PROTOBUF" and not answer["framing"].startswith("header"):
                    found = indexes(payload)
                    if found is None:
                        continue
                    message, payload = found
                if any(0xD800 <= ord(c) < 0xE000 for c in json.dumps(answer.get("writer"), ensure_ascii=False)):
                    continue  # Half of a surrogate pair, which serde_json does not read.
                sort = str(
                    (answer["subject"], answer["version"], answer.get("error"), answer.get("readError"), message)
                )
                taken[sort] = taken.get(sort, 0) + 1
                if taken[sort] > most:
                    continue
                reader = answer.get("reader")
                line = {
                    "at": f"{case.name}/{answers.parent.name} {answer['offset']} {answer['side']}",
                    "writer": number((answer["subject"], answer["version"]), rows),
                    "message": message or [],
                    "body": base64.b64encode(payload).decode(),
                    **{name: answer[name] for name in MEMBERS if name in answer},
                }
                if "writer" in answer:
                    line["value"] = answer["writer"]
                if reader and answer.get("readError") != "other_schema_type":
                    line["reader"] = number((reader["subject"], reader["version"]), rows)
                file.write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else sys.maxsize)
