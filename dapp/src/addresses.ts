/** 20-byte EVM addresses, the 32-byte form that messages carry, and the ERC-7930 form that recipients see. */

import { type Address, concatHex, getAddress, type Hex, isAddress, isHex, numberToHex, size, sliceHex } from "viem";

import { WaybillError } from "./errors.ts";

const PADDING: Hex = "0x000000000000000000000000";

/** ERC-7930 version 1, chain type 0 (eip155). */
const EIP155_PREFIX: Hex = "0x00010000";

export class AddressError extends WaybillError {
  override name = "AddressError";
}

/** An address on a chain, as encoded by ERC-7930. */
export interface InteroperableAddress {
  /** EIP-155 id. */
  readonly chainId: bigint;
  readonly address: Address;
}

/** An EVM address as 32 bytes, left-padded with zeros. */
export function toWord(address: string): Hex {
  return concatHex([PADDING, checked(address)]).toLowerCase() as Hex;
}

/** The EVM address in a 32-byte word; throws {@link AddressError} unless the upper 12 bytes are zero. */
export function fromWord(word: Hex): Address {
  if (!isHex(word) || size(word) !== 32 || sliceHex(word, 0, 12) !== PADDING) {
    throw new AddressError(`${word} is not an EVM address padded to 32 bytes`);
  }
  return getAddress(sliceHex(word, 12));
}

/** The canonical ERC-7930 form of an EVM address: version 1, eip155, chain id without leading zeros, 20 bytes. */
export function formatInteroperable({ chainId, address }: InteroperableAddress): Hex {
  if (chainId <= 0n || chainId >= 1n << 64n) throw new AddressError(`${chainId} is not an EIP-155 chain id`);
  const digits = chainId.toString(16);
  const reference = `0x${digits.padStart(digits.length + (digits.length % 2), "0")}` as Hex;
  const length = numberToHex(size(reference), { size: 1 });
  return concatHex([EIP155_PREFIX, length, reference, "0x14", checked(address)]).toLowerCase() as Hex;
}

/**
 * Reads an ERC-7930 address of an EVM chain. Only the canonical form is accepted, so that two texts never name the same
 * account; throws {@link AddressError} that says what is wrong with any other.
 */
export function parseInteroperable(bytes: Hex): InteroperableAddress {
  if (!isHex(bytes)) throw refused(bytes, "it is not hexadecimal");
  if (size(bytes) < 6) throw refused(bytes, `it has ${size(bytes)} bytes, but the minimum is 6`);
  if (sliceHex(bytes, 0, 2) !== "0x0001") throw refused(bytes, `version ${sliceHex(bytes, 0, 2)} is not 0x0001`);
  if (sliceHex(bytes, 2, 4) !== "0x0000") throw refused(bytes, `chain type ${sliceHex(bytes, 2, 4)} is not eip155`);
  const referenceLength = Number(sliceHex(bytes, 4, 5));
  if (referenceLength === 0 || referenceLength > 8) {
    throw refused(bytes, `its chain id has ${referenceLength} bytes, but must have 1 to 8`);
  }
  if (size(bytes) !== 5 + referenceLength + 1 + 20) {
    throw refused(bytes, `it has ${size(bytes)} bytes, but an EVM address has ${26 + referenceLength}`);
  }
  if (sliceHex(bytes, 5 + referenceLength, 6 + referenceLength) !== "0x14") {
    throw refused(bytes, "its address is not 20 bytes long");
  }
  const reference = sliceHex(bytes, 5, 5 + referenceLength);
  if (reference.startsWith("0x00")) throw refused(bytes, "its chain id has leading zeros");
  return { chainId: BigInt(reference), address: getAddress(sliceHex(bytes, 6 + referenceLength)) };
}

function refused(bytes: string, why: string): AddressError {
  return new AddressError(`${bytes} is not the canonical ERC-7930 form of an EVM address: ${why}`);
}

function checked(address: string): Address {
  if (isAddress(address)) return address;
  const rule = "0x and 40 hex digits, EIP-55 checksum if mixed case";
  throw new AddressError(`${JSON.stringify(address)} is not an EVM address (${rule})`);
}
