"""Gives the contracts small faults, one at a time, and counts those that no test notices.

Every mutant's fate is a line of build/mutation/results.jsonl at once, so it can be interrupted and goes on where it was. A
survivor is explained in scripts/mutation/survivors.toml, or is a test that is missing.

python -m scripts.mutation                      400 mutants, drawn with a printed seed
python -m scripts.mutation --limit 40 --seed 7  40 of the sample of that seed
python -m scripts.mutation --only Pauses        only sources whose path contains this
"""

import argparse
import hashlib
import json
import sys
import tomllib
from collections import Counter
from pathlib import Path

from scripts.mutation.operators import Mutant
from scripts.mutation.trial import ROOT, WORK, all_mutants, prepare, timed

RESULTS = WORK / "results.jsonl"
SURVIVORS = ROOT / "scripts" / "mutation" / "survivors.toml"
SAMPLE = 400
WANTED = 0.95
"""The share of valid mutants that tests must kill."""


def drawn(mutants: list[Mutant], seed: int) -> list[Mutant]:
    """The mutants in an order of chance that is each one's own: what is known of one sample stays of use when a source changes."""
    return sorted(mutants, key=lambda mutant: hashlib.sha256(f"{seed} {mutant.id}".encode()).digest())


def read_results(path: Path) -> dict[str, dict[str, str]]:
    """What is known already, by mutant; a line that an interruption cut off is left out."""
    found: dict[str, dict[str, str]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            result = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[result["id"]] = result
    return found


def explained(mutant: Mutant, reasons: list[dict[str, str]]) -> str:
    """The committed reason why no test can notice this mutant, or nothing."""
    for known in reasons:
        same = known["source"] == mutant.source and known["code"] == mutant.code
        if same and known["operator"] == mutant.operator and known["after"] == mutant.after:
            return known["reason"]
    return ""


def describe(mutant: Mutant) -> str:
    """Where it is and what it does, in one line."""
    return f"{mutant.source}:{mutant.line} {mutant.operator}: {mutant.before[:60]!r} -> {mutant.after!r}"


def work_through(sample: list[Mutant], limit: int) -> None:
    """Try the mutants that have no result yet, at most `limit` of them."""
    known = read_results(RESULTS)
    waiting = [mutant for mutant in sample if mutant.id not in known][:limit]
    for number, mutant in enumerate(waiting, 1):
        verdict, seconds = timed(mutant)
        print(f"{number}/{len(waiting)} {verdict.status:<10} {seconds:5.1f} s  {describe(mutant)}", flush=True)
        result = {"id": mutant.id, "status": verdict.status, "by": verdict.by, "seconds": round(seconds, 1)}
        with RESULTS.open("a") as file:
            file.write(json.dumps({**result, "mutant": describe(mutant)}) + "\n")


def report(sample: list[Mutant], reasons: list[dict[str, str]]) -> int:
    """Print what became of the sample; 0 if enough of the valid mutants were killed."""
    known = read_results(RESULTS)
    tried = [mutant for mutant in sample if mutant.id in known]
    counts = Counter(known[mutant.id]["status"] for mutant in tried)
    survivors = [mutant for mutant in tried if known[mutant.id]["status"] == "survived"]
    reasoned = {mutant.id: reason for mutant in survivors if (reason := explained(mutant, reasons))}
    for mutant in survivors:
        print(f"survived: {describe(mutant)}\n    {reasoned.get(mutant.id, 'no reason is known: a test is missing')}")
    valid = counts["killed"] + counts["survived"] - len(reasoned)
    share = counts["killed"] / valid if valid else 0.0
    told = ", ".join(f"{number} {status}" for status, number in sorted(counts.items()))
    print(f"{len(tried)} of {len(sample)} tried: {told}; {len(reasoned)} survivors with a reason")
    print(f"{counts['killed']} of {valid} valid mutants killed: {share:.1%}, wanted {WANTED:.0%}", flush=True)
    return 0 if share >= WANTED else 1


def main() -> int:
    """Draw a sample, try what was not tried yet, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default: 1)")
    parser.add_argument("--sample", type=int, default=SAMPLE, help=f"how many mutants are drawn (default: {SAMPLE})")
    parser.add_argument("--limit", type=int, default=SAMPLE, help="how many are tried in this run")
    parser.add_argument("--only", default="", help="part of the path of the sources to mutate")
    given = parser.parse_args()
    print("compiling a copy of the contracts", flush=True)
    prepare()
    everything = [mutant for mutant in all_mutants() if given.only in mutant.source]
    if not everything:
        parser.error(f"no source that is mutated has {given.only!r} in its path")
    sample = drawn(everything, given.seed)[: given.sample]
    print(f"seed {given.seed}: {len(sample)} of {len(everything)} mutants", flush=True)
    reasons = tomllib.loads(SURVIVORS.read_text()).get("survivor", [])
    try:
        work_through(sample, given.limit)
    except KeyboardInterrupt:
        print("\ninterrupted; run the same command again to go on", flush=True)
        report(sample, reasons)
        return 130
    return report(sample, reasons)


if __name__ == "__main__":
    sys.exit(main())
