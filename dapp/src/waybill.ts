/** The kit's front door. */

import type { Address, Hex, TransactionReceipt } from "viem";

import { cancellationOf, reportOf } from "./about.ts";
import { type ChainReader, type ClientOf, openChains } from "./chains.ts";
import type { ChainDeployment, Deployment } from "./deployment.ts";
import { DeploymentError, gmpsOf } from "./deployment.ts";
import { WalletError } from "./errors.ts";
import type { Gmp } from "./gmps.ts";
import { find, findByTransaction, type Found } from "./lookup.ts";
import type { Message } from "./message.ts";
import * as sending from "./sending.ts";
import type { Wallet } from "./wallets.ts";
import { watch, type WatchOptions } from "./watch.ts";
import { gmpsToRetry, type Progress } from "./progress.ts";

export interface WaybillOptions {
  /** Signs; without one everything can be read and nothing sent. */
  readonly wallet?: Wallet;
  /** The clients that the dApp reads chains with already; the deployments file's URLs are used for all others. */
  readonly clients?: ClientOf;
  /** Milliseconds between two looks at a chain. */
  readonly pollingInterval?: number;
}

/**
 * Speaks to the routers of one network.
 *
 * @example
 * const waybill = new Waybill(Deployment.parse(text), { wallet: localWallet(privateKeyToAccount(key)) });
 * const sent = await waybill.route({ source: "alpha", destination: "beta", recipient, payload, gmps: ["hyperlane"] });
 * for await (const progress of waybill.watch(sent.message)) console.log(progress.state, progress.reason);
 */
export class Waybill {
  readonly deployment: Deployment;
  readonly #wallet: Wallet | undefined;
  readonly #pollingInterval: number;
  readonly #chains: readonly ChainReader[];

  constructor(deployment: Deployment, options: WaybillOptions = {}) {
    this.deployment = deployment;
    this.#wallet = options.wallet;
    this.#pollingInterval = options.pollingInterval ?? 2_000;
    this.#chains = openChains(deployment, this.#pollingInterval, options.clients);
  }

  /** What each GMP asks for carrying such a message now; no wallet is needed. */
  async quoteRoute(request: sending.RouteRequest): Promise<sending.Quote> {
    const [source, destination] = [this.#chain(request.source), this.#chain(request.destination)];
    const message = sending.draft(source, destination, this.#wallet?.address ?? sending.NOBODY, request);
    return sending.quote(source, message, request.gmps);
  }

  /** What each GMP asks for carrying that message again now; no wallet is needed. */
  async quoteRetry(message: Message, gmps: readonly Gmp[]): Promise<sending.Quote> {
    return sending.quote(this.#chain(message.sourceChain), message, gmps);
  }

  /**
   * Sends a new message and waits until its transaction is included.
   *
   * @throws RefusedError (a contract refuses), FeeCapError (dearer than `maxFee`), DeliveryGasError (too large for relayers),
   *   WalletError (declined, or replaced), NotIncludedError (in no block yet), DeploymentError (no such chain or adapter).
   */
  async route(request: sending.RouteRequest): Promise<sending.Sent> {
    return sending.route(this.#chain(request.source), this.#chain(request.destination), this.#signer(), request);
  }

  /**
   * Sends a message again over those GMPs; receipts that it already has still count. Throws as {@link route}, and
   * NothingToRetryError if the message has ended on its destination, as far as that answers.
   */
  async retryRoute(message: Message, gmps: readonly Gmp[], options: sending.RetryOptions = {}): Promise<sending.Sent> {
    const [source, destination] = [this.#chain(message.sourceChain), this.#chain(message.destinationChain)];
    return sending.retryRoute(source, destination, this.#signer(), message, gmps, options);
  }

  /**
   * Appoints the account that may retry this wallet's messages from that chain beside the wallet itself, such as the relayer's;
   * the zero address appoints nobody. Throws as {@link route}.
   */
  async appointRetrier(source: number | bigint | string, retrier: Address): Promise<TransactionReceipt> {
    return sending.appointRetrier(this.#chain(source), this.#signer(), retrier);
  }

  /** The GMPs to retry a message over: as many as it lacks, first those that were not tried. */
  gmpsToRetry(progress: Progress): readonly Gmp[] {
    const { sourceChain, destinationChain } = progress.message;
    const [source, destination] = [this.deployment.chain(sourceChain), this.deployment.chain(destinationChain)];
    return gmpsToRetry(progress, gmpsOf(source).filter((gmp) => destination.adapters[gmp]));
  }

  /** Pays for a message that was created without its fee, over the GMPs that its sender chose. Throws as {@link route}. */
  async fund(message: Message, gmps: readonly Gmp[], options: sending.SendingOptions = {}): Promise<sending.Sent> {
    return sending.fund(this.#chain(message.sourceChain), this.#signer(), message, gmps, options);
  }

  /** Marks a message whose time has run out as expired, for good; anyone may. Throws as {@link route}. */
  async expire(message: Message): Promise<TransactionReceipt> {
    return sending.expire(this.#chain(message.destinationChain), this.#signer(), message);
  }

  /**
   * Asks the destination never to execute a message; only its sender may. On the source it can't be retried from then on;
   * on the destination it may have been executed before this arrives: wait for the report. Throws as {@link route}.
   *
   * @returns the cancellation, which is a message itself and can be watched.
   */
  async cancel(message: Message, gmps: readonly Gmp[], options: sending.SendingOptions = {}): Promise<sending.Sent> {
    return sending.sendAbout("cancel", this.#chain(message.sourceChain), this.#signer(), message, gmps, options);
  }

  /** What a cancellation of that message costs now; no wallet is needed. */
  async quoteCancel(message: Message, gmps: readonly Gmp[]): Promise<sending.Quote> {
    return sending.quote(this.#chain(message.sourceChain), cancellationOf(message), gmps);
  }

  /**
   * Tells the source how a message ended on its destination: EXECUTED, EXPIRED or CANCELLED; anyone may. Throws as {@link route}.
   *
   * @returns the report, which is a message itself and can be watched.
   */
  async report(message: Message, gmps: readonly Gmp[], options: sending.SendingOptions = {}): Promise<sending.Sent> {
    return sending.sendAbout("report", this.#chain(message.destinationChain), this.#signer(), message, gmps, options);
  }

  /** What a report about that message costs now; no wallet is needed. */
  async quoteReport(message: Message, gmps: readonly Gmp[]): Promise<sending.Quote> {
    return sending.quote(this.#chain(message.destinationChain), reportOf(message), gmps);
  }

  /** Executes a message whose quorum is reached; anyone may. Throws as {@link route}. */
  async execute(message: Message): Promise<TransactionReceipt> {
    return sending.execute(this.#chain(message.destinationChain), this.#signer(), message);
  }

  /**
   * The message with that id, read from the chain that created it; throws UnknownMessageError if none did, and the signal's
   * reason once it aborts.
   */
  async find(id: Hex, options: { readonly signal?: AbortSignal } = {}): Promise<Found> {
    return find(this.#chains, id, options.signal);
  }

  /** The messages that a transaction on any of the chains created, received or executed. */
  async findByTransaction(transactionHash: Hex): Promise<readonly Found[]> {
    return findByTransaction(this.#chains, transactionHash);
  }

  /** Yields the message's progress now and whenever it changes, until its end. Survives chains that do not answer. */
  watch(message: Message, options: WatchOptions = {}): AsyncGenerator<Progress, void, void> {
    const [source, destination] = [this.#chain(message.sourceChain), this.#chain(message.destinationChain)];
    return watch(source, destination, message, { pollingInterval: this.#pollingInterval, ...options });
  }

  #chain(key: number | bigint | string): ChainReader {
    const wanted: ChainDeployment = this.deployment.chain(key);
    const reader = this.#chains.find(({ deployment }) => deployment === wanted);
    if (!reader) throw new DeploymentError(`chain ${wanted.name} is not open in this client`);
    return reader;
  }

  #signer(): Wallet {
    if (this.#wallet) return this.#wallet;
    throw new WalletError("this call needs a wallet to sign with; create the client with one: new Waybill(deployment, { wallet })");
  }
}
