/** Derives a message's state and its reason from the facts of its two chains. Pure. */

import type { Hex } from "viem";

import { type Fact, type FactOf, isCreation, type StorageLocation } from "./facts.ts";
import { type Gmp, GMPS, gmpTitle } from "./gmps.ts";
import type { Message } from "./message.ts";

/** The states of a message, with the same names as everywhere in Waybill. */
export const STATES = [
  "ROUTED",
  "RECEIVED",
  "EXECUTED",
  "UNFUNDED",
  "EXECUTION_FAILED",
  "EXECUTION_DEFERRED",
  "STALLED",
  "EXPIRED",
  "CANCELLED",
  "DEAD",
  "DIVERGED",
  "ORPHANED",
  "UNKNOWN",
] as const;
export type State = (typeof STATES)[number];

/** What to do about a message. */
export type Action = "wait" | "fund" | "retry" | "execute" | "expire" | "resend" | "inspect" | "nothing";

/** A message's progress over one GMP. */
export interface GmpProgress {
  readonly gmp: Gmp;
  /** The attempts that it accepted. */
  readonly attempts: readonly number[];
  /** Why it last rejected the message. */
  readonly failure: string | undefined;
  /** Its delivery on the destination. */
  readonly receipt: StorageLocation | undefined;
  /** Whether the receipt counts; it no longer does once the GMP's adapter is revoked. */
  readonly counts: boolean;
  /** How often it delivered the message again, which changed nothing. */
  readonly duplicates: number;
}

/** Everything known about a message at one moment. */
export interface Progress {
  readonly id: Hex;
  readonly message: Message;
  readonly state: State;
  /** Human-readable reason for the state. */
  readonly reason: string;
  readonly action: Action;
  /** Whether the state is final and confirmed. */
  readonly final: boolean;
  /** How many receipts count now. */
  readonly receipts: number;
  /** How many it needs: its own quorum, or its recipient's if that is higher. */
  readonly quorum: number;
  readonly gmps: readonly GmpProgress[];
  /** The last attempt's number; 0 is the route. */
  readonly attempt: number;
  /** The message's events on both chains, oldest first. */
  readonly timeline: readonly Fact[];
  /** The message that the same transaction created after a reorg. */
  readonly replacedBy: Hex | undefined;
  /** Chains that can't be read now, and why. */
  readonly problems: readonly string[];
}

/** The chains' data about a message. */
export interface Observation {
  readonly id: Hex;
  readonly message: Message;
  readonly facts: readonly Fact[];
  /** Receipts that count now, according to the destination's router. */
  readonly valid: ReadonlySet<Gmp>;
  readonly validCount: number;
  /** The router's execution state: 0 none, 1 executed, 2 expired, 3 cancelled. */
  readonly execution: number;
  /** Whether its TTL has elapsed, by the time of the destination's head. */
  readonly expired: boolean;
  readonly destination: { readonly name: string; readonly head: bigint; readonly time: bigint; readonly confirmations: number };
  readonly sourceName: string;
  /** The source was read and knows no such message. */
  readonly orphaned: boolean;
  readonly replacedBy: Hex | undefined;
  /** Why the destination can't be read; its data here is then out of date. */
  readonly unreadable: string | undefined;
  readonly problems: readonly string[];
}

interface Verdict {
  readonly state: State;
  readonly reason: string;
  readonly final?: boolean;
  readonly action?: Action;
}

const ACTIONS: Readonly<Record<State, Action>> = {
  ROUTED: "wait",
  RECEIVED: "wait",
  EXECUTED: "nothing",
  UNFUNDED: "fund",
  EXECUTION_FAILED: "execute",
  EXECUTION_DEFERRED: "execute",
  STALLED: "retry",
  EXPIRED: "resend",
  CANCELLED: "nothing",
  DEAD: "inspect",
  DIVERGED: "inspect",
  ORPHANED: "resend",
  UNKNOWN: "wait",
};

/**
 * Derives a message's progress.
 *
 * @param stallAfter seconds after its last attempt at which a message without its quorum is stalled; measured by the
 *   destination's block times, so that no message becomes stalled while that chain produces no blocks.
 */
export function judge(seen: Observation, stallAfter: number): Progress {
  const quorum = newest(seen.facts, "received")?.quorum ?? seen.message.quorum;
  const gmps = GMPS.map((gmp) => gmpProgress(gmp, seen)).filter(isInvolved);
  const verdict = verdictOn(seen, { quorum, gmps, stallAfter });
  return {
    id: seen.id,
    message: seen.message,
    state: verdict.state,
    reason: verdict.reason,
    action: verdict.action ?? ACTIONS[verdict.state],
    final: verdict.final ?? false,
    receipts: seen.validCount,
    quorum,
    gmps,
    attempt: newest(seen.facts, "retried")?.attempt ?? 0,
    timeline: seen.facts,
    replacedBy: seen.replacedBy,
    problems: seen.problems,
  };
}

/**
 * The GMPs over which to retry a message: as many as it lacks for its quorum. Untried GMPs come first, then silent ones,
 * then those that rejected it.
 *
 * @param usable the GMPs of its lane.
 */
export function gmpsToRetry({ gmps, receipts, quorum }: Progress, usable: readonly Gmp[]): readonly Gmp[] {
  const known = new Map(gmps.map((entry) => [entry.gmp, entry]));
  const rank = (gmp: Gmp): number => {
    const entry = known.get(gmp);
    if (!entry) return 0;
    return entry.attempts.length > 0 ? 1 : 2;
  };
  const open = usable.filter((gmp) => !known.get(gmp)?.counts);
  return open.toSorted((one, other) => rank(one) - rank(other)).slice(0, Math.max(1, quorum - receipts));
}

interface Measures {
  readonly quorum: number;
  readonly gmps: readonly GmpProgress[];
  readonly stallAfter: number;
}

function verdictOn(seen: Observation, measures: Measures): Verdict {
  const { name } = seen.destination;
  if (seen.execution === 1) return executed(seen);
  if (seen.orphaned) return orphaned(seen);
  if (seen.unreadable) return { state: "UNKNOWN", reason: `${name} can't be read: ${seen.unreadable}` };
  if (seen.execution === 2) {
    return { state: "EXPIRED", reason: `${name} marked it expired`, final: isConfirmed(seen, "expired") };
  }
  if (seen.execution === 3) {
    return { state: "CANCELLED", reason: "its sender cancelled it", final: isConfirmed(seen, "cancelled") };
  }
  if (seen.expired) {
    const reason = `its time to live of ${seen.message.ttl} s has run out, and ${name} has not marked it yet`;
    return { state: "EXPIRED", reason, action: "expire" };
  }
  return seen.validCount >= measures.quorum ? unexecuted(seen) : underway(seen, measures);
}

function executed(seen: Observation): Verdict {
  const { name } = seen.destination;
  if (seen.orphaned) {
    return { state: "DIVERGED", reason: `executed on ${name}, but ${seen.sourceName} has no such message`, final: true };
  }
  const final = isConfirmed(seen, "executed");
  return { state: "EXECUTED", reason: `the recipient on ${name} has it${final ? "" : ", not yet confirmed"}`, final };
}

/** Whether the block in which the message ended has the confirmations that the deployments file requires. */
function isConfirmed(seen: Observation, end: "executed" | "expired" | "cancelled"): boolean {
  const { head, confirmations } = seen.destination;
  const fact = newest(seen.facts, end);
  return fact !== undefined && head - fact.block >= BigInt(confirmations);
}

function orphaned(seen: Observation): Verdict {
  const back = seen.replacedBy ? `; its transaction came back as ${seen.replacedBy}` : "";
  const reason = `no transaction on ${seen.sourceName} creates it any more${back}`;
  return { state: "ORPHANED", reason, final: seen.replacedBy !== undefined };
}

/** The quorum is reached, but the message is not executed. */
function unexecuted(seen: Observation): Verdict {
  const tried = seen.facts.findLast((fact) => fact.type === "executionFailed" || fact.type === "executionDeferred");
  if (tried?.type === "executionFailed") {
    return { state: "EXECUTION_FAILED", reason: `the recipient refused: ${tried.reason}` };
  }
  if (tried?.type === "executionDeferred") {
    return { state: "EXECUTION_DEFERRED", reason: `the delivery left less than the ${tried.gasLimit} gas it asks for` };
  }
  return { state: "RECEIVED", reason: "the quorum is reached, and nobody has executed it", action: "execute" };
}

/** The quorum is not reached yet. */
function underway(seen: Observation, { quorum, gmps, stallAfter }: Measures): Verdict {
  const taken = gmps.filter(({ attempts }) => attempts.length > 0);
  const missing = taken.filter(({ counts }) => !counts).map(({ gmp }) => gmp);
  const progress = `${seen.validCount} of ${quorum} delivered`;
  const last = seen.facts.findLast((fact) => isCreation(fact) || fact.type === "retried");
  if (last?.type === "unfunded") return { state: "UNFUNDED", reason: `nobody has paid for it yet on ${seen.sourceName}` };
  // The router retries only messages that were sent as retriable.
  const fixed = seen.facts.some((fact) => isCreation(fact) && !fact.retriable);
  const stalled = (reason: string): Verdict => ({ state: "STALLED", reason, ...(fixed && { action: "wait" }) });
  if (last && seen.validCount + missing.length < quorum) {
    return stalled(`${progress}, but only ${seen.validCount + missing.length} accepted it`);
  }
  const since = last?.timestamp ?? seen.message.sentAt;
  if (seen.destination.time > since + BigInt(stallAfter)) {
    const attempt = last?.type === "retried" ? `retry ${last.attempt}` : "it was sent";
    const silent = missing.length > 0 ? `; no delivery from ${missing.map(gmpTitle).join(", ")}` : "";
    return stalled(`${progress} more than ${stallAfter} s after ${attempt}${silent}`);
  }
  const state = seen.validCount > 0 ? "RECEIVED" : "ROUTED";
  return { state, reason: missing.length > 0 ? `${progress}; waiting for ${missing.map(gmpTitle).join(", ")}` : progress };
}

function gmpProgress(gmp: Gmp, seen: Observation): GmpProgress {
  const sent = seen.facts.filter((fact) => fact.type === "routed" || fact.type === "retried");
  const about = seen.facts.filter((fact) => "gmp" in fact && fact.gmp === gmp);
  return {
    gmp,
    attempts: sent.filter((fact) => fact.gmps.has(gmp)).map((fact) => fact.attempt),
    failure: newest(about, "dispatchFailed")?.reason,
    receipt: newest(about, "received"),
    counts: seen.valid.has(gmp),
    duplicates: about.filter(({ type }) => type === "duplicateAbsorbed").length,
  };
}

function isInvolved({ attempts, failure, receipt, counts }: GmpProgress): boolean {
  return attempts.length > 0 || failure !== undefined || receipt !== undefined || counts;
}

function newest<T extends Fact["type"]>(facts: readonly Fact[], type: T): FactOf<T> | undefined {
  return facts.findLast((fact): fact is FactOf<T> => fact.type === type);
}
