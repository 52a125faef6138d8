/** Decodes the logs of routers and adapters into typed facts. */

import {
  type Abi,
  decodeEventLog,
  type Hex,
  isAddressEqual,
  type Log,
  type RpcLog,
  toEventSelector,
} from "viem";
import { formatAbiItem } from "viem/utils";

import { adapterAbi } from "./abi/IAdapter.ts";
import { routerAbi } from "./abi/Router.ts";
import type { ChainDeployment } from "./deployment.ts";
import { type Gmp, gmpOfNumber, gmpsFromBits } from "./gmps.ts";
import { decodeEnvelope, type Message } from "./message.ts";
import { explainRevert } from "./reverts.ts";

/** The log of a fact. */
export interface StorageLocation {
  /** The chain's name. */
  readonly chain: string;
  readonly block: bigint;
  readonly blockHash: Hex;
  readonly logIndex: number;
  readonly transactionHash: Hex;
  /** Unix seconds, if the node returned the time with the log. */
  readonly timestamp: bigint | undefined;
}

interface About extends StorageLocation {
  readonly messageId: Hex;
}

/** An event of a message. For GMPs that this version does not know, `gmp` is undefined. */
export type Fact = About &
  (
    | { type: "unfunded"; message: Message; retriable: boolean; gmps: ReadonlySet<Gmp> }
    | { type: "routed"; attempt: 0; message: Message; retriable: boolean; gmps: ReadonlySet<Gmp> }
    | { type: "retried"; attempt: number; gmps: ReadonlySet<Gmp> }
    | { type: "dispatchFailed"; attempt: number; gmp: Gmp | undefined; reason: string }
    | { type: "received"; gmp: Gmp | undefined; receipts: number; quorum: number }
    | { type: "executed" }
    | { type: "expired" }
    | { type: "cancelled" }
    | { type: "lateReceipt"; gmp: Gmp | undefined }
    | { type: "executionFailed"; reason: string }
    | { type: "executionDeferred"; gasLimit: bigint }
    | { type: "duplicateAbsorbed"; gmp: Gmp | undefined }
  );

export type FactOf<T extends Fact["type"]> = Extract<Fact, { type: T }>;

const ROUTER_EVENTS = [
  "MessageUnfunded",
  "MessageRouted",
  "MessageRetried",
  "DispatchFailed",
  "MessageReceived",
  "MessageExecuted",
  "ExecutionFailed",
  "ExecutionDeferred",
  "MessageExpired",
  "MessageCancelled",
  "LateReceipt",
] as const;
const ADAPTER_EVENTS = ["DuplicateAbsorbed"] as const;

/** Topics of all events about a message; each has the message's id as its next topic. */
export const FACT_TOPICS: readonly Hex[] = [
  ...topicsOf(routerAbi, ROUTER_EVENTS),
  ...topicsOf(adapterAbi, ADAPTER_EVENTS),
];

/** Topics of the events that contain the whole message. */
export const CREATION_TOPICS: readonly Hex[] = topicsOf(routerAbi, ["MessageRouted", "MessageUnfunded"]);

/** A fact that contains the whole message: it was routed, or created without paying. */
export function isCreation(fact: Fact): fact is FactOf<"routed" | "unfunded"> {
  return fact.type === "routed" || fact.type === "unfunded";
}

/** The facts in logs of a chain, in their order; other contracts' logs and other events are ignored. */
export function factsOf(chain: ChainDeployment, logs: readonly (Log | RpcLog)[]): Fact[] {
  return logs.flatMap((log) => {
    const fact = factOf(chain, log);
    return fact ? [fact] : [];
  });
}

function factOf(chain: ChainDeployment, log: Log | RpcLog): Fact | undefined {
  const isRouter = isAddressEqual(log.address, chain.router);
  const isAdapter = Object.values(chain.adapters).some((adapter) => isAddressEqual(adapter, log.address));
  if (!FACT_TOPICS.includes(log.topics[0] ?? "0x") || !(isRouter || isAdapter)) return undefined;
  const place: StorageLocation = {
    chain: chain.name,
    block: BigInt(log.blockNumber!),
    blockHash: log.blockHash!,
    logIndex: Number(log.logIndex),
    transactionHash: log.transactionHash!,
    timestamp: timestampOf(log),
  };
  if (isAdapter) {
    const { args } = decodeEventLog({ abi: adapterAbi, eventName: "DuplicateAbsorbed", ...partsOf(log) });
    return { ...place, type: "duplicateAbsorbed", messageId: args.messageId, gmp: gmpOfNumber(args.gmp) };
  }
  return routerFact(place, log);
}

function routerFact(place: StorageLocation, log: Log | RpcLog): Fact | undefined {
  const event = decodeEventLog({ abi: routerAbi, ...partsOf(log) });
  switch (event.eventName) {
    case "MessageRouted": {
      const { messageId, retriable, gmps, envelope } = event.args;
      const { message } = decodeEnvelope(envelope);
      return { ...place, type: "routed", messageId, attempt: 0, message, retriable, gmps: gmpsFromBits(gmps) };
    }
    case "MessageRetried": {
      const { messageId, attempt, gmps } = event.args;
      return { ...place, type: "retried", messageId, attempt, gmps: gmpsFromBits(gmps) };
    }
    case "DispatchFailed": {
      const { messageId, gmp, attempt, reason } = event.args;
      return { ...place, type: "dispatchFailed", messageId, attempt, gmp: gmpOfNumber(gmp), reason: explainRevert(reason) };
    }
    case "MessageReceived": {
      const { messageId, gmp, receipts, quorum } = event.args;
      return { ...place, type: "received", messageId, gmp: gmpOfNumber(gmp), receipts, quorum };
    }
    case "MessageUnfunded": {
      const { messageId, retriable, gmps, envelope } = event.args;
      const { message } = decodeEnvelope(envelope);
      return { ...place, type: "unfunded", messageId, message, retriable, gmps: gmpsFromBits(gmps) };
    }
    case "LateReceipt":
      return { ...place, type: "lateReceipt", messageId: event.args.messageId, gmp: gmpOfNumber(event.args.gmp) };
    case "MessageExpired":
      return { ...place, type: "expired", messageId: event.args.messageId };
    case "MessageCancelled":
      return { ...place, type: "cancelled", messageId: event.args.messageId };
    case "MessageExecuted":
      return { ...place, type: "executed", messageId: event.args.messageId };
    case "ExecutionFailed": {
      const { messageId, reason } = event.args;
      return { ...place, type: "executionFailed", messageId, reason: explainRevert(reason) };
    }
    case "ExecutionDeferred": {
      const { messageId, gasLimit } = event.args;
      return { ...place, type: "executionDeferred", messageId, gasLimit };
    }
    default:
      return undefined;
  }
}

function partsOf(log: Log | RpcLog): { data: Hex; topics: [Hex, ...Hex[]] } {
  return { data: log.data, topics: log.topics as [Hex, ...Hex[]] };
}

function timestampOf(log: Log | RpcLog): bigint | undefined {
  const { blockTimestamp } = log as { blockTimestamp?: bigint | Hex | null };
  return blockTimestamp === undefined || blockTimestamp === null ? undefined : BigInt(blockTimestamp);
}

function topicsOf(abi: Abi, names: readonly string[]): Hex[] {
  return names.map((name) => {
    const item = abi.find((entry) => entry.type === "event" && entry.name === name);
    if (!item) throw new Error(`the ABI has no event ${name}`);
    return toEventSelector(formatAbiItem(item as Parameters<typeof formatAbiItem>[0]));
  });
}
