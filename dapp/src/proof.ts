/** Checks what `waybill message prove` prints: a message's events, proven against block hashes. Asks no node. */

import { decodeEventLog, fromRlp, type Hex, hexToBigInt, isAddressEqual, keccak256, numberToHex, toRlp } from "viem";

import { routerAbi } from "./abi/Router.ts";
import { fromWord } from "./addresses.ts";
import { WaybillError } from "./errors.ts";
import { decodeEnvelope, type Message, messageId } from "./message.ts";

/** The file's content; `from_json` in bridge/protocol/proof.py has the same fields. */
export interface MessageProof {
  readonly format: string;
  readonly messageId: Hex;
  readonly events: readonly { chainId: number; header: Hex; transaction: number; log: number; nodes: readonly Hex[] }[];
}

/** What a proof proves, if the message's routers are those that you mean. */
export interface Proven {
  readonly message: Message;
  /** The names of the destination's events, in their order, and the numbers of the GMPs that brought receipts. */
  readonly events: readonly string[];
  readonly gmps: readonly number[];
}

/** A proof that proves nothing; the text says why. */
export class ProofError extends WaybillError {
  override name = "ProofError";
}

type Rlp = readonly Hex[];
const RECEIPTS_ROOT = 5;

/** Checks a proof, given block hashes by chain id that the caller knows; throws {@link ProofError} if it does not hold. */
export function checkProof(proof: MessageProof, trusted: Readonly<Record<number, readonly Hex[]>>): Proven {
  const [created, ...delivered] = proof.events.map((entry) => {
    const block = keccak256(entry.header);
    if (!trusted[entry.chainId]?.includes(block)) throw new ProofError(`block ${block} of chain ${entry.chainId} is not trusted`);
    const { address, event } = eventOf(entry);
    if (event.args.messageId !== proof.messageId) throw new ProofError(`${event.eventName} is not about message ${proof.messageId}`);
    return { address, event, chain: BigInt(entry.chainId) };
  });
  if (created?.event.eventName !== "MessageRouted" && created?.event.eventName !== "MessageUnfunded") {
    throw new ProofError("the first event is not the message's creation");
  }
  const { message } = decodeEnvelope(created.event.args.envelope);
  if (messageId(message) !== proof.messageId) throw new ProofError(`what was created is message ${messageId(message)}`);
  require(created.chain === message.sourceChain && isAddressEqual(created.address, fromWord(message.sourceRouter)), "creation");
  for (const { address, event, chain } of delivered) {
    require(chain === message.destinationChain && isAddressEqual(address, fromWord(message.destinationRouter)), event.eventName);
    const isDelivery = event.eventName === "MessageReceived" || event.eventName === "MessageExecuted";
    require(isDelivery && event.args.sourceChain === message.sourceChain, event.eventName);
  }
  const gmps = delivered.flatMap(({ event }) => (event.eventName === "MessageReceived" ? [event.args.gmp] : []));
  return { message, events: delivered.map(({ event }) => event.eventName), gmps };
}

/** The event that header and nodes lead to. */
function eventOf({ header, transaction, log, nodes }: MessageProof["events"][number]) {
  const digits = numberToHex(transaction).slice(2);
  let path = toRlp(transaction === 0 ? "0x" : `0x${digits.length % 2 ? "0" : ""}${digits}`).slice(2);
  let expected: Hex | undefined = (fromRlp(header, "hex") as Rlp)[RECEIPTS_ROOT];
  for (const node of nodes) {
    require(keccak256(node) === expected, "trie");
    const items = fromRlp(node, "hex") as Rlp;
    const shared = items.length === 2 ? items[0]!.slice(Number(`0x${items[0]![2]}`) % 2 ? 3 : 4) : path.slice(0, 1);
    require(path.startsWith(shared) && (items.length === 2 || shared !== ""), "trie");
    path = path.slice(shared.length);
    expected = items.length === 2 ? items[1] : items[Number(`0x${shared}`)];
  }
  require(path === "" && expected !== undefined, "trie");
  // A typed receipt has its type in front (EIP-2718).
  const list: Hex = hexToBigInt(`0x${expected!.slice(2, 4)}`) < 0xc0n ? `0x${expected!.slice(4)}` : expected!;
  const [status, , , logs] = fromRlp(list, "hex") as unknown as [Hex, Hex, Hex, [Hex, Hex[], Hex][]];
  require(status === "0x01" && logs[log] !== undefined, "receipt");
  const [address, topics, data] = logs[log]!;
  return { address, event: decodeEventLog({ abi: routerAbi, topics: topics as [Hex, ...Hex[]], data }) as RouterEvent };
}

type RouterEvent =
  | { eventName: "MessageRouted" | "MessageUnfunded"; args: { messageId: Hex; envelope: Hex } }
  | { eventName: "MessageReceived"; args: { messageId: Hex; sourceChain: bigint; gmp: number } }
  | { eventName: "MessageExecuted"; args: { messageId: Hex; sourceChain: bigint } };

function require(holds: boolean, what: string): asserts holds {
  if (!holds) throw new ProofError(`the proof of the ${what} does not hold`);
}
