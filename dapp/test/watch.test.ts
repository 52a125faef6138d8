import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";

import { stringToHex } from "viem";

import { localWallet, type Progress, type RouteRequest, type Sent, Waybill, type WatchOptions } from "@waybill/dapp";
import { TEST_GMPS, TestNetwork, USER } from "./network.ts";
import { startRpcProxy } from "./rpc-proxy.ts";

let network: TestNetwork;
let waybill: Waybill;

before(async () => {
  network = await TestNetwork.start();
  waybill = new Waybill(network.deployment(), { wallet: localWallet(USER), pollingInterval: 20 });
});
after(() => network?.stop());
beforeEach(async () => {
  for (const gmp of TEST_GMPS) await network.setBroken(gmp, false);
  await network.setClosed(false);
});

async function send(changes: Partial<RouteRequest> = {}): Promise<Sent> {
  const base = { source: "alpha", destination: "beta", recipient: network.beta.inbox, payload: stringToHex("hello") };
  return waybill.route({ ...base, gmps: ["hyperlane", "axelar"], ...changes });
}

/** Follows a message, reacting to each state, and returns every progress until the end or the last state asked for. */
async function follow(
  sent: Sent,
  reactions: Readonly<Record<string, () => unknown>>,
  options: WatchOptions & { until?: string; by?: Waybill } = {},
): Promise<Progress[]> {
  const steps: Progress[] = [];
  const signal = AbortSignal.timeout(20_000);
  for await (const progress of (options.by ?? waybill).watch(sent.message, { signal, ...options })) {
    steps.push(progress);
    if (progress.final || progress.state === options.until) break;
    await reactions[`${progress.state} ${progress.receipts}`]?.();
  }
  assert.ok(!signal.aborted, `still ${steps.at(-1)?.state} after 20 s: ${steps.at(-1)?.reason}`);
  return steps;
}

const settle = (): Promise<void> => network.pass(1);

test("a message is followed from routed over each receipt to executed and confirmed", async () => {
  const sent = await send();
  const steps = await follow(sent, {
    "ROUTED 0": () => network.deliver(sent.message, "axelar"),
    "RECEIVED 1": () => network.deliver(sent.message, "hyperlane"),
    "EXECUTED 2": settle,
  });
  assert.deepEqual(steps.map(({ state, receipts, final }) => `${state} ${receipts} ${final}`), [
    "ROUTED 0 false",
    "RECEIVED 1 false",
    "EXECUTED 2 false",
    "EXECUTED 2 true",
  ]);
  assert.equal(steps[0]!.reason, "0 of 2 delivered; waiting for Hyperlane, Axelar");
  assert.equal(steps[1]!.reason, "1 of 2 delivered; waiting for Hyperlane");
  assert.deepEqual(steps.at(-1)!.timeline.map(({ type, chain }) => `${type} ${chain}`), [
    "routed alpha",
    "received beta",
    "received beta",
    "executed beta",
  ]);
  assert.ok(steps.at(-1)!.timeline.every(({ timestamp }) => timestamp !== undefined));
});

test("a late duplicate is shown with the GMP that delivered again", async () => {
  const sent = await send({ quorum: 1 });
  await network.deliver(sent.message, "axelar");
  await network.deliver(sent.message, "axelar");
  const last = (await follow(sent, { "EXECUTED 1": settle })).at(-1)!;
  assert.equal(last.gmps.find(({ gmp }) => gmp === "axelar")?.duplicates, 1);
  assert.equal(last.receipts, 1);
});

test("a message that is silent too long is stalled, names who is silent, and is executed after a retry", async () => {
  const sent = await send();
  await network.deliver(sent.message, "hyperlane");
  const steps = await follow(
    sent,
    {
      "RECEIVED 1": () => network.pass(4000),
      "STALLED 1": async () => {
        await waybill.retryRoute(sent.message, ["wormhole"]);
        await network.deliver(sent.message, "wormhole");
      },
      "EXECUTED 2": settle,
    },
    { stallAfter: 3600 },
  );
  const stalled = steps.find(({ state }) => state === "STALLED")!;
  assert.equal(stalled.reason, "1 of 2 delivered more than 3600 s after it was sent; no delivery from Axelar");
  assert.equal(stalled.action, "retry");
  assert.equal(steps.at(-1)!.state, "EXECUTED");
  assert.equal(steps.at(-1)!.attempt, 1);
  assert.deepEqual(steps.at(-1)!.gmps.find(({ gmp }) => gmp === "wormhole")?.attempts, [1]);
});

test("a message that too few GMPs took is stalled at once, with the reason of the one that refused", async () => {
  await network.setBroken("axelar", true);
  const sent = await send({ minDispatched: 1 });
  const [progress] = await follow(sent, {}, { until: "STALLED" });
  assert.equal(progress!.state, "STALLED");
  assert.equal(progress!.reason, "0 of 2 delivered, but only 1 accepted it");
  assert.match(progress!.gmps.find(({ gmp }) => gmp === "axelar")!.failure!, /reverted with 0x|Broken/);
});

test("a recipient that refuses is shown with its reason, and the message ends executed after execute", async () => {
  await network.setClosed(true);
  const sent = await send({ quorum: 1 });
  await network.deliver(sent.message, "axelar");
  const steps = await follow(sent, {
    "EXECUTION_FAILED 1": async () => {
      await network.setClosed(false);
      await waybill.execute(sent.message);
    },
    "EXECUTED 1": settle,
  });
  assert.equal(steps[0]!.state, "EXECUTION_FAILED");
  assert.equal(steps[0]!.reason, "the recipient refused: Closed()");
  assert.equal(steps[0]!.action, "execute");
  assert.equal(steps.at(-1)!.final, true);
});

test("a chain that does not answer makes a message unknown, never stalled, and the watch goes on when it is back", async () => {
  const proxy = await startRpcProxy(network.beta.anvil.url);
  try {
    const watcher = new Waybill(network.deployment({ beta: proxy.url }), { pollingInterval: 20 });
    const sent = await send({ quorum: 1 });
    const steps = await follow(
      sent,
      {
        "ROUTED 0": () => proxy.setDown(true),
        "UNKNOWN 0": async () => {
          await network.deliver(sent.message, "axelar");
          proxy.setDown(false);
        },
        "EXECUTED 1": settle,
      },
      { by: watcher, stallAfter: 3600 },
    );
    assert.deepEqual(steps.map(({ state }) => state), ["ROUTED", "UNKNOWN", "EXECUTED", "EXECUTED"]);
    assert.match(steps[1]!.reason, /^beta can't be read: HTTP request failed/);
    assert.match(steps[1]!.problems[0]!, /^beta does not answer/);
    assert.deepEqual(steps.at(-1)!.problems, []);
  } finally {
    await proxy.stop();
  }
});

test("a node that limits the range of its logs is asked for smaller ones", async () => {
  const proxy = await startRpcProxy(network.beta.anvil.url);
  try {
    proxy.limitLogRange(20);
    await network.beta.client.mine({ blocks: 100 });
    const sent = await send({ quorum: 1 });
    await network.deliver(sent.message, "axelar");
    await network.beta.client.mine({ blocks: 50 });
    const watcher = new Waybill(network.deployment({ beta: proxy.url }), { pollingInterval: 20 });
    const last = (await follow(sent, {}, { by: watcher })).at(-1)!;
    assert.equal(last.state, "EXECUTED");
    assert.equal(last.timeline.length, 3);
    assert.ok(proxy.methods.filter((method) => method === "eth_getLogs").length > 5);
  } finally {
    await proxy.stop();
  }
});

test("a message whose transaction is reorged away is orphaned, and names the message that comes back instead", async () => {
  const { client } = network.alpha;
  await client.mine({ blocks: 3 });
  const sent = await send();
  const { serialized, blockNumber } = await rawTransaction(sent);
  const steps = await follow(sent, {
    "ROUTED 0": () => client.request({ method: "anvil_rollback" as never, params: [1] as never }),
    "ORPHANED 0": async () => {
      await network.pass(5); // another time, so another id
      await client.sendRawTransaction({ serializedTransaction: serialized });
    },
  });
  assert.deepEqual(steps.map(({ state, final }) => `${state} ${final}`), ["ROUTED false", "ORPHANED false", "ORPHANED true"]);
  const replacement = await waybill.find(steps.at(-1)!.replacedBy!);
  assert.notEqual(replacement.id, sent.id);
  assert.equal(replacement.transactionHash, sent.receipt.transactionHash);
  assert.equal((await client.getTransactionReceipt({ hash: replacement.transactionHash })).blockNumber, blockNumber + 1n);
});

test("an execution that is reorged away is taken back", async () => {
  const sent = await send({ quorum: 1 });
  await network.deliver(sent.message, "axelar");
  const steps = await follow(sent, {
    "EXECUTED 1": () => network.beta.client.request({ method: "anvil_rollback" as never, params: [1] as never }),
  }, { until: "ROUTED" });
  assert.deepEqual(steps.map(({ state }) => state), ["EXECUTED", "ROUTED"]);
});

test("a message whose time runs out is expired, is marked by anyone, and a delivery after its end changes nothing", async () => {
  const sent = await send({ quorum: 1, ttl: 60 });
  await network.pass(90); // the time sent at is alpha's, the end is judged by beta's clock, which may be some seconds behind
  const steps = await follow(sent, {
    "EXPIRED 0": async () => {
      await waybill.expire(sent.message);
      await network.deliver(sent.message, "axelar");
    },
    "EXPIRED 1": settle,
  });
  assert.equal(steps[0]!.action, "expire");
  assert.equal(steps.at(-1)!.reason, "beta marked it expired");
  assert.equal(steps.at(-1)!.final, true);
  const types = steps.at(-1)!.timeline.map(({ type }) => type);
  assert.ok(types.includes("expired") && types.includes("lateReceipt") && !types.includes("executed"), types.join());
});

test("a message sent without its fee waits unfunded, is found, and arrives once somebody pays", async () => {
  const { found } = await network.sendUnfunded(stringToHex("on credit"), ["axelar"]);
  const sent = { message: found.message } as Sent;
  const steps = await follow(sent, {
    "UNFUNDED 0": async () => {
      await waybill.fund(found.message, [...found.gmps]);
      await network.deliver(found.message, "axelar");
    },
    "EXECUTED 1": settle,
  });
  assert.equal(steps[0]!.reason, "nobody has paid for it yet on alpha");
  assert.equal(steps[0]!.action, "fund");
  assert.equal(steps.at(-1)!.state, "EXECUTED");
});

test("a watch ends when its signal aborts, also in the middle of a pause", async () => {
  const sent = await send();
  const stop = new AbortController();
  const states: string[] = [];
  for await (const { state } of waybill.watch(sent.message, { signal: stop.signal, pollingInterval: 60_000 })) {
    states.push(state);
    setTimeout(() => stop.abort(), 10);
  }
  assert.deepEqual(states, ["ROUTED"]);
});

test("a message is found by its id, by the transaction that routed it and by the one that executed it", async () => {
  const sent = await send({ quorum: 1 });
  const delivery = await network.deliver(sent.message, "axelar");
  const byId = await waybill.find(sent.id);
  assert.deepEqual(byId.message, sent.message);
  assert.equal(byId.retriable, true);
  assert.deepEqual(await waybill.findByTransaction(sent.receipt.transactionHash), [byId]);
  assert.deepEqual(await waybill.findByTransaction(delivery), [byId]);
});

test("an id and a transaction that no chain knows, and a transaction without a message, are errors that say so", async () => {
  const nothing = `0x${"12".repeat(32)}` as const;
  await assert.rejects(waybill.find(nothing), /no chain has created a message 0x1212.*; searched: alpha, beta/);
  await assert.rejects(waybill.findByTransaction(nothing), /no chain has a transaction 0x1212.*; searched: alpha, beta/);
  const other = await network.alpha.client.sendTransaction({ to: USER.address, value: 1n });
  await network.alpha.client.waitForTransactionReceipt({ hash: other, checkReplacement: false });
  await assert.rejects(waybill.findByTransaction(other), /concerns no message/);
});

async function rawTransaction(sent: Sent): Promise<{ serialized: `0x${string}`; blockNumber: bigint }> {
  const hash = sent.receipt.transactionHash;
  const serialized = (await network.alpha.client.request({ method: "eth_getRawTransactionByHash" as never, params: [hash] as never })) as `0x${string}`;
  return { serialized, blockNumber: sent.receipt.blockNumber };
}
