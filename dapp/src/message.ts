/** A message, its id and its envelope, exactly as `contracts/types/Message.sol` has them. */

import {
  concatHex,
  encodeAbiParameters,
  encodePacked,
  type Hex,
  hexToBigInt,
  hexToNumber,
  keccak256,
  parseAbiParameters,
  size,
  sliceHex,
  stringToHex,
} from "viem";

import { WaybillError } from "./errors.ts";

/** A message's kind, which determines how long and how often the relayer tries to deliver it. */
export const Kind = {
  PLAIN: 0,
  STATE_SYNC: 1,
  REGULATORY_ACTION: 2,
  REGULATORY_ACTION_CRITICAL: 3,
  LOCK_MANAGEMENT: 4,
  QUERY: 5,
  ACK: 6,
  HEARTBEAT: 7,
  GOVERNANCE_PROPOSAL: 8,
  GOVERNANCE_VOTE: 9,
  GOVERNANCE_EXECUTE: 10,
  CANCELLATION: 11,
  REPORT: 12,
} as const;
export type Kind = (typeof Kind)[keyof typeof Kind];

/**
 * Default TTL of each kind, in seconds. 0 means that a message never expires, which only plain messages and critical
 * regulatory actions may use; routers reject TTLs below 60.
 */
export const DEFAULT_TTL: Readonly<Record<Kind, number>> = {
  [Kind.PLAIN]: 0,
  [Kind.STATE_SYNC]: 300,
  [Kind.REGULATORY_ACTION]: 600,
  [Kind.REGULATORY_ACTION_CRITICAL]: 0,
  [Kind.LOCK_MANAGEMENT]: 120,
  [Kind.QUERY]: 60,
  [Kind.ACK]: 60,
  [Kind.HEARTBEAT]: 60,
  [Kind.GOVERNANCE_PROPOSAL]: 600,
  [Kind.GOVERNANCE_VOTE]: 300,
  [Kind.GOVERNANCE_EXECUTE]: 600,
  [Kind.CANCELLATION]: 0,
  [Kind.REPORT]: 0,
};

/** A message. Its id commits to every field; no field depends on the GMPs that carry it. */
export interface Message {
  /** EIP-155 id. */
  readonly sourceChain: bigint;
  /** 32 bytes, like all accounts in a message. */
  readonly sourceRouter: Hex;
  readonly sender: Hex;
  readonly nonce: bigint;
  /** EIP-155 id. */
  readonly destinationChain: bigint;
  readonly destinationRouter: Hex;
  readonly recipient: Hex;
  /** Minimum gas of the call to the recipient. */
  readonly gasLimit: bigint;
  /** Unix seconds, the source chain's clock. */
  readonly sentAt: bigint;
  /** Seconds; 0 = never expires. */
  readonly ttl: number;
  readonly kind: Kind;
  /** How many distinct GMPs must deliver. */
  readonly quorum: number;
  /** Id of the message that this one replaces, else zero. */
  readonly replaces: Hex;
  readonly payload: Hex;
}

/** A decoded envelope: the message and the id that its source stated. */
export interface Envelope {
  readonly statedId: Hex;
  readonly message: Message;
  /** Whether the stated id is the id of the message. */
  readonly isGenuine: boolean;
}

export class EnvelopeError extends WaybillError {
  override name = "EnvelopeError";
}

export const ENVELOPE_VERSION = 1;

/** The highest gas limit that a router accepts, as `MAX_GAS_LIMIT` of `contracts/types/Message.sol`. */
export const MAX_GAS_LIMIT = 14_000_000n;

/** Length of an envelope without its payload, in bytes. */
export const HEADER_LENGTH = 239;

const TYPEHASH = keccak256(
  stringToHex(
    "Message(uint8 version,uint64 sourceChain,bytes32 sourceRouter,bytes32 sender,uint64 nonce," +
      "uint64 destinationChain,bytes32 destinationRouter,bytes32 recipient,uint64 gasLimit,uint64 sentAt," +
      "uint32 ttl,uint8 kind,uint8 quorum,bytes32 replaces,bytes payload)",
  ),
);

const ID_PREIMAGE = parseAbiParameters(
  "bytes32, uint8, uint64, bytes32, bytes32, uint64, uint64, bytes32, bytes32, uint64, uint64, uint32, uint8, uint8, bytes32, bytes32",
);

/** The message's id: its EIP-712 struct hash, without a domain. */
export function messageId(message: Message): Hex {
  return keccak256(
    encodeAbiParameters(ID_PREIMAGE, [
      TYPEHASH,
      ENVELOPE_VERSION,
      message.sourceChain,
      message.sourceRouter,
      message.sender,
      message.nonce,
      message.destinationChain,
      message.destinationRouter,
      message.recipient,
      message.gasLimit,
      message.sentAt,
      message.ttl,
      message.kind,
      message.quorum,
      message.replaces,
      keccak256(message.payload),
    ]),
  );
}

/** Encodes the envelope that GMPs carry. */
export function encodeEnvelope(message: Message): Hex {
  return concatHex([
    encodePacked(
      ["uint8", "bytes32", "uint64", "bytes32", "bytes32", "uint64", "uint64", "bytes32"],
      [
        ENVELOPE_VERSION,
        messageId(message),
        message.sourceChain,
        message.sourceRouter,
        message.sender,
        message.nonce,
        message.destinationChain,
        message.destinationRouter,
      ],
    ),
    encodePacked(
      ["bytes32", "uint64", "uint64", "uint32", "uint8", "uint8", "bytes32"],
      [
        message.recipient,
        message.gasLimit,
        message.sentAt,
        message.ttl,
        message.kind,
        message.quorum,
        message.replaces,
      ],
    ),
    message.payload,
  ]);
}

/** Reads an envelope; throws {@link EnvelopeError} if it is too short, or of an unknown version or kind. */
export function decodeEnvelope(envelope: Hex): Envelope {
  if (size(envelope) < HEADER_LENGTH) {
    throw new EnvelopeError(`envelope has ${size(envelope)} bytes; the header alone takes ${HEADER_LENGTH}`);
  }
  let offset = 0;
  const take = (width: number): Hex => sliceHex(envelope, offset, (offset += width));
  const version = hexToNumber(take(1));
  if (version !== ENVELOPE_VERSION) {
    throw new EnvelopeError(`envelope version ${version} is unknown; this code reads version ${ENVELOPE_VERSION}`);
  }
  const statedId = take(32);
  // The order of these members is the order of the bytes.
  const message: Message = {
    sourceChain: hexToBigInt(take(8)),
    sourceRouter: take(32),
    sender: take(32),
    nonce: hexToBigInt(take(8)),
    destinationChain: hexToBigInt(take(8)),
    destinationRouter: take(32),
    recipient: take(32),
    gasLimit: hexToBigInt(take(8)),
    sentAt: hexToBigInt(take(8)),
    ttl: hexToNumber(take(4)),
    kind: kindOf(hexToNumber(take(1))),
    quorum: hexToNumber(take(1)),
    replaces: take(32),
    payload: size(envelope) === HEADER_LENGTH ? "0x" : sliceHex(envelope, HEADER_LENGTH),
  };
  return { statedId, message, isGenuine: statedId === messageId(message) };
}

/** Unix seconds after which the message may no longer execute, or null if it never expires. */
export function expiresAt(message: Message): bigint | null {
  return message.ttl === 0 ? null : message.sentAt + BigInt(message.ttl);
}

function kindOf(number: number): Kind {
  if (number > Kind.REPORT) throw new EnvelopeError(`message kind ${number} is unknown`);
  return number as Kind;
}
