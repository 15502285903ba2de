"""``kafkalog metadata``: prints what a new cluster needs, as commands of Kafka's tools, Strimzi resources or JSON."""

from __future__ import annotations

import argparse
import sys

from kafkalog.cli import _common, _printing
from kafkalog.metadata.cluster import PARTS

EPILOG = """\
Reads the metadata log, __consumer_offsets and the names and ids of folders, of one node or of several: topics with
their partitions and settings, settings of brokers, ACLs, SCRAM users, quotas, and offsets of groups. What an output
cannot express, and what is unknown, is in its comments and on standard error. kafkalog help moving is a guide.

  --as kafka    a shell script of kafka-topics.sh and the like (the default)
  --as strimzi  KafkaTopic and KafkaUser resources, as YAML
  --as json     one JSON object

The exit code is 1 if a topic does not exist, or if something is missing because of damage; the rest is printed. A log
dir or folder that cannot be read is named on standard error.

examples:
  kafkalog metadata /data/kafka-logs > new-cluster.sh
  BOOTSTRAP_SERVER=new:9092 KAFKA_BIN=/opt/kafka/bin sh new-cluster.sh
  kafkalog metadata /mnt/node-*/data --as strimzi --cluster main | kubectl apply -f -
  kafkalog metadata /data/kafka-logs --as json --only acls,users --secrets"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "path",
        metavar="PATH",
        type=_common.place,
        nargs="+",
        help="log dirs of the cluster's nodes, or folders of __cluster_metadata and __consumer_offsets",
    )
    parser.add_argument(
        "--as",
        dest="form",
        choices=["kafka", "strimzi", "json"],
        default="kafka",
        help="a shell script, Kubernetes resources, or JSON; default kafka",
    )
    parser.add_argument(
        "--only",
        metavar="PART",
        type=_parts,
        action="extend",
        help=f"only these parts, separated by commas: {', '.join(PARTS)}; may be repeated",
    )
    _common.add_topics(parser, "only these topics, the ACLs on them and the offsets in them")
    parser.add_argument(
        "--secrets",
        action="store_true",
        help="also sensitive settings, and with --as json salts and keys of SCRAM users",
    )
    parser.add_argument(
        "--cluster",
        metavar="NAME",
        default="my-cluster",
        help="the name of the Kafka resource that the resources of --as strimzi belong to; default my-cluster",
    )


def _parts(text: str) -> list[str]:
    from kafkalog._arguments import choose

    try:
        return [choose("--only", part, PARTS) for part in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(arguments: argparse.Namespace) -> int:
    """Print the cluster, and on stderr what is not in the output."""
    from kafkalog._reprs import short_list
    from kafkalog.metadata.reading import read_cluster

    cluster = read_cluster(
        arguments.path, only=arguments.only or PARTS, topics=arguments.topic, secrets=arguments.secrets
    )
    if arguments.form == "kafka":
        from kafkalog.metadata.kafka_script import kafka_script

        text, rest = kafka_script(cluster)
    elif arguments.form == "strimzi":
        from kafkalog.metadata.strimzi import strimzi_resources

        text, rest = strimzi_resources(cluster, arguments.cluster)
    else:
        from kafkalog.metadata.document import document

        text, rest = document(cluster)
    # The shell, Kubernetes and JSON read UTF-8, whatever the locale.
    getattr(sys.stdout, "reconfigure", lambda **_: None)(encoding="utf-8")
    print(text, end="")
    _printing.print_notes(cluster.notes)
    for each in rest:
        _printing.warn(f"left out: {each.why}: {short_list(each.names)}")
    return _common.DAMAGED if cluster.is_damaged else 0
