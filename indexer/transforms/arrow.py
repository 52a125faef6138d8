"""Functions of Arrow batches on DataFrames."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType


def map_in_arrow(
    frame: DataFrame,
    function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    columns: StructType | str,
) -> DataFrame:
    """`DataFrame.mapInArrow`, without the warning about pandas, of which nothing here makes use.

    Args:
        frame: whose rows to map, a partition at a time.
        function: what to do with a partition's batches.
        columns: of the batches that it yields.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        return frame.mapInArrow(function, columns)
