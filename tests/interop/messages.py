"""The table of Kafka's message definitions, ``src/tables/messages.txt``, from the JSON in Kafka's jars.

Write the table from the jars of the newest Kafka (``mvn dependency:copy`` gets them)::

    python3 tests/interop/messages.py kafka-*-4.4.0.jar > src/tables/messages.txt

Only the newest definitions are needed: Kafka keeps every version that a log may still hold, and adds to a version
nothing but tagged fields. Held against the jars of Kafka 2.8 to 4.3, the table lacks only what was in KRaft's preview
(2.8), which no later broker reads.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "src" / "tables" / "messages.txt"

# What of each jar is stored in logs: the jar's name without its version, and the family in the table.
FAMILIES = {
    "kafka-group-coordinator": "group",
    "kafka-transaction-coordinator": "transaction",
    "kafka-share-coordinator": "share",
    "kafka-metadata": "metadata",
    "kafka-storage": "remote",
}
# Of the clients' jar: what control records and the payloads of consumer groups hold.
DATA = {
    "LeaderChangeMessage": "control",
    "SnapshotHeaderRecord": "control",
    "SnapshotFooterRecord": "control",
    "KRaftVersionRecord": "control",
    "VotersRecord": "control",
    "ConsumerProtocolSubscription": "consumer",
    "ConsumerProtocolAssignment": "consumer",
}
# Its messages are what the assignors of Kafka Streams tell each other, in bytes that no table decodes; one is no JSON.
NOT_STORED = {"kafka-streams"}
STORED_TYPES = {"coordinator-key", "coordinator-value", "metadata"}
MAX_VERSION = 32767
KEYS = {
    "about",
    "apiKey",
    "commonStructs",
    "default",
    "entityType",
    "fields",
    "flexibleVersions",
    "ignorable",
    "latestVersionUnstable",
    "mapKey",
    "name",
    "nullableVersions",
    "tag",
    "taggedVersions",
    "type",
    "validVersions",
    "versions",
    "zeroCopy",
}

Versions = tuple[int, int] | None


def versions(text: str) -> Versions:
    """Return the first and last of ``0``, ``0-3``, ``2+`` or ``none``."""
    if text == "none":
        return None
    if text.endswith("+"):
        return int(text[:-1]), MAX_VERSION
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def within(these: Versions, those: Versions) -> Versions:
    """Return the versions that are in both."""
    if these is None or those is None:
        return None
    first, last = max(these[0], those[0]), min(these[1], those[1])
    return (first, last) if first <= last else None


def spelled(these: Versions, around: Versions) -> str:
    """Spell versions; those that reach to the end of what is around them are open."""
    if these is None:
        return "none"
    first, last = these
    if around is not None and last >= around[1]:
        return f"{first}+"
    return str(first) if first == last else f"{first}-{last}"


@dataclass(frozen=True)
class Field:
    """A field, and those of its structure."""

    name: str
    type: str
    versions: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    default: str
    fields: tuple[Field, ...]

    def at(self, version: int) -> tuple[Any, ...]:
        """Return how one version is read."""
        is_nullable = within(self.nullable, (version, version)) is not None
        return self.name, self.type, is_nullable, layout(self.fields, version)

    def lines(self, around: Versions, depth: int) -> Iterator[str]:
        """Give the lines of the table."""
        words = ["  " * depth + self.name, self.type]
        if self.versions != around:
            words.append(spelled(self.versions, around))
        if self.nullable is not None:
            words.append("?" + ("" if self.nullable == self.versions else spelled(self.nullable, around)))
        if self.tag is not None:
            words.append(f"@{self.tag}" + ("" if self.tagged == self.versions else f":{spelled(self.tagged, around)}"))
        if self.default:
            words.append(f"={self.default}")
        yield " ".join(words)
        for each in self.fields:
            yield from each.lines(self.versions, depth + 1)


@dataclass(frozen=True)
class Layout:
    """Fields of one version of a structure."""

    plain: tuple[Any, ...]
    tagged: dict[int, tuple[Any, ...]]

    def has(self, other: Layout) -> bool:
        """Return whether this reads all that the other reads: more tagged fields do no harm."""
        plain = len(self.plain) == len(other.plain) and all(map(has, self.plain, other.plain))
        return plain and all(tag in self.tagged and has(self.tagged[tag], it) for tag, it in other.tagged.items())


def has(these: tuple[Any, ...], those: tuple[Any, ...]) -> bool:
    """Return whether a field reads all that another one reads."""
    return these[:-1] == those[:-1] and bool(these[-1].has(those[-1]))


def layout(fields: tuple[Field, ...], version: int) -> Layout:
    """Return how the fields of one version are read."""
    here = [each for each in fields if within(each.versions, (version, version))]
    tagged = {each.tag: each for each in here if each.tag is not None and within(each.tagged, (version, version))}
    plain = tuple(each.at(version) for each in here if each not in tagged.values())
    return Layout(plain, {tag: each.at(version) for tag, each in tagged.items()})


@dataclass(frozen=True)
class Message:
    """A message of one family."""

    family: str
    name: str
    api_key: int | None
    valid: Versions
    flexible: Versions
    fields: tuple[Field, ...] = field(repr=False)

    def is_flexible(self, version: int) -> bool:
        """Return whether a version has the flexible encoding."""
        return within(self.flexible, (version, version)) is not None

    def lines(self) -> Iterator[str]:
        """Give the lines of the table."""
        key = "-" if self.api_key is None else self.api_key
        flexible = spelled(within(self.flexible, self.valid), self.valid)
        yield f"{self.family} {key} {self.name} {spelled(self.valid, None)} {flexible}"
        for each in self.fields:
            yield from each.lines(self.valid, 1)


def parse_field(raw: dict[str, Any], around: Versions, common: dict[str, Any]) -> Field | None:
    """Parse a field, unless no version has it."""
    assert raw.keys() <= KEYS, raw.keys() - KEYS
    assert "flexibleVersions" not in raw, "a field with an encoding of its own"
    tagged = versions(raw.get("taggedVersions", "none"))
    its = within(versions(raw["versions"] if "versions" in raw else raw["taggedVersions"]), around)
    if its is None:
        return None
    inner = raw["type"].removeprefix("[]")
    nested = raw.get("fields", common.get(inner, ()))
    # `null` without quotes is no default for Kafka's generator, unlike `"null"`.
    default = "" if raw.get("default") is None else str(raw["default"])
    parsed = (parse_field(each, its, common) for each in nested)
    return Field(
        name=raw["name"][0].lower() + raw["name"][1:],
        type=("[]" if raw["type"].startswith("[]") else "") + ("struct" if nested else inner),
        versions=its,
        nullable=within(versions(raw.get("nullableVersions", "none")), its),
        tag=int(raw["tag"]) if "tag" in raw else None,
        tagged=within(tagged, its),
        default=default.lower() if default in {"True", "False"} else default,
        fields=tuple(each for each in parsed if each),
    )


def messages_of(jar: Path) -> Iterator[Message]:
    """Parse the messages in a jar that are stored in logs."""
    artifact = re.sub(r"-\d+\.\d+\.\d+.*", "", jar.name)
    if artifact in NOT_STORED:
        return
    with zipfile.ZipFile(jar) as archive:
        names = [name for name in archive.namelist() if re.search(r"(^|/)(message|metadata)/\w+\.json$", name)]
        texts = {name: archive.read(name).decode() for name in names}
    for text in texts.values():
        raw, _ = json.JSONDecoder().raw_decode(re.sub(r"(?m)^\s*//.*$", "", text).strip())
        family, key = FAMILIES.get(artifact), raw.get("apiKey")
        if artifact == "kafka-clients":
            family = DATA.get(raw["name"])
        elif raw["type"] not in STORED_TYPES:
            continue
        if family is None:
            continue
        valid = versions(raw["validVersions"])
        common = {each["name"]: each["fields"] for each in raw.get("commonStructs", ())}
        fields = (parse_field(each, valid, common) for each in raw["fields"])
        flexible = versions(raw.get("flexibleVersions", "none"))
        yield Message(family, raw["name"], key, valid, flexible, tuple(each for each in fields if each))


def collect(jars: list[Path]) -> dict[tuple[str, str], Message]:
    """Return the messages of jars by family and name."""
    return {(each.family, each.name): each for jar in jars for each in messages_of(jar)}


def lacks(mine: dict[tuple[str, str], Message], theirs: dict[tuple[str, str], Message]) -> list[str]:
    """Say what of their messages mine cannot read."""
    found = []
    for name, other in theirs.items():
        own = mine.get(name)
        if own is None or own.api_key != other.api_key:
            found.append(f"{other.family} {other.api_key} {other.name}")
            continue
        assert other.valid is not None
        for version in range(other.valid[0], other.valid[1] + 1):
            valid = within(own.valid, (version, version)) is not None
            encoded = own.is_flexible(version) == other.is_flexible(version)
            if not (valid and encoded and layout(own.fields, version).has(layout(other.fields, version))):
                found.append(f"{other.name}, version {version}")
    return found


def table(messages: dict[tuple[str, str], Message]) -> str:
    """Return the text of the table."""
    order = list(dict.fromkeys([*FAMILIES.values(), *DATA.values()]))
    ordered = sorted(messages.values(), key=lambda m: (order.index(m.family), m.api_key or 0, m.name))
    return HEAD + "".join(f"{line}\n" for message in ordered for line in message.lines())


HEAD = """\
# Kafka's message definitions, by tests/interop/messages.py from the jars of Kafka. Do not edit.
#
# FAMILY APIKEY NAME VERSIONS FLEXIBLE-VERSIONS, then its fields, those of a structure indented below it:
# NAME TYPE [VERSIONS] [?NULLABLE-VERSIONS] [@TAG[:TAGGED-VERSIONS]] [=DEFAULT]; left out, versions are those around.
"""


def read_fields(lines: list[str], depth: int, around: Versions) -> tuple[Field, ...]:
    """Read the fields of one level, and what is below them."""
    found = []
    while lines and len(lines[0]) - len(lines[0].lstrip()) == 2 * depth:
        name, kind, *words = lines.pop(0).split()
        its, nullable, tag, tagged, default = around, None, None, None, ""
        for word in words:
            rest = word[1:]
            if word[0] == "?":
                nullable = within(versions(rest), around) if rest else its
            elif word[0] == "@":
                number, _, of = rest.partition(":")
                tag, tagged = int(number), within(versions(of), around) if of else its
            elif word[0] == "=":
                default = rest
            else:
                its = within(versions(word), around)
        found.append(Field(name, kind, its, nullable, tag, tagged, default, read_fields(lines, depth + 1, its)))
    return tuple(found)


def read(text: str) -> dict[tuple[str, str], Message]:
    """Read the text of the table back."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    found = {}
    while lines:
        family, key, name, valid, flexible = lines.pop(0).split()
        its = versions(valid)
        fields = read_fields(lines, 1, its)
        api_key = None if key == "-" else int(key)
        found[family, name] = Message(family, name, api_key, its, within(versions(flexible), its), fields)
    return found


if __name__ == "__main__":
    sys.stdout.write(table(collect([Path(each) for each in sys.argv[1:]])))
