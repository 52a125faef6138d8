"""The Spark session of the index."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.waiting import eventually


def test_what_spark_remembers_of_jobs_does_not_grow_with_them(spark: SparkSession) -> None:
    """A micro-batch is a job or two: an index that runs for weeks has millions of them."""
    remembered = spark.sparkContext._jsc.sc().statusStore()
    queries = spark._jsparkSession.sharedState().statusStore()
    for _ in range(40):
        spark.range(1).collect()

    def counts() -> tuple[int, int]:
        return remembered.jobsList(None).size(), queries.executionsCount()

    eventually(lambda: max(counts()) <= 20, lambda: f"jobs and queries remembered: {counts()}")
    assert min(counts()) > 0
