/**
 * All errors that the kit throws deliberately. The message says what failed, with which value, and what to do.
 *
 *     WaybillError
 *     ├── AddressError          text or bytes that are not an address
 *     ├── EnvelopeError         bytes that are not an envelope of a supported version
 *     ├── UnknownGmpError       a name that is not a GMP
 *     ├── DeploymentError       a deployments file that can't be used, or a chain or adapter that it does not have
 *     ├── RefusedError          a contract reverted; has the decoded revert
 *     ├── FeeCapError           the quoted fee is above the caller's limit; nothing was sent
 *     ├── DeliveryGasError      the delivery needs more gas than relayers spend; nothing was sent
 *     ├── NothingToRetryError   the message has ended on its destination; nothing was sent
 *     ├── WalletError           the wallet declined, cancelled a transaction, or is missing
 *     ├── NotIncludedError      a transaction was sent and no block includes it yet
 *     └── UnknownMessageError   no chain of the network knows that id or transaction
 */
export class WaybillError extends Error {
  override name = "WaybillError";
}

/** The quoted fee is above the caller's limit; nothing was sent. */
export class FeeCapError extends WaybillError {
  override name = "FeeCapError";
  /** In wei. */
  readonly fee: bigint;
  /** In wei. */
  readonly maxFee: bigint;

  constructor(fee: bigint, maxFee: bigint) {
    super(`the fee is ${fee} wei now, above the limit of ${maxFee} wei; raise maxFee or use fewer GMPs`);
    this.fee = fee;
    this.maxFee = maxFee;
  }
}

/** The delivery needs more gas than a relayer gives a transaction; nothing was sent. */
export class DeliveryGasError extends WaybillError {
  override name = "DeliveryGasError";
  /** The estimated gas; undefined if it is more than the destination's node allows for a call. */
  readonly gas: bigint | undefined;
  readonly limit: bigint;

  constructor(gas: bigint | undefined, limit: bigint) {
    const needs = gas === undefined ? "more gas than the destination's node allows for a call" : `about ${gas} gas`;
    super(
      `the delivery needs ${needs}, above the ${limit} that relayers give a transaction, so the message would be paid for and` +
        " not be executed; send a shorter payload, make the recipient use less gas, or raise maxDeliveryGas if your relayer's" +
        " max_gas is higher",
    );
    this.gas = gas;
    this.limit = limit;
  }
}

/** The message has ended on its destination, so that a retry would cost its fee and change nothing; nothing was sent. */
export class NothingToRetryError extends WaybillError {
  override name = "NothingToRetryError";

  constructor(id: string, destination: string, executed: boolean) {
    const how = executed ? "was executed" : "expired or was cancelled";
    super(`message ${id} ${how} on ${destination}: a retry would cost a fee and change nothing; set evenIfEnded to send it anyway`);
  }
}

/** The wallet declined, cancelled a transaction, or is missing. */
export class WalletError extends WaybillError {
  override name = "WalletError";
}

/** A transaction was broadcast, but no block includes it yet: look it up before sending again. */
export class NotIncludedError extends WaybillError {
  override name = "NotIncludedError";
}

/** No chain of the network knows that id or transaction. */
export class UnknownMessageError extends WaybillError {
  override name = "UnknownMessageError";
}
