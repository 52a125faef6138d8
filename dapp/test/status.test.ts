/** A message followed by its id, as the element and the hook do it. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { stringToHex } from "viem";

import { localWallet, type RetryOptions, Waybill } from "@waybill/dapp";
import { FollowedMessage, type MessageStatus } from "../src/status.ts";
import { TestNetwork, USER } from "./network.ts";
import { startRpcProxy } from "./rpc-proxy.ts";

let network: TestNetwork;
let waybill: Waybill;

before(async () => {
  network = await TestNetwork.start();
  waybill = new Waybill(network.deployment(), { wallet: localWallet(USER), pollingInterval: 20 });
});
after(() => network?.stop());

const send = () =>
  waybill.route({ source: "alpha", destination: "beta", recipient: network.beta.inbox, payload: stringToHex("hi"), gmps: ["hyperlane", "axelar"] });

/** Follows an id, and tells when its status is as wanted. */
function follow(id: string, by = waybill) {
  const ending = new AbortController();
  const signal = AbortSignal.any([ending.signal, AbortSignal.timeout(20_000)]);
  const statuses: MessageStatus[] = [];
  let changed = (): void => undefined;
  const followed = new FollowedMessage(by, id, (status) => {
    statuses.push(status);
    changed();
  });
  const done = followed.follow({ signal, stallAfter: 60, pollingInterval: 20 });
  const when = async (wanted: (status: MessageStatus) => boolean): Promise<MessageStatus> => {
    for (;;) {
      const status = statuses.at(-1);
      if (status && wanted(status)) return status;
      assert.ok(!signal.aborted, `never so; last: ${JSON.stringify(status, (_, value) => (typeof value === "bigint" ? String(value) : value))}`);
      await new Promise<void>((resolve) => (changed = resolve));
    }
  };
  return { statuses, done, when, end: () => ending.abort(), retry: (options?: RetryOptions) => followed.retry(async () => by, options) };
}

test("a stalled message is retried over as many GMPs as it lacks, once, until the retry is seen", async () => {
  const { id, message } = await send();
  const { when, retry, done } = follow(id);
  assert.deepEqual((await when(({ progress }) => progress?.state === "ROUTED")).retryOver, []);
  assert.equal(await retry(), undefined, "nothing is to be retried yet");
  await when(({ error }) => /can't be retried now$/.test(error?.message ?? ""));
  await network.deliver(message, "hyperlane");
  await network.pass(61);
  const stalled = await when(({ progress }) => progress?.state === "STALLED");
  assert.deepEqual(stalled.retryOver, ["wormhole"]);

  assert.equal(await retry({ maxFee: -1n }), undefined);
  await when(({ error, isRetrying }) => /above the limit/.test(error?.message ?? "") && !isRetrying);
  const [sent, second] = await Promise.all([retry(), retry()]);
  assert.equal(sent!.attempt, 1);
  assert.equal(second, undefined, "pressed twice, sent once");
  await when(({ progress }) => progress?.attempt === 1);
  await network.deliver(message, "wormhole");
  await when(({ progress }) => progress?.state === "EXECUTED");
  await network.pass(1);
  await done;
});

test("after a retry nothing is offered until its attempt is seen", async () => {
  const { id } = await send();
  const { when, statuses, end, retry, done } = follow(id);
  await network.pass(61);
  await when(({ retryOver }) => retryOver.length === 2);
  await retry();
  const sent = statuses.length;
  await when(({ progress }) => progress?.attempt === 1);
  assert.ok(statuses.slice(sent - 1).every(({ retryOver }) => retryOver.length === 0));
  end();
  await done;
});

test("what is no id is an error and asks no chain", async () => {
  const proxy = await startRpcProxy(network.alpha.anvil.url);
  try {
    for (const id of ["", "0x12", "hello", `0x${"g".repeat(64)}`]) {
      const { statuses, done } = follow(id, new Waybill(network.deployment({ alpha: proxy.url })));
      await done;
      assert.equal(statuses.at(-1)?.error?.message, `message id ${JSON.stringify(id)} is not 0x and 64 hex digits`);
    }
    assert.deepEqual(proxy.methods, []);
  } finally {
    await proxy.stop();
  }
});

test("an id that no chain knows, and a chain that is down, are said; the message is shown once it is there", async () => {
  const { id } = await send();
  const proxy = await startRpcProxy(network.alpha.anvil.url);
  try {
    const by = new Waybill(network.deployment({ alpha: proxy.url }));
    const unknown = follow(`0x${"11".repeat(32)}`, by);
    await unknown.when(({ error }) => /^no chain has created a message 0x1111.*; searched: alpha, beta$/.test(error?.message ?? ""));
    unknown.end();
    await unknown.done;
    proxy.setDown(true);
    const { when, end, done } = follow(id, by);
    await when(({ error }) => error !== undefined);
    proxy.setDown(false);
    const found = await when(({ progress }) => progress !== undefined);
    assert.equal(found.error, undefined);
    end();
    await done;
  } finally {
    await proxy.stop();
  }
});

test("one that is ended asks no chain any more, be it searching or watching", async () => {
  const { id } = await send();
  const proxy = await startRpcProxy(network.alpha.anvil.url);
  const by = new Waybill(network.deployment({ alpha: proxy.url }));
  try {
    for (const wanted of [`0x${"22".repeat(32)}`, id]) {
      const { when, end, done, statuses } = follow(wanted, by);
      await when(({ progress, error }) => Boolean(progress ?? error));
      end();
      await done;
      const [asked, shown] = [proxy.methods.length, statuses.length];
      await new Promise((resolve) => setTimeout(resolve, 300));
      assert.deepEqual([proxy.methods.length, statuses.length], [asked, shown]);
    }
    // A search of many ranges ends between two of them.
    await network.alpha.client.mine({ blocks: 500 });
    proxy.limitLogRange(10);
    const searches = (): number => proxy.methods.filter((method) => method === "eth_getLogs").length;
    const before = searches();
    const { end, done } = follow(`0x${"44".repeat(32)}`, new Waybill(network.deployment({ alpha: proxy.url })));
    proxy.meanwhile(async () => void (searches() >= before + 30 && end()));
    await done;
    assert.equal(searches(), before + 30);
  } finally {
    await proxy.stop();
  }
});
