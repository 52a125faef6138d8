/** Decodes and explains the errors of contracts. */

import { type AbiParameter, decodeAbiParameters, type Hex, isHex, parseAbiItem, size, sliceHex, toFunctionSelector } from "viem";
import { formatAbiItem } from "viem/utils";

import { KNOWN_ERRORS } from "./abi/Errors.ts";
import { WaybillError } from "./errors.ts";
import { gmpOfNumber } from "./gmps.ts";

/** A custom error of Waybill's contracts or of the GMPs', with its values. */
export interface Revert {
  readonly name: string;
  /** By parameter; empty if the error was truncated, as in events and `TooFewDispatched` after 256 bytes. */
  readonly values: Readonly<Record<string, unknown>>;
  /** `NotRetriable(messageId=0x…)` */
  readonly text: string;
  /** Whose contracts have it: `waybill`, or names of GMPs. */
  readonly by: readonly string[];
  /** Its meaning from the contracts' documentation, if there is one. */
  readonly meaning: string;
  /** What to do, if known. */
  readonly advice: string;
  /** The errors that it carries, such as each GMP's own in `TooFewDispatched`. */
  readonly inner: readonly Revert[];
  /** The first four bytes and all arguments. */
  readonly data: Hex;
}

/** A contract reverted the call; the message names the rule and, if known, the remedy. */
export class RefusedError extends WaybillError {
  override name = "RefusedError";
  /** The decoded revert, or undefined without a known reason. */
  readonly revert: Revert | undefined;

  constructor(what: string, data: Hex | undefined, cause?: unknown) {
    const revert = data ? decodeRevert(data) : undefined;
    const advice = revert?.advice ? `; ${revert.advice}` : "";
    super(`${what}: ${data ? explainRevert(data) : reasonOf(cause)}${advice}`, { cause });
    this.revert = revert;
  }
}

interface ErrorItem {
  readonly name: string;
  readonly inputs: readonly AbiParameter[];
  readonly by: string;
  readonly meaning: string;
  readonly advice: string;
}

const STANDARD: typeof KNOWN_ERRORS = [
  ["Error(string message)", "solidity", "The contract gives its reason as text."],
  [
    "Panic(uint256 code)",
    "solidity",
    "A check of the compiler's failed: 0x01 assert, 0x11 overflow, 0x12 division by zero, 0x21 no such enum value," +
      " 0x32 index out of bounds, 0x41 out of memory.",
  ],
];

let known: ReadonlyMap<Hex, ErrorItem> | undefined;

/** Every known error by its selector; parsed on first use. */
function knownErrors(): ReadonlyMap<Hex, ErrorItem> {
  known ??= new Map(
    [...KNOWN_ERRORS, ...STANDARD].map(([signature, by, meaning = "", advice = ""]) => {
      const { name, inputs } = parseAbiItem(`error ${signature}`) as unknown as Pick<ErrorItem, "name" | "inputs">;
      const selector = toFunctionSelector(formatAbiItem({ type: "error", name, inputs }));
      return [selector, { name, inputs, by, meaning, advice }];
    }),
  );
  return known;
}

/** The custom error in revert data, or undefined if neither Waybill nor its GMPs have it. */
export function decodeRevert(data: Hex): Revert | undefined {
  if (size(data) < 4) return undefined;
  const item = knownErrors().get(sliceHex(data, 0, 4));
  if (!item) return undefined;
  const { name, meaning, advice } = item;
  const found = { name, by: item.by.split(" "), meaning, advice, data };
  let decoded: readonly unknown[];
  try {
    decoded = item.inputs.length === 0 ? [] : decodeAbiParameters(item.inputs, size(data) > 4 ? sliceHex(data, 4) : "0x");
  } catch {
    return { ...found, values: {}, text: `${name}, cut off: ${data}`, inner: [] };
  }
  const inner: Revert[] = [];
  const values = Object.fromEntries(item.inputs.map((input, index) => [input.name ?? String(index), decoded[index]]));
  const fields = item.inputs.map((input, index) => `${input.name}=${readable(input, decoded[index], inner)}`);
  return { ...found, values, text: `${name}(${fields.join(", ")})`, inner };
}

/** Human-readable revert data: `NotRetriable(messageId=0x…)`, or the bytes of an unknown error. */
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

/** A human-readable value; errors that it contains are added to `inner`, since reasons nest. */
function readable(input: AbiParameter, value: unknown, inner: Revert[]): string {
  if (input.type.endsWith("]")) {
    const member = { ...input, type: input.type.slice(0, input.type.lastIndexOf("[")) };
    return `[${(value as readonly unknown[]).map((one) => readable(member, one, inner)).join(", ")}]`;
  }
  if ("components" in input) {
    const members = value as Readonly<Record<string, unknown>>;
    return `{${input.components.map((part) => `${part.name}=${readable(part, members[part.name ?? ""], inner)}`).join(", ")}}`;
  }
  if (input.type === "bytes") {
    const revert = decodeRevert(value as Hex);
    if (revert) inner.push(revert);
    return explainRevert(value as Hex);
  }
  if (input.name === "gmp" && input.type === "uint8") return gmpOfNumber(Number(value)) ?? `GMP ${value}`;
  return String(value);
}
