/** Random messages for property tests. */

import fc from "fast-check";
import { type Hex, toHex } from "viem";

import { type Kind, type Message } from "@waybill/dapp";

/** The same examples in every run. */
fc.configureGlobal({ seed: 20_261_128 });

const word = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => toHex(bytes));
const uint64 = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
const uint8 = fc.integer({ min: 0, max: 255 });

export const address = fc.uint8Array({ minLength: 20, maxLength: 20 }).map((bytes) => toHex(bytes));
export const chainId = fc.bigInt({ min: 1n, max: 2n ** 64n - 1n });

export const message: fc.Arbitrary<Message> = fc.record(
  {
    sourceChain: uint64,
    sourceRouter: word,
    sender: word,
    nonce: uint64,
    destinationChain: uint64,
    destinationRouter: word,
    recipient: word,
    gasLimit: uint64,
    sentAt: uint64,
    ttl: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
    kind: fc.integer({ min: 0, max: 12 }) as fc.Arbitrary<Kind>,
    quorum: uint8,
    replaces: word,
    payload: fc.uint8Array({ maxLength: 2048 }).map((bytes): Hex => toHex(bytes)),
  },
  { noNullPrototype: true },
);
