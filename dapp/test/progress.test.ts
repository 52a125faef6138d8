import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { type Hex, zeroHash } from "viem";

import { type Fact, type Gmp, Kind, type Message, messageId, type State, STATES } from "@waybill/dapp";
import { gmpsToRetry, judge, type Observation } from "../src/progress.ts";

const MESSAGE: Message = {
  sourceChain: 1n,
  sourceRouter: zeroHash,
  sender: zeroHash,
  nonce: 1n,
  destinationChain: 10n,
  destinationRouter: zeroHash,
  recipient: zeroHash,
  gasLimit: 200_000n,
  sentAt: 1000n,
  ttl: 500,
  kind: Kind.PLAIN,
  quorum: 2,
  replaces: zeroHash,
  payload: "0x",
};

function fact(content: Record<string, unknown>): Fact {
  const place = { chain: "beta", block: 5n, blockHash: zeroHash, logIndex: 0, transactionHash: zeroHash, timestamp: 1001n };
  return { ...place, messageId: messageId(MESSAGE), ...content } as unknown as Fact;
}

const routed = fact({ type: "routed", chain: "alpha", attempt: 0, retriable: true, gmps: new Set<Gmp>(["hyperlane", "axelar"]), timestamp: 1000n });

function observe(changes: Partial<Observation> = {}): Observation {
  return {
    id: messageId(MESSAGE),
    message: MESSAGE,
    facts: [routed],
    valid: new Set(),
    validCount: 0,
    execution: 0,
    expired: false,
    destination: { name: "beta", head: 6n, time: 1010n, confirmations: 2 },
    sourceName: "alpha",
    orphaned: false,
    replacedBy: undefined,
    unreadable: undefined,
    problems: [],
    ...changes,
  };
}

const at = (time: bigint): Observation["destination"] => ({ name: "beta", head: 6n, time, confirmations: 2 });
const both = { valid: new Set<Gmp>(["hyperlane", "axelar"]), validCount: 2 };

const CASES: readonly (readonly [what: string, seen: Partial<Observation>, state: State, final: boolean, reason: RegExp])[] = [
  ["nobody delivered", {}, "ROUTED", false, /^0 of 2 delivered; waiting for Hyperlane, Axelar$/],
  ["one delivered", { valid: new Set(["axelar"]), validCount: 1 }, "RECEIVED", false, /^1 of 2 .* Hyperlane$/],
  ["the stall time is just reached", { destination: at(1060n) }, "ROUTED", false, /^0 of 2/],
  ["the stall time has passed", { destination: at(1061n) }, "STALLED", false, /more than 60 s after it was sent/],
  ["a retry starts the stall time again", { facts: [routed, fact({ type: "retried", attempt: 1, gmps: new Set(["wormhole"]), timestamp: 1050n })], destination: at(1061n) }, "ROUTED", false, /Wormhole/],
  ["the ttl has passed", { expired: true, destination: at(1501n) }, "EXPIRED", false, /time to live of 500 s has run out/],
  ["the router marked it expired just now", { execution: 2, facts: [routed, fact({ type: "expired" })] }, "EXPIRED", false, /beta marked it expired/],
  ["the router marked it expired", { execution: 2, facts: [routed, fact({ type: "expired", block: 4n })] }, "EXPIRED", true, /beta marked it expired/],
  ["nobody paid for it", { facts: [fact({ type: "unfunded", gmps: new Set() })], destination: at(1400n) }, "UNFUNDED", false, /nobody has paid for it yet on alpha/],
  ["it was cancelled", { execution: 3, facts: [routed, fact({ type: "cancelled", block: 4n })] }, "CANCELLED", true, /cancelled/],
  ["the recipient refused", { ...both, facts: [routed, fact({ type: "executionFailed", reason: "Closed()" })] }, "EXECUTION_FAILED", false, /refused: Closed\(\)/],
  ["the delivery had too little gas", { ...both, facts: [routed, fact({ type: "executionDeferred", gasLimit: 200_000n })] }, "EXECUTION_DEFERRED", false, /less than the 200000 gas/],
  ["the quorum came by a lowered demand", both, "RECEIVED", false, /nobody has executed it/],
  ["the recipient demands more than the message", { ...both, facts: [routed, fact({ type: "received", gmp: "axelar", receipts: 2, quorum: 3 })] }, "STALLED", false, /2 of 3 delivered, but only 2 accepted it/],
  ["a receipt was voided", { facts: [routed, fact({ type: "received", gmp: "axelar", receipts: 1, quorum: 2 })] }, "ROUTED", false, /waiting for Hyperlane, Axelar/],
  ["it was executed just now", { execution: 1, facts: [routed, fact({ type: "executed" })] }, "EXECUTED", false, /not yet confirmed/],
  ["it was executed and confirmed", { execution: 1, facts: [routed, fact({ type: "executed", block: 4n })] }, "EXECUTED", true, /has it$/],
  ["it was executed after its ttl", { execution: 1, destination: at(9999n), facts: [routed, fact({ type: "executed", block: 4n })] }, "EXECUTED", true, /has it$/],
  ["its transaction is gone", { orphaned: true }, "ORPHANED", false, /no transaction on alpha creates it any more$/],
  ["its transaction came back", { orphaned: true, replacedBy: "0x12" as Hex }, "ORPHANED", true, /came back as 0x12/],
  ["it was executed without a source", { orphaned: true, execution: 1 }, "DIVERGED", true, /executed on beta, but alpha has no such message/],
  ["the destination is silent", { unreadable: "timeout", destination: at(9999n) }, "UNKNOWN", false, /beta can't be read: timeout/],
];

for (const [what, seen, state, final, reason] of CASES) {
  test(`when ${what}, the message is ${state}${final ? ", for good" : ""}`, () => {
    const progress = judge(observe(seen), 60);
    assert.equal(progress.state, state, progress.reason);
    assert.equal(progress.final, final);
    assert.match(progress.reason, reason);
  });
}

test("a stalled message is to be retried only if it was sent as retriable", () => {
  const fixed = { ...routed, retriable: false } as Fact;
  const actions = [routed, fixed].map((creation) => judge(observe({ facts: [creation], destination: at(1061n) }), 60));
  assert.deepEqual(actions.map(({ state, action }) => [state, action]), [["STALLED", "retry"], ["STALLED", "wait"]]);
});

test("a GMP that is only known by its receipt is listed, and one that has nothing to do with the message is not", () => {
  const facts = [routed, fact({ type: "received", gmp: "wormhole", receipts: 1, quorum: 2 })];
  const { gmps } = judge(observe({ facts, valid: new Set(["wormhole"]), validCount: 1 }), 60);
  assert.deepEqual(gmps.map(({ gmp, counts }) => [gmp, counts]), [["hyperlane", false], ["axelar", false], ["wormhole", true]]);
});

test("the states are those of the rest of Waybill", () => {
  const python = readFileSync(new URL("../../bridge/protocol/status.py", import.meta.url), "utf8");
  const words = [...python.matchAll(/^ {4}([A-Z_]+) = "\1"$/gm)].map((match) => match[1]);
  assert.deepEqual([...STATES], words);
});

test("a retry goes over as many GMPs as the message lacks: untried ones first, then silent ones, then those that refused it", () => {
  const failed = fact({ type: "dispatchFailed", attempt: 0, gmp: "ccip", reason: "no" });
  const lane: readonly Gmp[] = ["ccip", "hyperlane", "axelar", "wormhole", "layerzero"];
  const over = (changes: Partial<Observation>, usable = lane) => gmpsToRetry(judge(observe({ facts: [routed, failed], ...changes }), 60), usable);
  assert.deepEqual(over({}), ["wormhole", "layerzero"]);
  assert.deepEqual(over({ valid: new Set(["hyperlane"]), validCount: 1 }), ["wormhole"]);
  assert.deepEqual(over({ valid: new Set(["hyperlane"]), validCount: 1 }, ["ccip", "hyperlane", "axelar"]), ["axelar"]);
  assert.deepEqual(over({}, ["ccip", "hyperlane"]), ["hyperlane", "ccip"]);
  assert.deepEqual(over({}, []), []);
});
