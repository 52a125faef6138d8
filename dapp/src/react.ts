/** `useWaybillMessage`: follows a message in React. */

import { useCallback, useEffect, useMemo, useRef, useState } from "react";

import type { Deployment } from "./deployment.ts";
import type { RetryOptions, Sent } from "./sending.ts";
import { FollowedMessage, LOOKING, type MessageStatus } from "./status.ts";
import type { Wallet } from "./wallets.ts";
import { Waybill } from "./waybill.ts";

export type { MessageStatus } from "./status.ts";

/** The network, or a `Waybill` for it. Pass the same objects on every render: a new object restarts the hook. */
export type UseMessageOptions = (
  | { readonly deployment: Deployment; readonly wallet?: Wallet | undefined; readonly client?: never }
  | { readonly client: Waybill; readonly deployment?: never; readonly wallet?: never }
) & {
  /** Seconds after its last attempt from which a message without its quorum is stalled. */
  readonly stallAfter?: number;
};

/** A message's status, and a function that retries it. */
export interface UsedMessage extends MessageStatus {
  /** Retries over `retryOver`; needs a wallet. Undefined if it was not sent: `error` says why. */
  retry(options?: RetryOptions): Promise<Sent | undefined>;
}

/**
 * Follows the message with that id while the component is mounted.
 *
 * @param id undefined follows nothing, as before a message is sent.
 * @example
 * const { progress, error, retryOver, retry } = useWaybillMessage(id, { deployment, wallet });
 */
export function useWaybillMessage(id: string | undefined, options: UseMessageOptions): UsedMessage {
  const { client, deployment, wallet, stallAfter } = options;
  const waybill = useMemo(() => client ?? new Waybill(deployment), [client, deployment]);
  const followed = useRef<FollowedMessage>(undefined);
  const [shown, setShown] = useState<{ readonly of?: Waybill; readonly id?: string; readonly status: MessageStatus }>({ status: LOOKING });

  useEffect(() => {
    if (id === undefined) return undefined;
    const ending = new AbortController();
    const { signal } = ending;
    followed.current = new FollowedMessage(waybill, id, (status) => signal.aborted || setShown({ of: waybill, id, status }));
    void followed.current.follow({ signal, ...(stallAfter !== undefined && { stallAfter }) });
    return () => {
      followed.current = undefined;
      ending.abort();
    };
  }, [waybill, id, stallAfter]);

  const retry = useCallback(
    async (retryOptions?: RetryOptions) => {
      const signer = async (): Promise<Waybill> => client ?? new Waybill(deployment!, wallet && { wallet });
      return followed.current?.retry(signer, retryOptions);
    },
    [client, deployment, wallet],
  );
  const isCurrent = shown.of === waybill && shown.id === id;
  return { ...(isCurrent ? shown.status : LOOKING), retry };
}
