"""Make data for the comparison with a real broker: ``generate.py DIR [SCALE]``; needs Java and Maven.

``DIR/logs`` is a log dir as the broker left it after a clean stop: 2 partitions a topic, 16 MiB segments, 8-byte keys.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from interop.broker import Broker, Witness

# name, records, bytes a value, records a batch, codec
TOPICS = (
    ("v10", 4_000_000, 10, 100, "none"),
    ("v100", 1_500_000, 100, 100, "none"),
    ("v1k", 200_000, 1000, 100, "none"),
    ("v100-single", 300_000, 100, 1, "none"),
    ("v100-gzip", 800_000, 100, 100, "gzip"),
    ("v100-snappy", 800_000, 100, 100, "snappy"),
    ("v100-lz4", 800_000, 100, 100, "lz4"),
    ("v100-zstd", 800_000, 100, 100, "zstd"),
)
PARTITIONS = 2


def main() -> int:
    target, *rest = sys.argv[1:]
    home = Path(target).resolve()
    scale = float(rest[0]) if rest else 1.0
    witness = Witness.build()
    overrides = {"log.dirs": str(home / "logs"), "log.index.size.max.bytes": "10485760"}
    with Broker(witness, home, overrides) as broker:
        for name, records, size, batch, codec in TOPICS:
            count = max(batch * PARTITIONS, int(records * scale))
            broker.witness.run(
                "fill", broker.bootstrap, name, str(PARTITIONS), str(count), str(size), str(batch), codec
            )
            print(f"{name}: {count} records of {size} bytes, {batch} a batch, {codec}", flush=True)
        broker.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
