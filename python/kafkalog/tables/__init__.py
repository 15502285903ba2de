"""Kafka's internal topics as Arrow tables, without a broker.

``records`` decodes every record of ``__consumer_offsets``, ``__transaction_state``, ``__share_group_state``,
``__cluster_metadata`` and ``__remote_log_metadata``, as Kafka's own classes do. The other functions replay them into
what a broker would know after its start: ``consumer_offsets``, ``consumer_groups``, ``lag``, ``transactions``,
``topics``, ``brokers``, ``acls``, ``quotas``, ``features`` and, as records, ``cluster_metadata``.
``producers`` and ``open_transactions`` are about the partitions themselves. ``schemas`` replays the topic of a schema
registry, ``_schemas``.
"""

from kafkalog.tables.cluster import acls, brokers, cluster_metadata, features, quotas, topics
from kafkalog.tables.decoded import records
from kafkalog.tables.groups import consumer_groups
from kafkalog.tables.offsets import consumer_offsets, lag
from kafkalog.tables.producers import open_transactions, producers
from kafkalog.tables.remote import remote_segments
from kafkalog.tables.schemas import schemas
from kafkalog.tables.transactions import transactions

__all__ = [
    "acls",
    "brokers",
    "cluster_metadata",
    "consumer_groups",
    "consumer_offsets",
    "features",
    "lag",
    "open_transactions",
    "producers",
    "quotas",
    "records",
    "remote_segments",
    "schemas",
    "topics",
    "transactions",
]
