import assert from "node:assert/strict";
import { test } from "node:test";

import { encodeErrorResult, type Hex, parseAbi, sliceHex, zeroHash } from "viem";

import {
  adapterAbi,
  decodeRevert,
  explainRevert,
  inboxAbi,
  reasonOf,
  RefusedError,
  revertDataOf,
  routerAbi,
} from "@waybill/dapp";

const id: Hex = `0x${"ab".repeat(32)}`;
const quorumNotReached = encodeErrorResult({ abi: routerAbi, errorName: "QuorumNotReached", args: [id, 1, 2] });

test("an error of the router is decoded with its values", () => {
  assert.deepEqual(decodeRevert(quorumNotReached), {
    name: "QuorumNotReached",
    values: { messageId: id, receipts: 1, quorum: 2 },
    text: `QuorumNotReached(messageId=${id}, receipts=1, quorum=2)`,
    by: ["waybill"],
    meaning: "Too few receipts count for the message.",
    advice: "wait for more GMPs, or retry the message over others",
    inner: [],
    data: quorumNotReached,
  });
});

test("GMP numbers are shown by name, and a number without a name by its number", () => {
  const named = encodeErrorResult({ abi: routerAbi, errorName: "DuplicateGmp", args: [3] });
  const unnamed = encodeErrorResult({ abi: routerAbi, errorName: "DuplicateGmp", args: [16] });
  assert.equal(explainRevert(named), "DuplicateGmp(gmp=wormhole)");
  assert.equal(explainRevert(unnamed), "DuplicateGmp(gmp=GMP 16)");
});

test("errors of adapters and of the example recipient are decoded too", () => {
  const refused = encodeErrorResult({ abi: adapterAbi, errorName: "NotConnected", args: [10n, zeroHash] });
  assert.equal(explainRevert(refused), `NotConnected(chain=10, remoteRouter=${zeroHash})`);
  assert.equal(explainRevert(encodeErrorResult({ abi: inboxAbi, errorName: "Closed" })), "Closed()");
});

test("a reason inside a reason is explained", () => {
  const inner = encodeErrorResult({ abi: inboxAbi, errorName: "Closed" });
  const outer = encodeErrorResult({ abi: routerAbi, errorName: "ExecutionReverted", args: [id, inner] });
  assert.equal(explainRevert(outer), `ExecutionReverted(messageId=${id}, reason=Closed())`);
});

test("a send that too few GMPs take is explained by each GMP's own reason", () => {
  const low = encodeErrorResult({ abi: adapterAbi, errorName: "WrongFee", args: [4n, 5n] });
  const failures = [
    { gmp: 1, reason: low },
    { gmp: 2, reason: "0x" },
  ] as const;
  const refused = encodeErrorResult({ abi: routerAbi, errorName: "TooFewDispatched", args: [0n, 1n, failures] });
  const each = "{gmp=hyperlane, reason=WrongFee(value=4, fee=5)}, {gmp=axelar, reason=reverted without a reason}";
  assert.equal(explainRevert(refused), `TooFewDispatched(dispatched=0, minimum=1, failures=[${each}])`);
});

test("texts and panics of Solidity are explained", () => {
  const text = encodeErrorResult({ abi: parseAbi(["error Error(string message)"]), args: ["no"] });
  const panic = encodeErrorResult({ abi: parseAbi(["error Panic(uint256 code)"]), args: [0x11n] });
  assert.equal(explainRevert(text), "Error(message=no)");
  assert.equal(explainRevert(panic), "Panic(code=17)");
});

test("errors of the GMPs are decoded, with what to do, also within a refusal of the recipient's", () => {
  const fee = encodeErrorResult({
    abi: parseAbi(["error LZ_InsufficientFee(uint256 requiredNative, uint256 suppliedNative, uint256 requiredLzToken, uint256 suppliedLzToken)"]),
    args: [5n, 4n, 0n, 0n],
  });
  const failures = [{ gmp: 4, reason: fee }, { gmp: 5, reason: encodeErrorResult({ abi: parseAbi(["error CursedByRMN(uint64 chain)"]), args: [7n] }) }];
  const refused = encodeErrorResult({ abi: routerAbi, errorName: "TooFewDispatched", args: [0n, 1n, failures] });
  const outer = decodeRevert(encodeErrorResult({ abi: routerAbi, errorName: "ExecutionReverted", args: [id, refused] }))!;
  const [inner] = outer.inner;
  assert.equal(inner?.name, "TooFewDispatched");
  assert.match(inner.meaning, /^Too few GMPs accepted the message/);
  assert.match(inner.advice, /quote exactly this payload/);
  assert.deepEqual(inner.inner.map(({ name, by, advice }) => [name, by, advice]), [
    ["LZ_InsufficientFee", ["layerzero"], "LayerZero's fee has risen; quote again"],
    ["CursedByRMN", ["ccip"], "CCIP has halted that chain; choose other GMPs"],
  ]);
});

test("nothing and unknown bytes are shown as they are, and an error that was cut off with its name", () => {
  assert.equal(explainRevert("0x"), "reverted without a reason");
  assert.equal(explainRevert("0xdeadbeef01"), "reverted with 0xdeadbeef01");
  assert.equal(explainRevert("0x01"), "reverted with 0x01");
  const cut = sliceHex(quorumNotReached, 0, 40);
  assert.equal(explainRevert(cut), `QuorumNotReached, cut off: ${cut}`);
});

test("revert data is found where viem, wallets and nodes put it", () => {
  assert.equal(revertDataOf({ raw: quorumNotReached }), quorumNotReached);
  assert.equal(revertDataOf({ cause: { cause: { data: quorumNotReached } } }), quorumNotReached);
  assert.equal(revertDataOf({ data: { data: quorumNotReached, message: "reverted" } }), quorumNotReached);
  assert.equal(revertDataOf(new Error("connection refused")), undefined);
});

test("an error without an end does not hang the search for revert data", () => {
  const endless: { cause?: unknown } = {};
  endless.cause = endless;
  assert.equal(revertDataOf(endless), undefined);
});

test("a refusal says what was refused, why, and what to do, and carries the values", () => {
  const error = new RefusedError("the router on beta refuses execute", quorumNotReached);
  assert.equal(
    error.message,
    `the router on beta refuses execute: QuorumNotReached(messageId=${id}, receipts=1, quorum=2);` +
      " wait for more GMPs, or retry the message over others",
  );
  assert.equal(error.revert?.values.quorum, 2);
});

test("any error is told in one line", () => {
  assert.equal(reasonOf(new Error("first\nsecond")), "first");
  assert.equal(reasonOf(Object.assign(new Error("long"), { shortMessage: "short" })), "short");
  assert.equal(reasonOf("text"), "text");
});
