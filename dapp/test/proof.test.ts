import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import type { Hex } from "viem";

import { checkProof, Kind, type MessageProof, ProofError } from "@waybill/dapp";

interface Cases {
  readonly trusted: Record<number, Hex[]>;
  readonly true: MessageProof;
  readonly broken: Record<string, MessageProof>;
}

/** Made and checked by tests/unit/protocol/test_proof.py, too: both implementations say the same of each. */
const cases = JSON.parse(readFileSync(new URL("proofs.json", import.meta.url), "utf8")) as Cases;

test("a true proof says what was sent, over which GMPs it came, and that it was executed", () => {
  const { message, gmps, executed } = checkProof(cases.true, cases.trusted);
  assert.deepEqual([...gmps].sort(), [1, 3]);
  assert.equal(executed, true);
  assert.equal(message.kind, Kind.PLAIN);
  const upper = (hashes: Hex[]): Hex[] => hashes.map((hash) => `0x${hash.slice(2).toUpperCase()}` as Hex);
  const trusted = Object.fromEntries(Object.entries(cases.trusted).map(([chain, hashes]) => [chain, upper(hashes)]));
  assert.equal(checkProof(cases.true, trusted).executed, true);
});

for (const [rule, proof] of Object.entries(cases.broken)) {
  test(`a proof that breaks one rule alone is refused: ${rule}`, () => {
    assert.throws(() => checkProof(proof, cases.trusted), ProofError);
  });
}

test("what is no proof is refused by a ProofError, whatever it is", () => {
  const [first, ...rest] = cases.true.events;
  const entries: unknown[] = [null, 5, {}, { ...first!, transaction: "3" }, { ...first!, log: [1] }, { ...first!, transaction: -1 }];
  entries.push({ ...first!, log: 0.5 }, { ...first!, nodes: null }, { ...first!, chainId: "toString" }, { ...first!, header: "0x1" });
  for (const entry of entries) {
    const proof = { ...cases.true, events: [entry, ...rest] } as MessageProof;
    assert.throws(() => checkProof(proof, cases.trusted), ProofError, JSON.stringify(entry));
  }
  for (const proof of [{}, { ...cases.true, events: null }, { ...cases.true, events: [] }]) {
    assert.throws(() => checkProof(proof as MessageProof, cases.trusted), ProofError);
  }
});
