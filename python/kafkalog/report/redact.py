"""Names replaced by short hashes: those of topics, groups, clients, hosts and transactional ids, and paths.

A name has the same hash everywhere and in every report, so that two reports can be compared. Names of Kafka's own
topics and files stay.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkalog.report.model import Row

_KINDS = {
    "topic": "topic",
    "group": "group",
    "memberId": "member",
    "clientId": "client",
    "clientHost": "host",
    "transactionalId": "transaction",
    "subject": "subject",
}
_PATHS = frozenset({"path", "logDir", "file"})
_TEXTS = frozenset({"message", "advice", "notes", "unread"})
_KAFKAS = frozenset(
    {
        *("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"),
        *("__remote_log_metadata", "other topics"),
    }
)
_KAFKAS_FILE = re.compile(
    r"\d{20}(-\d{10})?\.[A-Za-z.]+|[a-z-]+-checkpoint|meta\.properties|partition\.metadata|quorum-state"
    r"|bootstrap\.checkpoint|\.lock|\.kafka_cleanshutdown|remote-log-index-cache|lost\+found"
)
_FOLDER = re.compile(r"(?P<topic>.+)-(?P<rest>\d+(\.[0-9A-Za-z_-]+-(delete|future|stray))?)", re.DOTALL)
# What a text quotes, and a path in it.
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'')
_PATH_IN_TEXT = re.compile(r"(?<![\w<])/[^\s:;,'\"]+")
_OBJECT = re.compile(r"\{.*\}", re.DOTALL)
_HARMLESS = frozenset({'"skip"', '"raise"'})


def redacted(numbers: Row) -> Row:
    """Return the numbers of a report with hashes for names."""
    found: Row = _Redaction(numbers).of(numbers)
    return {**found, "redacted": True}


def hashed(kind: str, name: str) -> str:
    """Return what stands for a name."""
    return f"{kind}-{hashlib.sha256(f'{kind}:{name}'.encode(errors='surrogateescape')).hexdigest()[:8]}"


class _Redaction:
    def __init__(self, numbers: Row) -> None:
        self._names: dict[str, str] = {}
        self._dirs: dict[str, str] = {}
        for each in numbers["dirs"]:
            self._dirs[each["path"]] = hashed("dir", each["path"])
        self._collect(numbers)
        longest = sorted(self._names, key=len, reverse=True)
        # A name in a text is a whole word of it; the number of a partition may follow it.
        words = "|".join(map(re.escape, longest)) or "(?!)"
        self._in_text = re.compile(rf"(?<![\w.])(?:{words})(?![\w.]*\w)")

    def _collect(self, value: Any) -> None:
        if isinstance(value, list):
            for each in value:
                self._collect(each)
        elif isinstance(value, dict):
            for key, each in value.items():
                if key in _KINDS and isinstance(each, str) and each and each not in _KAFKAS:
                    self._names.setdefault(each, hashed(_KINDS[key], each))
                self._collect(each)

    def of(self, value: Any, key: str = "") -> Any:
        """Return a value of the JSON; ``key`` is its name."""
        if isinstance(value, dict):
            return {name: self.of(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [self.of(each, key) for each in value]
        if not isinstance(value, str):
            return value
        if key in _KINDS:
            return value if value in _KAFKAS or not value else self._name(value, _KINDS[key])
        if key in _PATHS:
            return self.path(value)
        return self.text(value) if key in _TEXTS else value

    def _name(self, name: str, kind: str) -> str:
        return self._names.get(name) or hashed(kind, name)

    def path(self, path: str) -> str:
        """Redact a path: the log dir as one, and below it each name that is not Kafka's."""
        for log_dir, stands in self._dirs.items():
            if path == log_dir:
                return stands
            if path.startswith(log_dir.rstrip("/") + "/"):
                return f"{stands}/{self._below(path[len(log_dir.rstrip('/')) + 1 :])}"
        head, _, name = path.rpartition("/")
        kept = name if _KAFKAS_FILE.fullmatch(name) else self._component(name)
        return f"{hashed('dir', head)}/{kept}" if head else kept

    def _below(self, path: str) -> str:
        return "/".join(map(self._component, path.split("/")))

    def _component(self, name: str) -> str:
        if not name or _KAFKAS_FILE.fullmatch(name):
            return name
        folder = _FOLDER.fullmatch(name)
        if folder is None:
            return hashed("file", name)
        topic = folder["topic"]
        return f"{topic if topic in _KAFKAS else self._name(topic, 'topic')}-{folder['rest']}"

    def text(self, text: str) -> str:
        """Redact names and paths in a text, and whatever it quotes."""
        for log_dir in sorted(self._dirs, key=len, reverse=True):
            below = re.compile(rf"{re.escape(log_dir)}(/[^\s:;,'\"]*)?(?![\w.-])")
            text = below.sub(lambda found: self.path(found[0].rstrip("/")), text)
        text = _PATH_IN_TEXT.sub(lambda found: self.path(found[0]), text)
        text = _OBJECT.sub("{...}", text)
        text = _QUOTED.sub(lambda found: found[0] if found[0] in _HARMLESS else self._quoted(found[0]), text)
        return self._in_text.sub(lambda found: self._names[found[0]], text)

    def _quoted(self, quoted: str) -> str:
        name = quoted[1:-1]
        if name in _KAFKAS or name in self._names.values():
            return quoted
        return f"{quoted[0]}{self._names.get(name) or hashed('name', name)}{quoted[-1]}"
