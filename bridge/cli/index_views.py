"""`waybill index views`: the lake's tables for people who type SQL."""

from __future__ import annotations

from bridge.cli import options
from bridge.cli.index_proof import open_for_reading
from bridge.cli.output import result
from bridge.cli.workspace import DEVNET, Workspace


def views(*, network: options.Network = DEVNET, as_json: options.Json = False) -> None:
    """Print DuckDB views of the lake's tables in which ids, hashes and addresses are text: 0x and small hexadecimal digits.

    A binary column never equals a text such as '0x12…', and DuckDB does not say so. The views read the files of one version.

    Example: waybill index views
    """
    from indexer.dictionary import TABLES
    from indexer.dictionary import views as view_of
    from indexer.sinks.derived import files_of_table

    with open_for_reading(Workspace.of(network)) as (_, lake):
        files = {name: lake.files() if name == "events" else files_of_table(lake.place / name) for name in TABLES}
    made = {name: view_of(name, found) for name, found in files.items() if found}
    result(made, as_json=as_json, render=lambda console: console.print("\n".join(made.values()), markup=False))
