/** What contracts refuse with, as values and as sentences. */

import { type AbiParameter, decodeAbiParameters, type Hex, isHex, parseAbiItem, size, sliceHex, toFunctionSelector } from "viem";
import { formatAbiItem } from "viem/utils";

import { ABIS } from "./abi/index.ts";
import { WaybillError } from "./errors.ts";
import { gmpOfNumber } from "./gmps.ts";

/** A custom error with its values. */
export interface Revert {
  readonly name: string;
  readonly values: Readonly<Record<string, unknown>>;
  /** `NotRetriable(messageId=0x…)` */
  readonly text: string;
  /** The first four bytes and all arguments. */
  readonly data: Hex;
}

/** A contract refused what was asked; the text says which rule, and what to do where that is known. */
export class RefusedError extends WaybillError {
  override name = "RefusedError";
  /** The decoded revert, or undefined if there was no reason or nobody knows it. */
  readonly revert: Revert | undefined;

  constructor(what: string, data: Hex | undefined, cause?: unknown) {
    const revert = data ? decodeRevert(data) : undefined;
    const advice = revert && ADVICE[revert.name];
    super(`${what}: ${data ? explainRevert(data) : reasonOf(cause)}${advice ? `; ${advice}` : ""}`, { cause });
    this.revert = revert;
  }
}

interface ErrorItem {
  readonly type: "error";
  readonly name: string;
  readonly inputs: readonly AbiParameter[];
}

const STANDARD = [
  parseAbiItem("error Error(string message)"),
  parseAbiItem("error Panic(uint256 code)"),
] as unknown as readonly ErrorItem[];

const KNOWN: ReadonlyMap<Hex, ErrorItem> = new Map(
  [...ABIS.flat().filter((item) => item.type === "error"), ...STANDARD].map((item) => [
    toFunctionSelector(formatAbiItem(item as Parameters<typeof formatAbiItem>[0])),
    item as ErrorItem,
  ]),
);

/** What to do about refusals that a dApp can do something about. */
const ADVICE: Readonly<Record<string, string>> = {
  AlreadyExecuted: "the recipient has it, nothing is to be done",
  AlreadyCancelled: "its sender cancelled it; route a new message",
  AlreadyEnded: "it expired or was cancelled; route a new message",
  DuplicateGmp: "name each GMP once",
  ExecutionReverted: "mend the recipient, then execute again",
  Expired: "route a new message",
  FeesDifferFromValue: "quote again and send exactly that",
  GmpNotEnabled: "choose a GMP that the source router has",
  InsufficientDispatchGas: "give the transaction more gas",
  InsufficientGas: "give the transaction more gas",
  InvalidQuorum: "a quorum is at least 1 and at most the number of GMPs named",
  MessageIdMismatch: "retry with exactly the message that was routed; waybill.find reads it from the chain",
  NoPeer: "the source router knows no router there",
  MessageHasExpired: "mark it with expire, and route a new message",
  NotExpired: "its time has not run out yet",
  NotRetriable: "route it again as a new message",
  NotSenderOrRetrier: "ask its sender, or have the sender appoint you as retrier",
  QuorumNotReached: "wait for more GMPs, or retry the message over others",
  TtlRequired: "give it a ttl: only plain messages and critical regulatory actions may live for ever",
  StillUnfunded: "pay for it first, with dispatch",
  TooFewDispatched: "quote exactly this payload and gas limit again, or choose other GMPs",
};

/** The custom error in revert data, or undefined if it is none that Waybill's contracts know. */
export function decodeRevert(data: Hex): Revert | undefined {
  if (size(data) < 4) return undefined;
  const item = KNOWN.get(sliceHex(data, 0, 4));
  if (!item) return undefined;
  let decoded: readonly unknown[];
  try {
    decoded = item.inputs.length === 0 ? [] : decodeAbiParameters(item.inputs, size(data) > 4 ? sliceHex(data, 4) : "0x");
  } catch {
    return undefined; // cut off: events carry only the first 256 bytes
  }
  const values = Object.fromEntries(item.inputs.map((input, index) => [input.name ?? String(index), decoded[index]]));
  const fields = item.inputs.map((input, index) => `${input.name}=${readable(input, decoded[index])}`);
  return { name: item.name, values, text: `${item.name}(${fields.join(", ")})`, data };
}

/** What a contract refused with, for people: `NotRetriable(messageId=0x…)`, or the bytes if nobody knows them. */
export function explainRevert(data: Hex): string {
  if (size(data) === 0) return "reverted without a reason";
  return decodeRevert(data)?.text ?? `reverted with ${data}`;
}

/** The revert data in an error that viem or a wallet threw, or undefined if it was no revert. */
export function revertDataOf(error: unknown): Hex | undefined {
  for (let at: unknown = error, depth = 0; at !== null && typeof at === "object" && depth < 12; depth += 1) {
    const { raw, data, cause } = at as { raw?: unknown; data?: unknown; cause?: unknown };
    const nested = typeof data === "object" && data !== null ? (data as { data?: unknown }).data : undefined;
    const found = [raw, data, nested].find((value) => isHex(value));
    if (found !== undefined) return found as Hex;
    at = cause ?? nested;
  }
  return undefined;
}

/** One line about any error, without the pages that RPC libraries add. */
export function reasonOf(error: unknown): string {
  if (error instanceof Error) {
    const short = (error as { shortMessage?: unknown }).shortMessage;
    return (typeof short === "string" ? short : error.message).split("\n")[0] ?? error.name;
  }
  return String(error);
}

function readable(input: AbiParameter, value: unknown): string {
  if (input.type.endsWith("[]")) {
    const member = { ...input, type: input.type.slice(0, -2) };
    return `[${(value as readonly unknown[]).map((one) => readable(member, one)).join(", ")}]`;
  }
  if ("components" in input) {
    const members = value as Readonly<Record<string, unknown>>;
    return input.components.map((part) => `${part.name}=${readable(part, members[part.name ?? ""])}`).join(": ");
  }
  if (input.type === "bytes") return explainRevert(value as Hex); // reasons nest
  if (input.internalType === "Gmp") return gmpOfNumber(Number(value)) ?? `GMP ${value}`;
  return String(value);
}
