"""Words of the shell: the fixed parts of the script, and quoting of names and values in it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

HEAD = """\
# Run it with sh as a super user of the new cluster, to which it adds what is missing. It ends at the first failure, and
# may be run again. kafka-topics.sh, kafka-configs.sh, kafka-acls.sh and kafka-consumer-groups.sh do the work; a topic
# that exists is left as it is. ACLs need an authorizer (authorizer.class.name).
#
#   BOOTSTRAP_SERVER        host:port of the new cluster; localhost:9092
#   COMMAND_CONFIG          a file of settings for clients (security.protocol, ...); none
#   KAFKA_BIN               the folder of Kafka's tools, unless they are on the PATH
#   MAX_REPLICATION_FACTOR  the number of brokers of the new cluster, if some topics had more replicas
#   BROKER_n                the id in the new cluster of what was broker n; empty for none; the same id
#   SCRAM_PASSWORDS         a file with a line for each user: name, tabulator, password
#   STRICT                  1: exit with 1 if offsets or users could not be set as they were
#
# Not kept: ids of topics, the assignment of replicas to brokers, records. `kafkalog rescue` keeps these.
"""
SETUP = """\
set -eu
umask 077
work=$(mktemp -d)
finish() {
  code=$?
  rm -rf "$work"
  if [ "$code" != 0 ]; then echo "stopped with exit code $code; it may be run again" >&2; fi
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
case ${LC_ALL:-${LC_CTYPE:-${LANG:-}}} in
  # Java reads names from its arguments as the locale says, and here they are UTF-8.
  *[Uu][Tt][Ff]8* | *[Uu][Tt][Ff]-8*) ;;
  *) export LC_ALL=C.UTF-8 ;;
esac
PATH=${KAFKA_BIN:+$KAFKA_BIN:}$PATH
for tool in kafka-topics kafka-configs kafka-acls kafka-consumer-groups; do
  if ! command -v "$tool.sh" >/dev/null; then
    if ! command -v "$tool" >/dev/null; then
      echo "$tool.sh is not on the PATH: set KAFKA_BIN" >&2
      exit 127
    fi
    # Packages install the tools without the ending.
    mkdir -p "$work/bin"
    printf '#!/bin/sh\\nexec %s "$@"\\n' "$tool" >"$work/bin/$tool.sh"
    chmod +x "$work/bin/$tool.sh"
    PATH=$PATH:$work/bin
  fi
done
# Each tool ends soon.
export KAFKA_JVM_PERFORMANCE_OPTS="${KAFKA_JVM_PERFORMANCE_OPTS:--XX:TieredStopAtLevel=1 -XX:+UseSerialGC}"
# "$@" is how each tool connects.
set -- --bootstrap-server "${BOOTSTRAP_SERVER:-localhost:9092}"
if [ -n "${COMMAND_CONFIG:-}" ]; then set -- "$@" --command-config "$COMMAND_CONFIG"; fi
: "${MAX_REPLICATION_FACTOR:=32767}"
incomplete=0
"""
REPLICATION_FUNCTION = """\
replication_factor() {
  if [ "$1" -le "$MAX_REPLICATION_FACTOR" ]; then echo "$1"; else echo "$MAX_REPLICATION_FACTOR"; fi
}
"""
SCRAM_FUNCTION = """\
# scram USER MECHANISM ITERATIONS CONNECTION...
scram() {
  user=$1 mechanism=$2 iterations=$3
  shift 3
  tab=$(printf '\\t')
  if [ -n "${SCRAM_PASSWORDS:-}" ]; then
    while IFS= read -r line || [ -n "$line" ]; do
      case $line in
        "$user$tab"*)
          password=$(printf '%s' "${line#"$user$tab"}" | sed 's/\\\\/\\\\\\\\/g')
          printf '%s=iterations=%s,password=%s\\n' "$mechanism" "$iterations" "$password" >"$work/config"
          kafka-configs.sh "$@" --alter --entity-type users --entity-name "$user" --add-config-file "$work/config" \\
            </dev/null
          return
          ;;
      esac
    done <"$SCRAM_PASSWORDS"
  fi
  echo "user $user has no $mechanism credential: SCRAM_PASSWORDS has no password for it" >&2
  incomplete=1
}
"""
RESET_FUNCTION = """\
# reset GROUP CONNECTION...: commits the offsets in $work/offsets.csv
reset() {
  group=$1
  shift
  kafka-consumer-groups.sh "$@" --group "$group" --reset-offsets --from-file "$work/offsets.csv" --export --execute \\
    >"$work/out" || { cat "$work/out" >&2; exit 1; }
  if grep '^Error: ' "$work/out" >&2; then exit 1; fi
  # The tool commits another offset where the log has not got this one.
  sed 's/"//g' "$work/out" >"$work/committed"
  if grep -Fvx -f "$work/committed" "$work/offsets.csv" >"$work/missed"; then
    while IFS= read -r line; do
      echo "group $group: not set, because the log has no such offset (topic,partition,offset): $line" >&2
    done <"$work/missed"
    incomplete=1
  else
    echo "Committed offsets of group $group."
  fi
}
"""
FINISH = """\
if [ "$incomplete" = 1 ]; then
  echo "done, but for what is named above; write the records or give the passwords, and run it again" >&2
  if [ "${STRICT:-0}" = 1 ]; then exit 1; fi
fi
"""


def command(tool: str, *words: str, options: Sequence[Sequence[str]] = ()) -> str:
    """Write a command; options that repeat have lines of their own, which keeps differences small."""
    line = " ".join([f'{tool}.sh "$@"', *words])
    return " \\\n  ".join([line, *(" ".join(map(shlex.quote, each)) for each in options)]) + "\n"


def file(name: str, lines: Sequence[str]) -> str:
    """Write a file by a here-document, whose end is none of the lines."""
    end = "END"
    while end in lines:
        end += "_"
    return "".join([f"cat >\"$work/{name}\" <<'{end}'\n", *(f"{line}\n" for line in lines), f"{end}\n"])


def is_argument(text: str) -> bool:
    """Return whether a program can be given a text: an argument ends at a zero byte."""
    return "\0" not in text


def is_word(text: str) -> bool:
    """Return whether a text stays as it is where Java trims it."""
    return is_argument(text) and text == text.strip("".join(map(chr, range(33))))


_ESCAPED = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}


def java_property(name: str, value: str) -> str:
    """Write a setting as Java's ``Properties.load`` reads it, in ISO 8859-1."""
    text = "".join(_ESCAPED.get(char) or (char if " " <= char <= "~" else _units(char)) for char in value)
    return f"{name}=\\{text}" if text.startswith(" ") else f"{name}={text}"


def _units(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
