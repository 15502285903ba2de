"""Common history of two logs, against histories that are compared offset by offset."""

from __future__ import annotations

import random

from kafkalog.rescue.lineage import agreed_end, epoch_at

Log = list[int]


def epochs_of(log: Log) -> tuple[tuple[int, int], ...]:
    """Return the first offset of each epoch, of a log that is a list of epochs."""
    return tuple(sorted({epoch: log.index(epoch) for epoch in log}.items()))


def logs_of_a_cluster(chance: random.Random) -> list[Log]:
    """Play elections: a leader writes, some follow it, each truncates to it first, and some fall behind."""
    logs: list[Log] = [[] for _ in range(4)]
    epoch = 0
    for _ in range(chance.randrange(1, 8)):
        epoch += chance.randrange(1, 3)
        leader = chance.randrange(4)
        logs[leader] += [epoch] * chance.randrange(5)
        for node, log in enumerate(logs):
            if node != leader and chance.random() < 0.5:
                same = common(log, logs[leader])
                longest = len(logs[leader])
                log[same:] = logs[leader][same : chance.randrange(same, longest + 1)]
        # What nobody fetched.
        logs[leader] += [epoch] * chance.randrange(3)
    return logs


def common(one: Log, two: Log) -> int:
    """Return the length of the common prefix."""
    return next((n for n, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))


def test_it_is_the_common_prefix() -> None:
    chance = random.Random(1)  # noqa: S311
    cut = 0
    for _ in range(3000):
        logs = logs_of_a_cluster(chance)
        for one in logs:
            for two in logs:
                found = agreed_end(epochs_of(one), len(one), epochs_of(two), len(two))
                assert found == common(one, two), (one, two)
                cut += found < len(two)
    assert cut > 1000


def test_an_epoch_without_batches_ends_the_one_before() -> None:
    """A leader notes its epoch before it writes: what another has of an older epoch after that is not its history."""
    assert agreed_end(((1, 0), (2, 5)), 5, ((1, 0),), 8) == 5
    assert agreed_end(((1, 0), (2, 5)), 1 << 40, ((1, 0),), 8) == 5
    assert agreed_end(((1, 0),), 1 << 40, ((1, 0),), 8) == 8


def test_a_log_that_retention_has_cut() -> None:
    assert agreed_end(((3, 50),), 80, ((1, 0), (2, 20)), 40) == 0
    assert agreed_end(((3, 50),), 80, ((1, 0), (3, 45)), 60) == 60


def test_logs_without_epochs_agree_as_far_as_both_go() -> None:
    assert agreed_end((), 10, (), 7) == 7
    assert agreed_end((), 5, (), 7) == 5


def test_the_epoch_at_an_offset() -> None:
    assert [epoch_at(((1, 0), (4, 5)), offset) for offset in (0, 4, 5, 99)] == [1, 1, 4, 4]
    assert epoch_at((), 3) == -1
