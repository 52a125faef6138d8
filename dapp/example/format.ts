/** Values as people read them. */

import type { Hex } from "viem"; // its types alone: the explorer loads this file on every page

export function shortened(hex: Hex): string {
  return `${hex.slice(0, 8)}…${hex.slice(-6)}`;
}

/** An amount of wei, in ether. */
export function ether(wei: bigint): string {
  if (wei === 0n) return "free";
  return wei < 1_000_000_000n ? `${wei} wei` : `${decimal(wei, 18)} ETH`;
}

/** An amount that is counted in units of 10^-digits, in full. */
function decimal(amount: bigint, digits: number): string {
  const text = amount.toString().padStart(digits + 1, "0");
  const fraction = text.slice(-digits).replace(/0+$/, "");
  return text.slice(0, -digits) + (fraction && `.${fraction}`);
}

/** An amount of wei to four digits, for tables; the exact one belongs beside it. */
export function roughly(wei: bigint): string {
  if (wei < 1_000_000_000n) return ether(wei);
  const [amount, unit] = wei < 10_000_000_000_000n ? [decimal(wei, 9), "gwei"] : [decimal(wei, 18), "ETH"];
  return `${Number(Number(amount).toPrecision(4))} ${unit}`;
}

export function clock(timestamp: bigint): string {
  return new Date(Number(timestamp) * 1000).toLocaleTimeString();
}

/** Seconds, such as "+1 m 5 s". */
export function since(start: bigint, end: bigint): string {
  const seconds = Number(end - start);
  return seconds < 60 ? `+${seconds} s` : `+${Math.floor(seconds / 60)} m ${seconds % 60} s`;
}

/** A payload as text where it is nothing but printable text, else as it is. */
export function payloadText(payload: Hex): string {
  const bytes = Uint8Array.from(payload.slice(2).match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
  const text = new TextDecoder().decode(bytes);
  return /^[\p{L}\p{N}\p{P}\p{S}\p{Zs}\n]+$/u.test(text) && !text.includes("\ufffd") ? text : payload;
}

/** STATES_LIKE_THIS as words. */
export function words(state: string): string {
  return state.replaceAll("_", " ").toLowerCase();
}
