"""As a script: reads and tables of a store by executors of their own, with an event log; the counts as JSON.

Takes the folder of the event log, the URL of a log dir, a tier's, and the options of the store as JSON.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any


def main(folder: str, url: str, tier: str, stored: str) -> None:
    """Read in both ways."""
    import pyspark
    from pyspark.sql import SparkSession

    import kafkalog.spark

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # Executors leave their folders in it.
    home = Path(folder).with_name("spark")
    home.mkdir()
    for each in Path(pyspark.__file__).parent.iterdir():
        (home / each.name).symlink_to(each)
    os.environ["SPARK_HOME"] = str(home)
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": Path(folder).as_uri(),
        # What Spark shows of a plan is cut otherwise.
        "spark.sql.maxMetadataStringLength": "1000000",
    }
    builder = SparkSession.builder.master("local-cluster[2,1,512]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    given: dict[str, Any] = {f"storage.{name}": value for name, value in json.loads(stored).items()}
    given |= {"splitBytes": "200k"}
    found = {
        "count": kafkalog.spark.count(spark, url, **given),
        "read": kafkalog.spark.read(spark, url, **given).count(),
        "tier": kafkalog.spark.count(spark, None, remote=tier, subscribe="txn-mixed", **given),
        "explained": len(kafkalog.spark.read(spark, url, **given)._jdf.queryExecution().toString()),
    }
    if importlib.util.find_spec("pyspark.sql.datasource"):
        kafkalog.spark.register(spark)
        found["source"] = spark.read.format("kafkalog").options(**given).load(url).count()
        del given["splitBytes"]
        found["table"] = spark.read.format("kafkalog").options(**given).option("table", "producers").load(url).count()
        named = spark.read.format("kafkalog").options(**given).option("table", "remote_segments")
        found["segments"] = named.option("remote", tier).load().count()
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
