/** Values as people read them. */

import { formatEther, formatGwei, type Hex, hexToString, isHex } from "viem";

export function shortened(hex: Hex): string {
  return `${hex.slice(0, 8)}…${hex.slice(-6)}`;
}

/** An amount of wei, in ether. */
export function ether(wei: bigint): string {
  if (wei === 0n) return "free";
  return wei < 1_000_000_000n ? `${wei} wei` : `${formatEther(wei)} ETH`;
}

/** An amount of wei to four digits, for tables; the exact one belongs beside it. */
export function roughly(wei: bigint): string {
  if (wei < 1_000_000_000n) return ether(wei);
  const [amount, unit] = wei < 10_000_000_000_000n ? [formatGwei(wei), "gwei"] : [formatEther(wei), "ETH"];
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
  const text = isHex(payload) ? hexToString(payload) : "";
  return /^[\p{L}\p{N}\p{P}\p{S}\p{Zs}\n]+$/u.test(text) && !text.includes("\ufffd") ? text : payload;
}

/** STATES_LIKE_THIS as words. */
export function words(state: string): string {
  return state.replaceAll("_", " ").toLowerCase();
}
