"""Runs a user's SQL on the lake's tables with DuckDB. The query can read these tables and nothing else."""

from __future__ import annotations

import threading
from typing import Final

import duckdb
import pyarrow as pa

from indexer.model.dictionary import TABLES, shown_columns
from indexer.model.errors import QueryError
from indexer.model.storage_location import StorageLocation
from indexer.pipeline.files import explained
from indexer.pipeline.reading import register

_LOCKED: Final = {
    # No files, network or extensions: a query can read the registered tables and nothing else on this machine.
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "memory_limit": "'1GB'",
    "temp_directory": "''",
    "enable_external_access": "false",
    "lock_configuration": "true",
}


def answer(lake: StorageLocation, sql: str, rows: int, seconds: float) -> tuple[pa.Table, bool]:
    """Returns the result of a query on the lake's tables. Ids, hashes and addresses are shown as hexadecimal text.

    Args:
        lake: the lake; the query reads each table in its latest version.
        sql: a single DuckDB SQL query.
        rows: maximum number of rows.
        seconds: timeout.

    Returns:
        The rows, and whether there are more.

    Raises:
        IndexerError: `sql` is not a single query, fails, or takes too long.
        LakeDamagedError: a file of a table is missing.
        LakeUnreachableError: the lake's bucket denies access, or does not respond.
    """
    # Variables of this process are not tables either.
    with duckdb.connect(config={"python_enable_replacements": "false"}) as connection:
        with explained(*(lake.table(name) for name in TABLES)):
            _register(connection, lake)
        for name, value in _LOCKED.items():
            connection.execute(f"set {name} = {value}")
        timer = threading.Timer(seconds, connection.interrupt)
        timer.start()
        try:
            statements = connection.extract_statements(sql)
            kinds = [one.type for one in statements]
            if kinds != [duckdb.StatementType.SELECT]:
                found = ", ".join(kind.name for kind in kinds) or "nothing"
                raise QueryError(f"expected exactly one SELECT statement, found {found}")
            return _first(connection.sql(sql).to_arrow_reader(), rows)
        except duckdb.InterruptException as error:
            raise QueryError(
                f"the query took longer than {seconds:g} s; narrow the query, or allow more time"
            ) from error
        except duckdb.Error as error:
            raise QueryError(f"DuckDB rejected the query: {error}") from error
        finally:
            timer.cancel()


def _register(connection: duckdb.DuckDBPyConnection, lake: StorageLocation) -> None:
    for layer in dict.fromkeys(name.partition(".")[0] for name in TABLES):
        connection.execute(f"create schema {layer}")
    for name in TABLES:
        alias = f"rows_of_{name.replace('.', '_')}"
        register(connection, alias, lake, name)
        connection.execute(f"create view {name} as select {shown_columns(name)} from {alias}")


def _first(found: pa.RecordBatchReader, rows: int) -> tuple[pa.Table, bool]:
    batches, count = [], 0
    for batch in found:
        batches.append(batch)
        count += batch.num_rows
        if count > rows:
            break
    return pa.Table.from_batches(batches, found.schema).slice(0, rows), count > rows
