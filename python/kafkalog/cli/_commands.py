"""The table of commands, and what those who do not know it yet are shown."""

from __future__ import annotations

# The first three are what most people need; within a group, what is used most stands first.
GROUPS: dict[str, dict[str, str]] = {
    "start here": {
        "ls": "list topics, partitions and segments: offsets, times, sizes",
        "cat": "print records to standard output, with kcat's options",
        "export": "write directories as Parquet, Arrow, JSON lines or CSV, here or on Spark",
    },
    "read": {
        "grep": "print the records that contain a literal or match an expression",
        "dump": "print what kafka-dump-log prints, with its flags",
    },
    "look": {
        "stats": "count records, sizes, codecs and producers, from batch headers alone",
        "offsets": "print topic:partition:offset, as kafka-get-offsets does",
        "groups": "print what kafka-consumer-groups --describe prints: offsets, lag, members, states",
        "transactions": "print transactional ids and their transactions, open ones or aborted ones",
        "schemas": "list the schemas of a schema registry from its topic, or write them into files",
        "topics": "print what kafka-topics --describe prints, from the metadata log",
        "metadata": "print topics, settings, ACLs, users, quotas, offsets as commands for a new cluster",
    },
    "check": {
        "verify": "verify every file of a log dir, and report faults and what to do about them",
        "explain": "explain why each segment still exists, until when, and what can be freed",
        "report": "write one HTML page: damage, disk usage, topics, offsets, transactions, groups",
    },
    "repair": {
        "recover": "recover a log dir or a partition after a crash, as a broker's start-up does",
        "rebuild": "rebuild the indexes of a partition",
        "rescue": "rebuild a startable cluster from a dead cluster's disks or tiered storage",
        "truncate": "copy a partition up to an offset into a new log dir",
    },
    "write": {
        "compact": "copy logs into a new log dir, and compact the copy",
        "retain": "copy logs into a new log dir, without what retention deletes",
        "rewrite": "copy logs into a new log dir, without some records, or with another codec",
        "import": "write Parquet, Arrow, JSON lines and other logs into a log dir that a broker can mount",
    },
    "help": {
        "help": "guides to reading, writing, recovering and Spark",
        "completion": "print what makes bash, zsh or fish complete commands, options and topics",
    },
}
COMMANDS = {name: summary for group in GROUPS.values() for name, summary in group.items()}

# What people type who come from other tools, or guess.
SYNONYMS = {
    "list": "ls",
    "dir": "ls",
    "tree": "ls",
    "log-dirs": "ls",
    "partitions": "ls",
    "segments": "ls",
    "show": "cat",
    "read": "cat",
    "print": "cat",
    "consume": "cat",
    "consumer": "cat",
    "console-consumer": "cat",
    "records": "cat",
    "scan": "cat",
    "messages": "cat",
    "head": "cat",
    "tail": "cat",
    "kcat": "cat",
    "search": "grep",
    "find": "grep",
    "filter": "grep",
    "dump-log": "dump",
    "get-offsets": "offsets",
    "count": "stats",
    "wc": "stats",
    "statistics": "stats",
    "du": "explain",
    "size": "explain",
    "disk": "explain",
    "consumer-groups": "groups",
    "lag": "groups",
    "describe": "topics",
    "acls": "metadata",
    "configs": "metadata",
    "quotas": "metadata",
    "users": "metadata",
    "migrate": "metadata",
    "check": "verify",
    "fsck": "verify",
    "validate": "verify",
    "repair": "recover",
    "fix": "recover",
    "reindex": "rebuild",
    "convert": "export",
    "save": "export",
    "parquet": "export",
    "to-parquet": "export",
    "load": "import",
    "produce": "import",
    "delete": "rewrite",
    "erase": "rewrite",
    "clean": "compact",
    "guide": "help",
    "docs": "help",
    "man": "help",
    "version": "--version",
}
# kcat's modes, for those who type them without a command.
MODES = {"-C": "cat", "-L": "ls", "-Q": "offsets", "-P": "import"}

# Options of kcat and of Kafka's tools that have another name here, or no meaning without a broker.
FOREIGN = {
    "-G": "there are no consumers without a broker; name topics with -t",
    "-X": "read_committed is --isolation-level read_committed; other properties are of clients",
    "-r": "schemas come from _schemas in the log dir; leave out the registry",
    "-E": "--on-corrupt skip continues after damage",
    "--consumer-property": "read_committed is --isolation-level read_committed",
    "--consumer.config": "no client is configured; leave it out",
    "--command-config": "no client is configured; leave it out",
    "--property": "-K ' ' prints keys, -f '%T %p %o %k %s\\n' whatever you name",
    "--formatter-property": "-K ' ' prints keys, -f '%T %p %o %k %s\\n' whatever you name",
    "--formatter": "kafkalog groups, transactions and dump decode internal topics; -f is a format",
    "--timeout-ms": "a log ends at its end; leave it out",
    "--timeout": "a log ends at its end; leave it out",
    "--include": "-t names topics, separated by commas; export has --topic-pattern",
    "--whitelist": "-t names topics, separated by commas; export has --topic-pattern",
    "--skip-message-on-error": "--on-corrupt skip continues after damage",
    "--value-deserializer": "dump has --value-decoder-class string, integer or long",
    "--key-deserializer": "dump has --key-decoder-class string, integer or long",
    "--reset-offsets": "nothing is written to consumer groups; kafkalog metadata prints the commands that do",
    "--delete": "nothing is written to it; kafkalog rewrite makes a copy without some records",
    "--delete-offsets": "nothing is written to consumer groups",
    "--topic-partitions": "-t orders:0,orders:1 names partitions",
    "--human-readable": "its tables hold no sizes in bytes",
    "--under-replicated-partitions": "compare Replicas with Isr, or -J and a filter",
}

_FIRST_N = "-c N prints the first N records"
_BY_FOLDER = "name a partition by its folder: DIR/orders-0"
# Options of other commands, by the command that has none of that name: what to do instead.
ELSEWHERE = {
    "cat": dict.fromkeys(("-n", "--limit", "--lines", "--head"), _FIRST_N),
    "ls": {
        "-l": "each segment has a line with sizes and times anyway; --human-readable prints sizes as 1.2 MB",
        "-a": "folders of every state are listed anyway",
    },
    "verify": {
        "-q": "without findings nothing is printed; -s error shows errors only, and the exit code says the rest"
    },
    "grep": {
        "-b": "the log dir follows PATTERN",
        "-k": "--in key '^KEY$' finds a key",
        "-n": "-f '%o %s\\n' prints offsets",
        "-w": "\\b is the edge of a word: '\\bPATTERN\\b'",
        "-x": "'^PATTERN$' matches a whole line, and \\A and \\Z a whole value",
        "-L": "-l -v lists partitions that hold a record without a match",
        "-A": "kafkalog cat -o OFFSET -c N prints what follows; -f '%o\\n' prints the offset",
        "-B": "kafkalog cat -o OFFSET -c N prints what is around it; -f '%o\\n' prints the offset",
        "-C": "kafkalog cat -o OFFSET -c N prints what is around it; -f '%o\\n' prints the offset",
    },
    "schemas": {
        "-t": "--subject names schemas, and --registry-topic the topic that they are in",
        "-p": "the registry has one partition; leave it out",
    },
    "metadata": {"-p": "topics are recreated whole; -t names them"},
    "rescue": {"-p": "topics are rescued whole; -t names them"},
    "report": {"-t": _BY_FOLDER, "-p": _BY_FOLDER, "--html": "-o FILE.html names the page"},
    **{
        command: {"-t": _BY_FOLDER, "-p": _BY_FOLDER}
        for command in ("recover", "rebuild", "truncate", "compact", "retain")
    },
}

# Commands that answer for the other log dirs where one cannot be listed. To verify it is a finding, to report a line.
ANSWERING = frozenset({*GROUPS["start here"], *GROUPS["read"], *GROUPS["look"], "explain"})

# Commands that read URLs of object stores.
OF_STORES = frozenset(
    {
        *("cat", "export", "grep", "ls", "dump"),
        *("stats", "offsets", "groups", "transactions", "schemas", "topics", "metadata"),
        *("verify", "explain", "report"),
    }
)

FIRST_STEPS = """\
Reads what Apache Kafka left on disk, without a broker. DIR is a log dir: the folder that holds orders-0 and the like.
  kafkalog ls DIR                         the topics, partitions and segments
  kafkalog cat DIR -t TOPIC -c 5          the first five records of a topic
  kafkalog export DIR OUT.parquet         all records, for pandas, Polars, DuckDB, Spark
  kafkalog help first-hour                a tour of one directory; kafkalog --help lists all commands
"""
