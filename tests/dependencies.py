"""Check the licences and duplicates of the crates that Cargo.lock names, against ``.deny.toml``.

Usage: ``python3 tests/dependencies.py``. The configuration is cargo-deny's, and cargo-deny runs where it is installed.
Building it takes longer than most steps of tests/run.py, and neither Debian nor PyPI has a version that reads this
Cargo.lock. Elsewhere this file applies the same rules to what ``cargo metadata`` says of each crate: the ``licenses``
table (``allow``, ``exceptions``) and the ``bans`` table (``multiple-versions``, ``wildcards``, ``skip``).
Unlike cargo-deny it takes a crate's ``license`` field at its word and does not read licence files.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / ".deny.toml"

Package = dict[str, Any]


def allows(expression: str, allowed: set[str]) -> bool:
    """Tell whether an SPDX expression can be satisfied with the allowed licences.

    ``AND`` binds tighter than ``OR``, ``/`` is an old spelling of ``OR``, and a licence ``WITH`` an exception is one.
    """
    tokens = re.findall(r"\(|\)|[^\s()]+", re.sub(r"\s*/\s*", " OR ", expression))
    found, rest = _either(_joined(tokens), allowed)
    if rest:
        raise ValueError(f"cannot read the licence expression {expression!r}")
    return found


def _joined(tokens: list[str]) -> list[str]:
    joined: list[str] = []
    for word in tokens:
        if joined and (word == "WITH" or joined[-1].endswith(" WITH")):
            joined[-1] += f" {word}"
        else:
            joined.append(word)
    return joined


def _either(tokens: list[str], allowed: set[str]) -> tuple[bool, list[str]]:
    found, rest = _both(tokens, allowed)
    while rest[:1] == ["OR"]:
        other, rest = _both(rest[1:], allowed)
        found = found or other
    return found, rest


def _both(tokens: list[str], allowed: set[str]) -> tuple[bool, list[str]]:
    found, rest = _one(tokens, allowed)
    while rest[:1] == ["AND"]:
        other, rest = _one(rest[1:], allowed)
        found = found and other
    return found, rest


def _one(tokens: list[str], allowed: set[str]) -> tuple[bool, list[str]]:
    if not tokens:
        raise ValueError("a licence expression ends too early")
    if tokens[0] != "(":
        return tokens[0] in allowed, tokens[1:]
    found, rest = _either(tokens[1:], allowed)
    return found, rest[1:]


def licence_findings(packages: list[Package], config: dict[str, Any]) -> list[str]:
    """Name the crates whose licence is not allowed."""
    exceptions = {each["name"]: set(each["allow"]) for each in config.get("exceptions", ())}
    findings = []
    for package in packages:
        name, licence = package["name"], package["license"]
        allowed = set(config["allow"]) | exceptions.get(name, set())
        if not licence or not allows(licence, allowed):
            findings.append(f"{name} {package['version']}: licence {licence} is not allowed")
    return findings


def duplicate_findings(packages: list[Package], config: dict[str, Any]) -> list[str]:
    """Name the crates with several versions, except skipped ones; print what is skipped in vain."""
    skipped = {each["crate"] for each in config.get("skip", ())}
    versions = defaultdict(set)
    for package in packages:
        versions[package["name"]].add(package["version"])
    named = {f"{name}@{version}" for name, found in versions.items() if len(found) > 1 for version in found}
    for crate in sorted(skipped - named):
        print(f"note: {CONFIG.name} skips {crate}, which is no duplicate")
    findings = []
    for name, found in sorted(versions.items()):
        left = sorted(version for version in found if f"{name}@{version}" not in skipped)
        if len(found) > 1 and len(left) > 1:
            findings.append(f"{name}: several versions: {', '.join(left)}")
    return findings


def wildcard_findings(packages: list[Package]) -> list[str]:
    """Name the dependencies of our own crate that accept any version; the crate itself is one for its tests."""
    ours = [package for package in packages if package["source"] is None]
    needed = [each for one in ours for each in one["dependencies"] if "path" not in each]
    return [f"{each['name']}: any version is accepted" for each in needed if each["req"] == "*"]


def main() -> int:
    """Print the findings; 1 if there are any."""
    ask = ["cargo", "metadata", "--locked", "--all-features", "--format-version", "1"]
    done = subprocess.run(ask, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    packages: list[Package] = json.loads(done.stdout)["packages"]
    config = tomllib.loads(CONFIG.read_text(encoding="utf-8"))
    findings = licence_findings(packages, config["licenses"])
    findings += duplicate_findings(packages, config["bans"])
    findings += wildcard_findings(packages)
    for finding in findings:
        print(finding)
    print(f"{len(packages)} crates, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
