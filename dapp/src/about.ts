/** Messages between routers: cancellations and reports (docs/formats.md). */

import { encodeAbiParameters, getAbiItem, type Hex, keccak256 } from "viem";

import { routerAbi } from "./abi/index.ts";
import { Kind, type Message, messageId } from "./message.ts";

const [MESSAGE] = getAbiItem({ abi: routerAbi, name: "execute" }).inputs;

/** The router's number for the outcome. */
const CANCELLED = 3;

/** The message that cancels another one, except for nonce and time; suitable for a quote. */
export function cancellationOf(message: Message): Message {
  return {
    ...lane(message),
    sender: message.sender,
    kind: Kind.CANCELLATION,
    payload: content(message, CANCELLED),
  };
}

/** The message that reports another one's outcome, except for nonce and time; suitable for a quote. */
export function reportOf(message: Message): Message {
  return {
    ...lane(message),
    sourceChain: message.destinationChain,
    sourceRouter: message.destinationRouter,
    sender: message.destinationRouter,
    destinationChain: message.sourceChain,
    destinationRouter: message.sourceRouter,
    recipient: message.sourceRouter,
    kind: Kind.REPORT,
    payload: content(message, CANCELLED), // every outcome is as long
  };
}

function lane(message: Message): Message {
  return {
    ...message,
    recipient: message.destinationRouter,
    nonce: 0n,
    gasLimit: 0n,
    sentAt: 0n,
    ttl: 0,
    replaces: messageId(message),
  };
}

function content(message: Message, state: number): Hex {
  const header = { ...message, payload: "0x" as const };
  return encodeAbiParameters([MESSAGE, { type: "bytes32" }, { type: "uint8" }], [header, keccak256(message.payload), state]);
}
