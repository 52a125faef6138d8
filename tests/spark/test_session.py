"""The Spark session of the index."""

from __future__ import annotations

import time

from pyspark.sql import SparkSession


def test_what_spark_remembers_of_jobs_does_not_grow_with_them(spark: SparkSession) -> None:
    """A micro-batch is a job or two: an index that runs for weeks has millions of them."""
    remembered = spark.sparkContext._jsc.sc().statusStore()
    queries = spark._jsparkSession.sharedState().statusStore()
    for _ in range(40):
        spark.range(1).collect()
    deadline = time.monotonic() + 30
    while (counts := (remembered.jobsList(None).size(), queries.executionsCount()))[0] > 20 or counts[1] > 20:
        assert time.monotonic() < deadline, f"jobs and queries remembered: {counts}"
        time.sleep(0.2)
    assert min(counts) > 0
