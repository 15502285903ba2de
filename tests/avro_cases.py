"""Avro payloads of a corpus of typed logs with the witnesses' answers, as lines of JSON for `tests/rust/avro`.

A line is a schema (`schema`: its number, `texts`: those that it refers to, then its own) or a payload (`writer` and
`reader`: numbers of schemas; `body` in base64; the members of the corpus: `value`, `read`, `error`, `readError`, ...).

    python3 tests/avro_cases.py ../shared/corpus/typed OUT.jsonl [ROWS OF A PARTITION]
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
from pathlib import Path
from typing import Any

import kafkalog

MEMBERS = ("error", "errors", "readError", "javaValue", "disputed", "read")


def texts(row: dict[str, Any], rows: dict[Any, dict[str, Any]]) -> list[str]:
    """Texts of a schema and of those that it refers to, which come first."""
    found: list[str] = []
    for reference in row["references"]:
        subject = reference["subject"]
        if not subject.startswith(":") and row["context"] != ".":
            subject = f":{row['context']}:{subject}"
        for text in texts(rows[subject, reference["version"]], rows):
            if text not in found:
                found.append(text)
    return [*found, row["schema"]]


def bodies(case: Path, topic: str, partition: int) -> dict[tuple[int, str], bytes]:
    """Bytes after the framing of every key and value with a prefix or a header."""
    found = {}
    table = kafkalog.read_table(case / "data-0", topics=topic, columns=["partition", "offset", "key", "value"])
    for row in table.to_pylist():
        if row["partition"] == partition:
            for side in ("key", "value"):
                found[row["offset"], side] = row[side]
    return found


def main(corpus: Path, out: Path, most: int) -> None:
    numbers: dict[str, int] = {}
    framed = {"prefix": 5, "prefix-guid": 17, "header-guid": 0, "header-id": 0}
    with out.open("w") as file:

        def number(key: tuple[str, int], rows: dict[Any, dict[str, Any]]) -> int:
            found = json.dumps(texts(rows[key], rows))
            if found not in numbers:
                numbers[found] = len(numbers)
                line = {"schema": numbers[found], "texts": json.loads(found)}
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
            return numbers[found]

        for answers in sorted(corpus.glob("*/expected/*/values.jsonl.gz")):
            case = answers.parents[2]
            listed = map(json.loads, (case / "expected/schemas.jsonl").open())
            rows = {(row["subject"], row["version"]): row for row in listed if "duplicateOf" not in row}
            topic, _, partition = answers.parent.name.rpartition("-")
            body = bodies(case, topic, int(partition))
            taken: dict[str, int] = {}
            for answer in map(json.loads, gzip.decompress(answers.read_bytes()).splitlines()):
                if answer.get("schemaType") != "AVRO" or answer.get("error") == "bad_schema":
                    continue
                kind = str(
                    (answer["side"], answer["subject"], answer["version"], answer.get("error"), answer.get("readError"))
                )
                taken[kind] = taken.get(kind, 0) + 1
                if taken[kind] > most:
                    continue
                key = answer["subject"], answer["version"]
                if (answer["context"], rows[key]["id"]) != (rows[key]["context"], answer["id"]):
                    continue
                reader = answer.get("reader")
                payload = body[answer["offset"], answer["side"]]
                line = {
                    "at": f"{case.name}/{answers.parent.name} {answer['offset']} {answer['side']}",
                    "writer": number(key, rows),
                    "body": base64.b64encode(payload[framed[answer["framing"]] :]).decode(),
                    **{name: answer[name] for name in MEMBERS if name in answer},
                }
                if "writer" in answer:
                    line["value"] = answer["writer"]
                if reader and answer.get("readError") != "other_schema_type":
                    line["reader"] = number((reader["subject"], reader["version"]), rows)
                file.write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else sys.maxsize)
