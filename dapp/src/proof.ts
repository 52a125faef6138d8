/** Checks what `waybill message prove` prints: a message's events, proven against block hashes. Asks no node. */

import { decodeEventLog, fromRlp, type Hex, isAddressEqual, isHex, keccak256, numberToHex, size, toRlp } from "viem";

import { routerAbi } from "./abi/Router.ts";
import { fromWord } from "./addresses.ts";
import { WaybillError } from "./errors.ts";
import { decodeEnvelope, type Message, messageId } from "./message.ts";

/** The file's content; docs/formats.md has its fields. */
export interface MessageProof {
  readonly format: string;
  readonly messageId: Hex;
  readonly events: readonly LogProof[];
}

interface LogProof {
  readonly chainId: number;
  readonly header: Hex;
  readonly transaction: number;
  readonly log: number;
  readonly nodes: readonly Hex[];
}

/** What a proof proves, if the message's routers are those that you mean. */
export interface Proven {
  readonly message: Message;
  /** The numbers of the GMPs that brought receipts. */
  readonly gmps: readonly number[];
  readonly executed: boolean;
}

/** A proof that proves nothing; the text says why, and `cause` what failed. */
export class ProofError extends WaybillError {
  override name = "ProofError";
}

type Rlp = readonly Hex[];
const FORMAT = "waybill-proof-1";
const RECEIPTS_ROOT = 5;
const BRANCH = 17;

/** Checks a proof, given block hashes by chain id that the caller knows; throws {@link ProofError} if it does not hold. */
export function checkProof(proof: MessageProof, trusted: Readonly<Record<number, readonly Hex[]>>): Proven {
  try {
    return checked(proof, trusted);
  } catch (cause) {
    throw cause instanceof ProofError ? cause : new ProofError("the proof does not hold", { cause });
  }
}

function checked(proof: MessageProof, trusted: Readonly<Record<number, readonly Hex[]>>): Proven {
  if (proof.format !== FORMAT) throw new ProofError(`the format is ${proof.format}, this version reads ${FORMAT}`);
  const id = proof.messageId.toLowerCase();
  const seen = new Set<string>();
  const [created, ...delivered] = proof.events.map((entry) => {
    demand([entry.chainId, entry.transaction, entry.log].every((number) => Number.isSafeInteger(number) && number >= 0), "place");
    const block = keccak256(data(entry.header));
    const isTrusted = Object.hasOwn(trusted, entry.chainId) && trusted[entry.chainId]!.some((hash) => hash.toLowerCase() === block);
    if (!isTrusted) throw new ProofError(`block ${block} of chain ${entry.chainId} is not trusted`);
    const place = `${block} ${entry.transaction} ${entry.log}`;
    demand(!seen.has(place), "event, which is there twice,");
    seen.add(place);
    const { address, event } = eventOf(entry);
    if (event.args.messageId !== id) throw new ProofError(`${event.eventName} is not about message ${id}`);
    return { address, event, chain: BigInt(entry.chainId) };
  });
  if (created?.event.eventName !== "MessageRouted" && created?.event.eventName !== "MessageUnfunded") {
    throw new ProofError("the first event is not the message's creation");
  }
  const { message } = decodeEnvelope(created.event.args.envelope);
  if (messageId(message) !== id) throw new ProofError(`what was created is message ${messageId(message)}`);
  demand(message.sourceChain !== message.destinationChain, "creation");
  demand(created.chain === message.sourceChain && isAddressEqual(created.address, fromWord(message.sourceRouter)), "creation");
  const gmps = new Set<number>();
  let executed = false;
  for (const { address, event, chain } of delivered) {
    demand(chain === message.destinationChain && isAddressEqual(address, fromWord(message.destinationRouter)), event.eventName);
    const isDelivery = event.eventName === "MessageReceived" || event.eventName === "MessageExecuted";
    demand(isDelivery && event.args.sourceChain === message.sourceChain, event.eventName);
    if (event.eventName === "MessageReceived") gmps.add(event.args.gmp);
    else executed = true;
  }
  return { message, gmps: [...gmps], executed };
}

/** The event that header and nodes lead to. */
function eventOf({ header, transaction, log, nodes }: LogProof) {
  const digits = numberToHex(transaction).slice(2);
  const key = toRlp(transaction === 0 ? "0x" : `0x${digits.length % 2 ? "0" : ""}${digits}`);
  const receipt = valueAt(key, (fromRlp(header, "hex") as Rlp)[RECEIPTS_ROOT], nodes);
  // A typed receipt has its type in front (EIP-2718).
  const list: Hex = Number(receipt.slice(0, 4)) < 0xc0 ? `0x${receipt.slice(4)}` : receipt;
  const [status, , , logs] = fromRlp(list, "hex") as unknown as [Hex, Hex, Hex, [Hex, Hex[], Hex][]];
  demand(status === "0x01" && logs[log] !== undefined, "transaction's receipt");
  const [address, topics, content] = logs[log]!;
  return { address, event: decodeEventLog({ abi: routerAbi, topics: topics as [Hex, ...Hex[]], data: content }) as RouterEvent };
}

/** The value at a key of a trie with that root. The nodes must be those on the way, and no other. */
function valueAt(key: Hex, root: Hex | undefined, nodes: readonly Hex[]): Hex {
  let path = key.slice(2);
  let expected = root;
  let isLeaf = false;
  for (const node of nodes) {
    demand(keccak256(data(node)) === expected && !isLeaf, "way to the receipt");
    const items = fromRlp(node, "hex") as Rlp;
    if (items.length === BRANCH) {
      demand(path !== "", "way to the receipt");
      expected = items[Number(`0x${path[0]}`)];
      path = path.slice(1);
      continue;
    }
    const flags = Number(`0x${items[0]![2]}`);
    const shared = items[0]!.slice(flags % 2 ? 3 : 4);
    demand(path.startsWith(shared), "way to the receipt");
    path = path.slice(shared.length);
    expected = items[1];
    isLeaf = flags >= 2;
  }
  demand(path === "" && isLeaf && typeof expected === "string", "way to the receipt");
  return expected;
}

type RouterEvent =
  | { eventName: "MessageRouted" | "MessageUnfunded"; args: { messageId: Hex; envelope: Hex } }
  | { eventName: "MessageReceived"; args: { messageId: Hex; sourceChain: bigint; gmp: number } }
  | { eventName: "MessageExecuted"; args: { messageId: Hex; sourceChain: bigint } };

function data(text: Hex): Hex {
  demand(isHex(text) && text.length === 2 + 2 * size(text), "hexadecimal text");
  return text;
}

function demand(holds: boolean, what: string): asserts holds {
  if (!holds) throw new ProofError(`the proof of the ${what} does not hold`);
}
