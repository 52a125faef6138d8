import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";
import { getAddress, type Hex, zeroAddress } from "viem";

import { AddressError, formatInteroperable, fromWord, parseInteroperable, toWord } from "@waybill/dapp";
import * as arbitrary from "./arbitraries.ts";

/** The first example of ERC-7930: vitalik.eth on mainnet. */
const MAINNET = {
  bytes: "0x00010000010114d8da6bf26964af9d7eed9e03e53415d37aa96045" as Hex,
  chainId: 1n,
  address: getAddress("0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"),
};

test("the example of ERC-7930 is written and read as the standard has it", () => {
  assert.equal(formatInteroperable(MAINNET), MAINNET.bytes);
  assert.deepEqual(parseInteroperable(MAINNET.bytes), { chainId: MAINNET.chainId, address: MAINNET.address });
});

test("reading what was written gives back any chain id and address", () => {
  fc.assert(
    fc.property(arbitrary.chainId, arbitrary.address, (chainId, address) => {
      assert.deepEqual(parseInteroperable(formatInteroperable({ chainId, address })), {
        chainId,
        address: getAddress(address),
      });
    }),
  );
});

test("no other bytes name the same account: what can be read is written back the same", () => {
  fc.assert(
    fc.property(fc.nat(26), fc.integer({ min: 0, max: 255 }), (index, value) => {
      const changed = MAINNET.bytes.slice(0, 2 + 2 * index) + value.toString(16).padStart(2, "0") + MAINNET.bytes.slice(4 + 2 * index);
      try {
        assert.equal(formatInteroperable(parseInteroperable(changed as Hex)), changed);
      } catch (error) {
        assert.ok(error instanceof AddressError, String(error));
      }
    }),
  );
});

for (const [what, bytes, why] of [
  ["nothing", "0x", "the minimum is 6"],
  ["text", "hello", "it is not hexadecimal"],
  ["another version", "0x00020000010114d8da6bf26964af9d7eed9e03e53415d37aa96045", "version 0x0002"],
  ["a Solana address", "0x000100020101140000000000000000000000000000000000000000", "chain type 0x0002"],
  ["no chain", "0x000100000014d8da6bf26964af9d7eed9e03e53415d37aa96045", "its chain id has 0 bytes"],
  ["leading zeros", "0x0001000002000114d8da6bf26964af9d7eed9e03e53415d37aa96045", "leading zeros"],
  ["no address", "0x00010000010100", "it has 7 bytes, but an EVM address has 27"],
  ["a byte too many", `${MAINNET.bytes}00`, "it has 28 bytes"],
  ["another address length", "0x00010000010113d8da6bf26964af9d7eed9e03e53415d37aa96045", "not 20 bytes"],
] as const) {
  test(`an ERC-7930 address with ${what} is refused: ${why}`, () => {
    assert.throws(() => parseInteroperable(bytes as Hex), (error) => error instanceof AddressError && error.message.includes(why));
  });
}

test("a chain id that is none, and an address that is none, are not written", () => {
  assert.throws(() => formatInteroperable({ chainId: 0n, address: zeroAddress }), /0 is not an EIP-155 chain id/);
  assert.throws(() => formatInteroperable({ chainId: 2n ** 64n, address: zeroAddress }), AddressError);
  assert.throws(() => formatInteroperable({ chainId: 1n, address: "0x12" }), /"0x12" is not an EVM address/);
});

test("an address survives the 32-byte form, and a dirty word is refused instead of cut", () => {
  fc.assert(fc.property(arbitrary.address, (address) => assert.equal(fromWord(toWord(address)), getAddress(address))));
  assert.throws(() => fromWord(`0x${"01".padEnd(64, "0")}`), AddressError);
  assert.throws(() => fromWord("0x00"), AddressError);
});

test("a mixed-case address with a wrong checksum is refused", () => {
  assert.throws(() => toWord("0xD8dA6BF26964aF9D7eEd9e03E53415D37aA96045"), /EIP-55 checksum/);
});
