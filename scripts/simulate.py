"""Runs seeded histories of the simulated world.

`python -m scripts.simulate --seeds 5000 --first 0 --storm 8 --worlds lying`.

Each seed is a world with reorgs on both sides, nodes that fail, forget and lag, and a relayer that may crash at
any call. In some worlds, one of three endpoints of each chain lies; in others, state changes go to several
chains and are followed. After a final calm phase, every message must have been executed once, and every nonce
used. A failing seed is printed with its history; seeds are reproducible.
"""

from __future__ import annotations

import argparse
import sys

from rich.console import Console
from rich.progress import track

from tests.simulation.chaos import SQUALL_SECONDS, WorldKind, judge_all


def main() -> int:
    """Runs the requested seeds. Returns 1 if any of them failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1000, help="how many (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first one (default: %(default)s)")
    parser.add_argument(
        "--storm", type=float, default=SQUALL_SECONDS, help="simulated seconds of bad weather (default: %(default)s)"
    )
    parser.add_argument(
        "--worlds",
        type=WorldKind,
        choices=list(WorldKind),
        help="what is in each of them (default: as the seed has it; one in 32 is lying, one following, one both)",
    )
    chosen = parser.parse_args()
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    bad = []
    for verdict in track(
        judge_all(seeds, chosen.storm, chosen.worlds), "playing", len(seeds), console=Console(stderr=True)
    ):
        if verdict.complaints:
            bad.append(verdict.seed)
            print(f"seed {verdict.seed}:", *verdict.complaints, *verdict.events, sep="\n  ")
    print(f"{len(seeds) - len(bad)} passed, {len(bad)} failed" + (f": seeds {bad}" if bad else ""))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
