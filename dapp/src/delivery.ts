/** Checks on the destination, before anything is paid on the source, that a delivery or retry can have an effect. */

import { encodeFunctionData } from "viem";

import { inboxAbi } from "./abi/Inbox.ts";
import { formatInteroperable, fromWord } from "./addresses.ts";
import type { ChainReader } from "./chains.ts";
import { DeliveryGasError, NothingToRetryError } from "./errors.ts";
import { HEADER_LENGTH, type Message, messageId } from "./message.ts";
import { reasonOf } from "./reverts.ts";

/** The maximum gas of a relayer's transaction, unless its operator sets another limit (`max_gas`). */
export const RELAYER_MAX_GAS = 16_000_000n;

/** Computed as by the adapters' `deliveryGas`: receipts and proofs, each byte of the envelope, and a twelfth for nested calls. */
const RECEIPT_GAS = 250_000n;
const GAS_PER_BYTE = 16n;
const DEPTH_SHARE = 12n;

/** Nodes' wordings of an error for a call that needs more gas than they allow. */
const TOO_MUCH_GAS = /gas required exceeds|out of ?gas|intrinsic gas|exceeds block gas limit|gas limit too high/i;

/**
 * Checks that a relayer can deliver the message, by estimating the call to its recipient. A recipient that currently rejects
 * the call, or a node that does not answer, proves nothing and does not stop the message.
 *
 * @throws {@link DeliveryGasError} if the delivery needs more gas than `limit`.
 */
export async function checkDeliveryGas(destination: ChainReader, message: Message, limit: bigint): Promise<void> {
  const sender = formatInteroperable({ chainId: message.sourceChain, address: fromWord(message.sender) });
  const args = [messageId(message), sender, message.payload] as const;
  const call = {
    to: fromWord(message.recipient),
    data: encodeFunctionData({ abi: inboxAbi, functionName: "receiveMessage", args }),
    value: 0n,
  };
  let recipient: bigint;
  try {
    recipient = await destination.estimateGas(destination.deployment.router, call);
  } catch (error) {
    const { details } = error as { readonly details?: unknown };
    if (TOO_MUCH_GAS.test(`${reasonOf(error)} ${String(details ?? "")}`)) throw new DeliveryGasError(undefined, limit);
    return;
  }
  const executed = recipient > message.gasLimit ? recipient : message.gasLimit;
  const length = BigInt(HEADER_LENGTH + (message.payload.length - 2) / 2);
  const gas = executed + executed / DEPTH_SHARE + RECEIPT_GAS + GAS_PER_BYTE * length;
  if (gas > limit) throw new DeliveryGasError(gas, limit);
}

/**
 * Checks that a retry can still have an effect. A destination that does not answer does not stop the retry, because retries
 * are made during outages.
 *
 * @throws {@link NothingToRetryError} if the message has ended there.
 */
export async function refuseEnded(destination: ChainReader, message: Message): Promise<void> {
  const id = messageId(message);
  const found = await destination.read("receiptsOf", [id]).catch(() => undefined);
  if (found && found[1] !== 0) throw new NothingToRetryError(id, destination.name, found[1] === 1);
}
