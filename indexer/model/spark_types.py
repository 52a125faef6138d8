"""Converts the tables' schemas to Spark.

Separate from `indexer.model.schemas`, so that reading the store does not import Spark.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

from indexer.model.schemas import UINT64

_SPARK_TYPES: Final[dict[pa.DataType, DataType]] = {
    pa.int64(): LongType(),
    pa.int32(): IntegerType(),
    pa.bool_(): BooleanType(),
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.float64(): DoubleType(),
    pa.date32(): DateType(),
    UINT64: DecimalType(20, 0),
}


def spark_schema(schema: pa.Schema) -> StructType:
    """Returns Spark's form of a schema."""
    table = StructType()
    for field in schema:
        table.add(field.name, _SPARK_TYPES[field.type])
    return table
