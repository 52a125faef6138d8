"""The queries of docs/indexing.md, run as they stand there."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any

from indexer.jobs.tables import write_tables
from indexer.lake.lake import Lake
from indexer.lake.promotion import promote
from indexer.model.divergences import MEANINGS
from indexer.store.store import Store
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import absorbed, apply, executed, new_world, received, routed, sent_message

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "indexing.md").read_text()


def test_the_example_queries_answer_as_the_page_says(tmp_path: Path) -> None:
    lake, store = Lake(tmp_path / "lake"), Store(f"sqlite:///{tmp_path / 'index.db'}")
    alpha, beta = new_world()
    for nonce in (1, 2, 3):
        sent = sent_message(nonce, quorum=1)
        alpha.mine(routed(sent))
        beta.mine(received(sent, 1), *[received(sent, 2)] * (nonce % 2), executed(sent))
    beta.mine(absorbed(sent, 2))
    for chain in (alpha, beta):
        apply(store, chain, final=chain.head)
        promote(store, lake, {ALPHA: 0, BETA: 0})
    write_tables(store.engine, lake)
    store.close()
    found: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block.replace(".waybill/devnet/lake", str(lake.place)), found)  # noqa: S102  our own page
    assert found["lanes"] == [(ALPHA, BETA, 3)]
    assert found["per_gmp"] == [{"gmp": 1, "event_count": 3}, {"gmp": 2, "event_count": 2}]
    assert found["earlier"] == 3
    assert found["by_event"] == {"MessageRouted": 3, "MessageReceived": 5, "MessageExecuted": 3, "DuplicateAbsorbed": 1}
    assert found["per_event"] == found["by_event"]
    assert found["refusals"] == 0
    assert found["lane_days"] == [(date(1970, 1, 12), 3, 3, 0, 0)]
    assert found["repeated"] == {2: 1}
    assert found["contradictions"] == []
    assert found["states"] == [("EXECUTED", 3, 0.0)]
    assert [tuple(row.values()) for row in found["deliveries"]] == [(1, 3, 3), (2, 3, 2), (3, 3, 0)]
    assert int(found["made_of"]) == lake.version


def test_the_page_names_every_kind_of_divergence_with_its_severity() -> None:
    table = PAGE.split("## Nothing contradicts")[1].split("\n## ")[0]
    for kind, meaning in MEANINGS.items():
        (row,) = [line for line in table.splitlines() if f"`{kind}`" in line]
        assert row.endswith(f"| {meaning.severity.value} |"), row
