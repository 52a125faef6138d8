/** Quotes, routes, retries and executes messages. */

import { type Address, encodeFunctionData, type Hex, isHex, type TransactionReceipt, zeroAddress, zeroHash } from "viem";

import { cancellationOf, reportOf } from "./about.ts";
import { routerAbi } from "./abi/Router.ts";
import { toWord } from "./addresses.ts";
import type { ChainReader } from "./chains.ts";
import { adapterOf } from "./deployment.ts";
import { checkDeliveryGas, refuseEnded, RELAYER_MAX_GAS } from "./delivery.ts";
import { FeeCapError, WaybillError } from "./errors.ts";
import { type Fact, factsOf } from "./facts.ts";
import { GMP_NUMBERS } from "./gmp-numbers.ts";
import type { Gmp } from "./gmps.ts";
import { inclusionOf } from "./inclusion.ts";
import { DEFAULT_TTL, Kind, type Message, messageId } from "./message.ts";
import { RefusedError, revertDataOf } from "./reverts.ts";
import { asking, type Wallet } from "./wallets.ts";

/** A message to send, and how. */
export interface RouteRequest {
  /** Chain id or name. */
  readonly source: number | bigint | string;
  /** Chain id or name. */
  readonly destination: number | bigint | string;
  readonly recipient: Address;
  readonly payload: Hex;
  readonly gmps: readonly Gmp[];
  /** How many GMPs must have delivered; all of `gmps` by default. */
  readonly quorum?: number;
  /** Gas for the recipient's call. */
  readonly gasLimit?: bigint;
  /** Seconds; 0 = never expires. `DEFAULT_TTL` of its kind, if left out. */
  readonly ttl?: number;
  readonly kind?: Kind;
  /** Whether the message can be retried; costs a storage slot. */
  readonly retriable?: boolean;
  /** How many GMPs must accept it for the call to succeed; 0, the default, stands for all of them. */
  readonly minDispatched?: number;
  /** Id of the message that this one replaces. */
  readonly replaces?: Hex;
  /** The most that it may cost, in wei. */
  readonly maxFee?: bigint;
  /** The gas that its delivery may need; by default the relayers' default limit per transaction. */
  readonly maxDeliveryGas?: bigint;
  /** The account that receives refunds; the sender by default. */
  readonly refundTo?: Address;
}

export interface SendingOptions {
  /** How many GMPs must accept it for the call to succeed. */
  readonly minDispatched?: number;
  /** The most that it may cost, in wei. */
  readonly maxFee?: bigint;
  readonly refundTo?: Address;
}

export interface RetryOptions extends SendingOptions {
  /** Whether to send it although the message has ended on its destination. */
  readonly evenIfEnded?: boolean;
}

/** The GMPs' current fees for a message. */
export interface Quote {
  /** In wei. */
  readonly fees: ReadonlyMap<Gmp, bigint>;
  /** Sum of the quoted fees, in wei. */
  readonly total: bigint;
  /** GMPs that can't carry it, and why. */
  readonly refused: ReadonlyMap<Gmp, RefusedError>;
}

/** A message that its source accepted, or a retry of it. */
export interface Sent {
  readonly id: Hex;
  readonly message: Message;
  /** 0 is the route, 1 the first retry. */
  readonly attempt: number;
  /** The GMPs that accepted it. */
  readonly gmps: ReadonlySet<Gmp>;
  /** The requested GMPs that did not accept it, with their reasons. */
  readonly failed: ReadonlyMap<Gmp, string>;
  /** In wei. */
  readonly fee: bigint;
  readonly receipt: TransactionReceipt;
}

/** The message as the router will create it, except for nonce and time; suitable for a quote. */
export function draft(source: ChainReader, destination: ChainReader, sender: Address, request: RouteRequest): Message {
  return {
    sourceChain: BigInt(source.deployment.chainId),
    sourceRouter: toWord(source.deployment.router),
    sender: toWord(sender),
    nonce: 0n,
    destinationChain: BigInt(destination.deployment.chainId),
    destinationRouter: toWord(destination.deployment.router),
    recipient: toWord(request.recipient),
    gasLimit: request.gasLimit ?? 200_000n,
    sentAt: 0n,
    ttl: request.ttl ?? DEFAULT_TTL[request.kind ?? Kind.PLAIN],
    kind: request.kind ?? Kind.PLAIN,
    quorum: request.quorum ?? request.gmps.length,
    replaces: hexadecimal("replaces", request.replaces ?? zeroHash, 32),
    payload: hexadecimal("payload", request.payload),
  };
}

/** Checks that a value is hex; callers without types may pass anything. */
function hexadecimal(name: string, value: unknown, length?: number): Hex {
  if (isHex(value) && value.length % 2 === 0 && (length === undefined || value.length === 2 + 2 * length)) return value;
  const shown = String(value).slice(0, 40);
  const wanted = length === undefined ? "0x and pairs of hex digits; stringToHex(text) converts text" : `0x and ${2 * length} hex digits`;
  throw new WaybillError(`${name} ${JSON.stringify(shown)} is not ${wanted}`);
}

/**
 * Quotes the message at the source's router. If the router can't quote all GMPs together, it quotes each alone, so that one
 * that refuses does not hide the others' fees.
 */
export async function quote(source: ChainReader, message: Message, gmps: readonly Gmp[]): Promise<Quote> {
  for (const gmp of gmps) adapterOf(source.deployment, gmp);
  try {
    const [total, fees] = await quoteTogether(source, message, gmps);
    // The router quotes 0 for a GMP that fails; quoted alone, it gives the reason.
    if (fees.some(({ fee }) => fee === 0n)) return quoteOneByOne(source, message, gmps);
    return { total, fees: new Map(gmps.map((gmp, index) => [gmp, fees[index]!.fee])), refused: new Map() };
  } catch (error) {
    if (!revertDataOf(error)) throw error;
    return quoteOneByOne(source, message, gmps);
  }
}

async function quoteTogether(source: ChainReader, message: Message, gmps: readonly Gmp[]) {
  const named = gmps.map((gmp) => ({ gmp: GMP_NUMBERS[gmp], fee: 0n }));
  return source.read("quoteRetry", [message, named]);
}

async function quoteOneByOne(source: ChainReader, message: Message, gmps: readonly Gmp[]): Promise<Quote> {
  const fees = new Map<Gmp, bigint>();
  const refused = new Map<Gmp, RefusedError>();
  const ask = async (gmp: Gmp): Promise<void> => {
    try {
      fees.set(gmp, (await quoteTogether(source, message, [gmp]))[0]);
    } catch (error) {
      const data = revertDataOf(error);
      if (!data) throw error;
      refused.set(gmp, new RefusedError(`${gmp} on ${source.name} has no quote`, data, error));
    }
  };
  await Promise.all(gmps.map(ask));
  return { fees, refused, total: [...fees.values()].reduce((sum, fee) => sum + fee, 0n) };
}

/** Sends a new message and waits until its transaction is included. */
export async function route(
  source: ChainReader,
  destination: ChainReader,
  wallet: Wallet,
  request: RouteRequest,
): Promise<Sent> {
  const message = draft(source, destination, wallet.address, request);
  await checkDeliveryGas(destination, message, request.maxDeliveryGas ?? RELAYER_MAX_GAS);
  const { total, gmps } = await price(source, message, request.gmps, request.minDispatched ?? 0, request.maxFee);
  const way = {
    destinationChain: message.destinationChain,
    recipient: message.recipient,
    payload: message.payload,
    gasLimit: message.gasLimit,
    ttl: message.ttl,
    kind: message.kind,
    quorum: message.quorum,
    replaces: message.replaces,
    retriable: request.retriable ?? true,
    minDispatched: request.minDispatched ?? 0,
    gmps,
    refundTo: request.refundTo ?? wallet.address,
  };
  const receipt = await transact(source, wallet, { functionName: "route", args: [way] }, total);
  const sent = await sentOf(source, receipt, "routed");
  return { ...outcome(sent, request.gmps), message: sent.message, attempt: 0, fee: total, receipt };
}

/** Sends a message again over those GMPs and waits until the transaction is included. */
export async function retryRoute(
  source: ChainReader,
  destination: ChainReader,
  wallet: Wallet,
  message: Message,
  gmps: readonly Gmp[],
  options: RetryOptions = {},
): Promise<Sent> {
  if (!options.evenIfEnded) await refuseEnded(destination, message);
  const minDispatched = options.minDispatched ?? 1;
  const priced = await price(source, message, gmps, minDispatched, options.maxFee);
  const refundTo = options.refundTo ?? wallet.address;
  const way = { messageId: messageId(message), message, minDispatched, gmps: priced.gmps, refundTo };
  const receipt = await transact(source, wallet, { functionName: "retryRoute", args: [way] }, priced.total);
  const sent = await sentOf(source, receipt, "retried");
  return { ...outcome(sent, gmps), message, attempt: sent.attempt, fee: priced.total, receipt };
}

/** Pays for a message that was created without its fee; anyone may. `gmps` are those that its sender chose: the router sends it over no others. */
export async function fund(
  source: ChainReader,
  wallet: Wallet,
  message: Message,
  gmps: readonly Gmp[],
  options: SendingOptions = {},
): Promise<Sent> {
  const { total } = await price(source, message, gmps, message.quorum, options.maxFee);
  const args = [message, options.refundTo ?? wallet.address] as const;
  const receipt = await transact(source, wallet, { functionName: "fund", args }, total);
  const sent = await sentOf(source, receipt, "routed");
  return { ...outcome(sent, gmps), message, attempt: sent.attempt, fee: total, receipt };
}

/** Executes a message whose quorum is reached. */
export async function execute(destination: ChainReader, wallet: Wallet, message: Message): Promise<TransactionReceipt> {
  return transact(destination, wallet, { functionName: "execute", args: [message] }, 0n);
}

/** Lets an account retry the wallet's messages in addition to the wallet; the zero address removes the retrier. */
export async function appointRetrier(source: ChainReader, wallet: Wallet, retrier: Address): Promise<TransactionReceipt> {
  return transact(source, wallet, { functionName: "appointRetrier", args: [retrier] }, 0n);
}

/** Marks a message whose TTL has elapsed as expired, which is final; anyone may. */
export async function expire(destination: ChainReader, wallet: Wallet, message: Message): Promise<TransactionReceipt> {
  return transact(destination, wallet, { functionName: "expire", args: [message] }, 0n);
}

/**
 * Sends a cancellation or report and waits until its transaction is included: the sender cancels from the source, or
 * anyone reports the outcome from the destination.
 */
export async function sendAbout(
  functionName: "cancel" | "report",
  from: ChainReader,
  wallet: Wallet,
  message: Message,
  gmps: readonly Gmp[],
  options: SendingOptions,
): Promise<Sent> {
  const about = functionName === "cancel" ? cancellationOf(message) : reportOf(message);
  const minDispatched = options.minDispatched ?? 1;
  const priced = await price(from, about, gmps, minDispatched, options.maxFee);
  const args = [message, minDispatched, priced.gmps, options.refundTo ?? wallet.address] as const;
  const receipt = await transact(from, wallet, { functionName, args }, priced.total);
  const sent = await sentOf(from, receipt, "routed");
  return { ...outcome(sent, gmps), message: sent.message, attempt: 0, fee: priced.total, receipt };
}

type GmpFees = readonly { readonly gmp: number; readonly fee: bigint }[];

/** Each GMP's fee: its quote, or 0 if it gives none and `minDispatched` others do; 0 stands for all. */
async function price(
  source: ChainReader,
  message: Message,
  gmps: readonly Gmp[],
  minDispatched: number,
  maxFee: bigint | undefined,
): Promise<{ total: bigint; gmps: GmpFees }> {
  const { fees, refused, total } = await quote(source, message, gmps);
  if (gmps.length - refused.size < (minDispatched || gmps.length)) for (const refusal of refused.values()) throw refusal;
  if (maxFee !== undefined && total > maxFee) throw new FeeCapError(total, maxFee);
  return { total, gmps: gmps.map((gmp) => ({ gmp: GMP_NUMBERS[gmp], fee: fees.get(gmp) ?? 0n })) };
}

interface RouterCall {
  readonly functionName: "route" | "retryRoute" | "fund" | "execute" | "expire" | "cancel" | "report" | "appointRetrier";
  readonly args: readonly unknown[];
}

async function transact(chain: ChainReader, wallet: Wallet, call: RouterCall, value: bigint): Promise<TransactionReceipt> {
  const client = await wallet.on(chain.deployment);
  const what = `the router on ${chain.name} refuses ${call.functionName}`;
  // The functions differ only in their types; each caller above has checked its own.
  const data = encodeFunctionData({ abi: routerAbi, ...call } as never);
  const request = { to: chain.deployment.router, data, value };
  let gas: bigint;
  try {
    gas = await chain.estimateGas(wallet.address, request);
  } catch (error) {
    const data = revertDataOf(error);
    if (data) throw new RefusedError(what, data, error);
    throw error;
  }
  // Another message in between can change the gas cost of a slot.
  const generous = { ...request, gas: (gas * 6n) / 5n };
  const hash = await asking(call.functionName, () => client.send(generous));
  const receipt = await inclusionOf(chain, hash);
  if (receipt.status === "reverted") {
    throw new RefusedError(what, undefined, `transaction ${receipt.transactionHash} reverted although its estimate succeeded: the state had changed; try again`);
  }
  return receipt;
}

type SendingFact = Fact & { type: "routed" | "retried" };

async function sentOf<T extends SendingFact["type"]>(
  chain: ChainReader,
  receipt: TransactionReceipt,
  type: T,
): Promise<Fact & { type: T } & { failed: ReadonlyMap<Gmp, string> }> {
  const facts = factsOf(chain.deployment, receipt.logs);
  const found = facts.find((fact): fact is Fact & { type: T } => fact.type === type);
  if (!found) {
    const where = `${chain.deployment.router} on ${chain.name}`;
    throw new WaybillError(`${where} included transaction ${receipt.transactionHash} but emitted no routing event; check that it is Waybill's router`);
  }
  const failed = new Map(
    facts.flatMap((fact) => (fact.type === "dispatchFailed" && fact.gmp ? [[fact.gmp, fact.reason] as const] : [])),
  );
  return { ...found, failed };
}

function outcome(
  sent: SendingFact & { failed: ReadonlyMap<Gmp, string> },
  asked: readonly Gmp[],
): { id: Hex; gmps: ReadonlySet<Gmp>; failed: ReadonlyMap<Gmp, string> } {
  const failed = asked.filter((gmp) => !sent.gmps.has(gmp));
  return {
    id: sent.messageId,
    gmps: sent.gmps,
    failed: new Map(failed.map((gmp) => [gmp, sent.failed.get(gmp) ?? "no reason given"])),
  };
}

/** The sender in quotes while no wallet is connected. */
export const NOBODY: Address = zeroAddress;
