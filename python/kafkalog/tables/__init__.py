"""Kafka's internal topics as Arrow tables, without a broker.

``records`` decodes every record of ``__consumer_offsets``, ``__transaction_state``, ``__share_group_state``,
``__cluster_metadata`` and ``__remote_log_metadata``, as Kafka's own classes do.
"""

from kafkalog.tables.decoded import records

__all__ = ["records"]
