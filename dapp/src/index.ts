/** Sends messages over several GMPs, retries them, and follows them until they end. */

export { ABIS, adapterAbi, inboxAbi, profilesAbi, routerAbi } from "./abi/index.ts";
export {
  AddressError,
  formatInteroperable,
  fromWord,
  type InteroperableAddress,
  parseInteroperable,
  toWord,
} from "./addresses.ts";
export { adapterOf, type ChainDeployment, Deployment, DeploymentError, gmpsOf } from "./deployment.ts";
export {
  DeliveryGasError,
  FeeCapError,
  NothingToRetryError,
  NotIncludedError,
  UnknownMessageError,
  WalletError,
  WaybillError,
} from "./errors.ts";
export { RELAYER_MAX_GAS } from "./delivery.ts";
export {
  bitsFromGmps,
  type Gmp,
  GMPS,
  gmpOfNumber,
  gmpsFromBits,
  gmpTitle,
  parseGmp,
  UnknownGmpError,
} from "./gmps.ts";
export { GMP_NUMBERS } from "./gmp-numbers.ts";
export {
  decodeEnvelope,
  DEFAULT_TTL,
  encodeEnvelope,
  type Envelope,
  ENVELOPE_VERSION,
  EnvelopeError,
  expiresAt,
  HEADER_LENGTH,
  Kind,
  MAX_GAS_LIMIT,
  type Message,
  messageId,
} from "./message.ts";
export { decodeRevert, explainRevert, reasonOf, RefusedError, type Revert, revertDataOf } from "./reverts.ts";
export type { Fact, FactOf, StorageLocation } from "./facts.ts";
export type { Found } from "./lookup.ts";
export { type Action, type GmpProgress, type Progress, type State, STATES } from "./progress.ts";
export type { Quote, RetryOptions, RouteRequest, SendingOptions, Sent } from "./sending.ts";
export type { ClientOf, Requester } from "./chains.ts";
export { type AnyWalletClient, connectWallet, type LocalAccount, localWallet, type Wallet, walletOf } from "./wallets.ts";
export type { WatchOptions } from "./watch.ts";
export { Waybill, type WaybillOptions } from "./waybill.ts";
