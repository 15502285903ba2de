"""README.md and the guides of the package as documents: their fenced blocks, and a folder that stands for the user's.

Examples in the README read ``tests/golden`` and run in a clone as they are pasted. Examples in guides name folders
below ``/data`` and ``/backup``; :func:`own_folders` puts copies of golden log dirs in their place.
"""

from __future__ import annotations

import re
import shutil
import sys
from importlib.resources import files
from pathlib import Path

import clusters
import corpus
import tiered_cases

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"


def text(document: str) -> str:
    """Give ``README``, or a guide as it is installed."""
    if document == "README":
        return README.read_text(encoding="utf-8")
    return (files("kafkalog") / "guides" / f"{document}.md").read_text(encoding="utf-8")


def blocks(document: str, language: str) -> list[str]:
    """Give the fenced blocks of a language."""
    found = re.findall(rf"^```{language}\n(.*?)^```", text(document), flags=re.DOTALL | re.MULTILINE)
    return [str(block) for block in found]


def python(document: str, *, spark: bool) -> list[str]:
    """Give the Python blocks that need Spark, or the others, each below as many empty lines as the document has."""
    content = text(document)
    found = re.finditer(r"^```python\n(.*?)^```", content, flags=re.DOTALL | re.MULTILINE)
    padded = ("\n" * content.count("\n", 0, each.start(1)) + each[1] for each in found)
    return [code for code in padded if ("pyspark" in code) == spark]


def imports(code: str) -> list[str]:
    """Give what an example imports, by its first name, without kafkalog and what belongs to Python."""
    found = re.findall(r"^(?:import|from) (\w+)", code, flags=re.MULTILINE)
    return [name for name in found if name != "kafkalog" and name not in sys.stdlib_module_names]


def own_folders(home: Path) -> None:
    """Make what stands for the user's ``/data`` and ``/backup``: log dirs to read, recover, verify and rescue."""
    golden = corpus.GOLDEN
    shutil.copytree(golden / "clean-restarts" / "data-1", home / "data" / "kafka-logs")
    shutil.copytree(golden / "kill-9" / "data-1", home / "data" / "killed-logs")
    shutil.copytree(golden / "internal-compacted" / "data-0", home / "data" / "broker-logs")
    for folder in ("internal-compacted/data-1/__consumer_offsets-0", "metadata/data-0/__cluster_metadata-0"):
        shutil.copytree(golden / folder, home / "data" / "broker-logs" / Path(folder).name)
    shutil.copytree(golden / "clean-restarts" / "data-1", home / "data" / "broken-logs")
    shutil.copytree(golden / "typed" / "keys" / "data-0", home / "data" / "typed-logs")
    tiered = tiered_cases.unpack("lineage", home / "unpacked")
    shutil.move(tiered.data, home / "data" / "tiered-broker")
    shutil.move(tiered.tier, home / "data" / "tier")
    damage(next((home / "data" / "broken-logs" / "ledger-0").glob("*.log")))
    clusters.make_cluster(home / "data")
    clusters.make_other(home / "data" / "other-cluster")
    shutil.copytree(golden / "clean-restarts" / "data-1", home / "backup" / "kafka-logs")


def damage(log: Path) -> None:
    """Flip a bit of the last record."""
    data = bytearray(log.read_bytes())
    data[-9] ^= 1
    log.write_bytes(data)


def filled_in(code: str, home: Path) -> str:
    """Replace the names that stand for the user's own."""
    return re.sub(r"(?<![\w.])/(data|backup)/", rf"{home}/\1/", code)
