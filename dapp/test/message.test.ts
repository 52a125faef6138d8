import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import fc from "fast-check";
import { bytesToHex, type Hex, hexToBytes, sliceHex } from "viem";

import {
  decodeEnvelope,
  encodeEnvelope,
  EnvelopeError,
  expiresAt,
  HEADER_LENGTH,
  DEFAULT_TTL,
  Kind,
  type Message,
  messageId,
} from "@waybill/dapp";
import * as arbitrary from "./arbitraries.ts";

interface GoldenEntry {
  readonly name: string;
  readonly message: Readonly<Record<string, string>>;
  readonly id: Hex;
  readonly envelope: Hex;
}

const golden = JSON.parse(readFileSync(new URL("../../tests/golden/messages.json", import.meta.url), "utf8")) as {
  version: number;
  messages: GoldenEntry[];
};

function goldenMessage({ message }: GoldenEntry): Message {
  return {
    sourceChain: BigInt(message.source_chain!),
    sourceRouter: message.source_router as Hex,
    sender: message.sender as Hex,
    nonce: BigInt(message.nonce!),
    destinationChain: BigInt(message.destination_chain!),
    destinationRouter: message.destination_router as Hex,
    recipient: message.recipient as Hex,
    gasLimit: BigInt(message.gas_limit!),
    sentAt: BigInt(message.sent_at!),
    ttl: Number(message.ttl),
    kind: Number(message.kind) as Kind,
    quorum: Number(message.quorum),
    replaces: message.replaces as Hex,
    payload: message.payload as Hex,
  };
}

test("the golden file is of the version that this test reads and holds every kind", () => {
  assert.equal(golden.version, 1);
  assert.deepEqual(
    new Set(golden.messages.map((entry) => goldenMessage(entry).kind)),
    new Set(Object.values(Kind)),
  );
});

for (const entry of golden.messages) {
  test(`golden message "${entry.name}" has the golden id and envelope, and its envelope decodes to it`, () => {
    const message = goldenMessage(entry);
    assert.equal(messageId(message), entry.id);
    assert.equal(encodeEnvelope(message), entry.envelope);
    assert.deepEqual(decodeEnvelope(entry.envelope), { statedId: entry.id, message, isGenuine: true });
  });
}

test("decoding any message's envelope gives back the message and its id", () => {
  fc.assert(
    fc.property(arbitrary.message, (message) => {
      const envelope = decodeEnvelope(encodeEnvelope(message));
      assert.deepEqual(envelope, { statedId: messageId(message), message, isGenuine: true });
    }),
  );
});

test("no flipped byte leaves an envelope genuine", () => {
  fc.assert(
    fc.property(arbitrary.message, fc.nat(), fc.integer({ min: 1, max: 255 }), (message, position, mask) => {
      const bytes = hexToBytes(encodeEnvelope(message));
      const index = position % bytes.length;
      bytes[index]! ^= mask;
      try {
        assert.equal(decodeEnvelope(bytesToHex(bytes)).isGenuine, false);
      } catch (error) {
        assert.ok(error instanceof EnvelopeError, String(error));
        assert.ok(index === 0 || index === 205, `byte ${index} is neither version nor kind`);
      }
    }),
  );
});

test("an envelope without its whole header is refused with its length", () => {
  fc.assert(
    fc.property(arbitrary.message, fc.integer({ min: 1, max: HEADER_LENGTH - 1 }), (message, length) => {
      assert.throws(
        () => decodeEnvelope(sliceHex(encodeEnvelope(message), 0, length)),
        new EnvelopeError(`envelope has ${length} bytes; the header alone takes 239`),
      );
    }),
  );
  assert.throws(() => decodeEnvelope("0x"), /envelope has 0 bytes/);
});

test("an unknown version and an unknown kind are refused by their numbers", () => {
  const bytes = hexToBytes(golden.messages[0]!.envelope);
  const version = bytesToHex(bytes.with(0, 2));
  const kind = bytesToHex(bytes.with(205, 13));
  assert.throws(() => decodeEnvelope(version), /version 2 is unknown; this code reads version 1/);
  assert.throws(() => decodeEnvelope(kind), /kind 13 is unknown/);
});

test("a message expires its ttl after it was sent, or never", () => {
  const message = goldenMessage(golden.messages[0]!);
  assert.equal(expiresAt(message), 1_700_604_800n);
  assert.equal(expiresAt({ ...message, ttl: 0 }), null);
});

test("without a ttl a message lives as long as the Python kit would have it live", () => {
  const golden = JSON.parse(readFileSync(new URL("../../tests/golden/ttl.json", import.meta.url), "utf8")) as Record<string, number>;
  const ours = Object.fromEntries(Object.entries(Kind).map(([name, kind]) => [name, DEFAULT_TTL[kind]]));
  assert.deepEqual(ours, golden);
});
