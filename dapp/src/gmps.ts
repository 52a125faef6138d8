/** The transports: their numbers, their names, and sets of them. */

import { WaybillError } from "./errors.ts";
import { GMP_NUMBERS } from "./gmp-numbers.ts";

/** A transport's name, as in files and tables. */
export type Gmp = keyof typeof GMP_NUMBERS;

const TITLES: Readonly<Record<Gmp, string>> = {
  hyperlane: "Hyperlane",
  axelar: "Axelar",
  wormhole: "Wormhole",
  layerzero: "LayerZero",
  ccip: "CCIP",
};

/** A transport's display name. */
export function gmpTitle(gmp: Gmp | undefined): string {
  return gmp ? TITLES[gmp] : "An unknown GMP";
}

/** All transports, in the order of their numbers. */
export const GMPS = Object.keys(GMP_NUMBERS) as readonly Gmp[];

export class UnknownGmpError extends WaybillError {
  override name = "UnknownGmpError";
}

/** The GMP with that name; throws {@link UnknownGmpError} if there is none. */
export function parseGmp(name: string): Gmp {
  const wanted = name.trim().toLowerCase();
  const found = GMPS.find((gmp) => gmp === wanted);
  if (found) return found;
  throw new UnknownGmpError(`unknown GMP ${JSON.stringify(name)}; the GMPs are ${GMPS.join(", ")}`);
}

/** The GMP with that number, or undefined if this version does not know it. */
export function gmpOfNumber(number: number): Gmp | undefined {
  return GMPS.find((gmp) => GMP_NUMBERS[gmp] === number);
}

/** The set encoded in a `uint16` from a chain; numbers that this version does not know are omitted. */
export function gmpsFromBits(bits: number): ReadonlySet<Gmp> {
  return new Set(GMPS.filter((gmp) => bits & bitOf(gmp)));
}

/** The `uint16` that encodes a set of GMPs. */
export function bitsFromGmps(gmps: Iterable<Gmp>): number {
  let bits = 0;
  for (const gmp of gmps) bits |= bitOf(gmp);
  return bits;
}

function bitOf(gmp: Gmp): number {
  return 1 << (GMP_NUMBERS[gmp] - 1);
}
