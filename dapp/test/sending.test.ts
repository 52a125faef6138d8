import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { setTimeout } from "node:timers/promises";

import { type Address, createPublicClient, createWalletClient, type Hex, http, parseEther, stringToHex, type Transaction } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";

import {
  DEFAULT_TTL,
  DeliveryGasError,
  Deployment,
  FeeCapError,
  inboxAbi,
  Kind,
  localWallet,
  NothingToRetryError,
  parseInteroperable,
  RefusedError,
  RELAYER_MAX_GAS,
  type RouteRequest,
  WalletError,
  walletOf,
  Waybill,
  WaybillError,
} from "@waybill/dapp";
import { STRANGER, TEST_GMPS, TestNetwork, USER } from "./network.ts";
import { startRpcProxy } from "./rpc-proxy.ts";

let network: TestNetwork;
let waybill: Waybill;

before(async () => {
  network = await TestNetwork.start();
  waybill = new Waybill(network.deployment(), { wallet: localWallet(USER), pollingInterval: 20 });
});
after(() => network?.stop());
beforeEach(async () => {
  await network.alpha.client.setAutomine(true);
  for (const gmp of TEST_GMPS) {
    await network.setFee(gmp, 0n);
    await network.setBroken(gmp, false);
  }
  await network.setClosed(false);
});

function request(changes: Partial<RouteRequest> = {}): RouteRequest {
  const base = { source: "alpha", destination: "beta", recipient: network.beta.inbox, payload: stringToHex("hello") };
  return { ...base, gmps: ["hyperlane", "axelar"], ...changes };
}

async function refusal(name: string, attempt: Promise<unknown>): Promise<RefusedError> {
  const error: unknown = await attempt.then(() => undefined, (reason: unknown) => reason);
  assert.ok(error instanceof RefusedError, `expected ${name}, got ${error}`);
  assert.equal(error.revert?.name, name, error.message);
  return error;
}

test("a message is routed with what was asked, and arrives with its sender's ERC-7930 address", async () => {
  const sent = await waybill.route(request({ gasLimit: 150_000n, ttl: 3600, quorum: 1 }));
  assert.equal(sent.attempt, 0);
  assert.deepEqual([...sent.gmps], ["hyperlane", "axelar"]);
  assert.equal(sent.failed.size, 0);
  const { gasLimit, ttl, quorum, payload } = sent.message;
  assert.deepEqual({ gasLimit, ttl, quorum, payload }, { gasLimit: 150_000n, ttl: 3600, quorum: 1, payload: stringToHex("hello") });

  await network.deliver(sent.message, "hyperlane");
  const [arrival] = await network.beta.client.getContractEvents({
    address: network.beta.inbox,
    abi: inboxAbi,
    eventName: "Received",
    args: { messageId: sent.id },
    fromBlock: 0n,
  });
  assert.equal(arrival?.args.payload, stringToHex("hello"));
  assert.deepEqual(parseInteroperable(arrival.args.sender!), { chainId: 31337n, address: USER.address });
});

test("two messages with the same content have different ids", async () => {
  const [first, second] = [await waybill.route(request()), await waybill.route(request())];
  assert.notEqual(first.id, second.id);
  assert.equal(second.message.nonce, first.message.nonce + 1n);
});

test("fees are quoted per GMP and in total, without a wallet, and exactly that is paid", async () => {
  await network.setFee("hyperlane", 7n);
  await network.setFee("axelar", 5n);
  const quote = await new Waybill(network.deployment()).quoteRoute(request());
  assert.deepEqual([...quote.fees].sort(), [["axelar", 5n], ["hyperlane", 7n]]);
  assert.equal(quote.total, 12n);

  const before = await network.alpha.client.getBalance({ address: USER.address });
  const sent = await waybill.route(request());
  const gas = sent.receipt.gasUsed * sent.receipt.effectiveGasPrice;
  assert.equal(sent.fee, 12n);
  assert.equal(await network.alpha.client.getBalance({ address: USER.address }), before - 12n - gas);
});

test("a message dearer than its limit is not sent, and the error says what it would cost", async () => {
  await network.setFee("axelar", parseEther("1"));
  const nonce = await network.alpha.client.getTransactionCount({ address: USER.address });
  await assert.rejects(waybill.route(request({ maxFee: 5n })), (error) => {
    assert.ok(error instanceof FeeCapError);
    assert.deepEqual([error.fee, error.maxFee], [parseEther("1"), 5n]);
    return true;
  });
  assert.equal(await network.alpha.client.getTransactionCount({ address: USER.address }), nonce);
});

test("a GMP that does not take the message is named with its reason, and the others take it", async () => {
  await network.setBroken("axelar", true);
  const sent = await waybill.route(request({ quorum: 1, minDispatched: 1 }));
  assert.deepEqual([...sent.gmps], ["hyperlane"]);
  assert.match(sent.failed.get("axelar")!, /^reverted with 0x|Broken/);
});

test("a GMP that is not connected gives no quote, and the refusal says which and why", async () => {
  const peerless = JSON.parse(network.file()) as { chains: { chainId: number }[] };
  peerless.chains[1]!.chainId = 424242;
  const elsewhere = new Waybill(Deployment.parse(JSON.stringify(peerless)), { wallet: localWallet(USER) });
  const quote = await elsewhere.quoteRoute(request({ gmps: ["axelar"] }));
  assert.equal(quote.fees.size, 0);
  assert.match(quote.refused.get("axelar")!.message, /^axelar on alpha has no quote: .*NotConnected\(chain=424242/);
  await assert.rejects(elsewhere.route(request({ gmps: ["axelar"] })), /axelar on alpha has no quote: .*NotConnected\(chain=424242/);
});

test("what the router refuses is refused before anything is sent, with the rule and what to do", async () => {
  const error = await refusal("InvalidQuorum", waybill.route(request({ quorum: 3 })));
  assert.equal(
    error.message,
    "the router on alpha refuses route: InvalidQuorum(quorum=3, gmps=2); a quorum is at least 1 and at most the number of GMPs named",
  );
  const twice = await refusal("DuplicateGmp", waybill.route(request({ gmps: ["axelar", "axelar"] })));
  assert.match(twice.message, /DuplicateGmp\(gmp=axelar\); name each GMP once/);
});

test("a GMP without an adapter and a chain that is not there are errors that say what is", async () => {
  await assert.rejects(waybill.route(request({ gmps: ["ccip"] })), /chain alpha has no adapter for ccip; it has hyperlane, axelar, wormhole/);
  await assert.rejects(waybill.route(request({ destination: "gamma" })), /no chain gamma; its chains are alpha \(31337\), beta \(31338\)/);
});

test("a block is seen whatever the kit is asking when it comes, and though no other follows", { timeout: 300_000 }, async () => {
  const proxy = await startRpcProxy(network.alpha.anvil.url);
  const sender = new Waybill(network.deployment({ alpha: proxy.url }), { wallet: localWallet(USER), pollingInterval: 20 });
  try {
    await network.alpha.client.setAutomine(false);
    for (let moment = 1; moment <= 6; moment += 1) {
      let answers = Number.NEGATIVE_INFINITY;
      proxy.meanwhile(async (method) => {
        if (method === "eth_sendRawTransaction") answers = 0;
        else if (++answers === moment) await network.alpha.client.mine({ blocks: 1 }).then(() => setTimeout(100));
      });
      assert.equal((await sender.route(request())).receipt.status, "success");
    }
  } finally {
    await proxy.stop();
  }
});

test("a transaction that its wallet speeds up is followed, and one that it cancels is an error that says so", { timeout: 300_000 }, async (t) => {
  const { client } = network.alpha;
  const proxy = await startRpcProxy(network.alpha.anvil.url);
  t.after(() => proxy.stop());
  const sender = new Waybill(network.deployment({ alpha: proxy.url }), { wallet: localWallet(USER), pollingInterval: 20 });
  await client.setAutomine(false);
  const replacing = async (change: { to?: Address; data?: Hex; value?: bigint }) => {
    const looked = new Promise<void>((resolve) => proxy.meanwhile(async (method) => method === "eth_getTransactionByHash" && resolve()));
    const sending = sender.route(request());
    sending.catch(() => undefined); // until it is looked at below
    await looked;
    const { hash, to, input, value, nonce, gas, maxFeePerGas } = await pendingOf(USER.address);
    const same = { account: USER, to, data: input, value, nonce, gas, gasPrice: 2n * maxFeePerGas! };
    const replacement = await client.sendTransaction({ ...same, ...change });
    await client.mine({ blocks: 1 });
    return { sending, hash, replacement };
  };
  const { sending, replacement } = await replacing({});
  assert.equal((await sending).receipt.transactionHash, replacement);
  const cancelled = await replacing({ to: USER.address, data: "0x", value: 0n });
  const what = `transaction ${cancelled.hash} on alpha was replaced: the wallet sent ${cancelled.replacement} instead; try again`;
  await assert.rejects(cancelled.sending, (error: Error) => error instanceof WalletError && error.message === what);
});

test("a chain that can't be read after a transaction was sent is asked again", { timeout: 300_000 }, async (t) => {
  const proxy = await startRpcProxy(network.alpha.anvil.url);
  t.after(() => proxy.stop());
  const sender = new Waybill(network.deployment({ alpha: proxy.url }), { wallet: localWallet(USER), pollingInterval: 20 });
  proxy.meanwhile(async (method) => {
    if (method === "eth_sendRawTransaction") proxy.setDown(true);
  });
  const sending = sender.route(request());
  const watching = setInterval(() => proxy.refusals >= 8 && proxy.setDown(false), 20); // viem itself asks four times
  t.after(() => clearInterval(watching));
  assert.equal((await sending).receipt.status, "success");
  assert.ok(proxy.refusals >= 8);
});

test("nothing is sent without a wallet, and the error says how to give one", async () => {
  const reader = new Waybill(network.deployment());
  await assert.rejects(reader.route(request()), (error) => error instanceof WalletError && /new Waybill\(deployment, \{ wallet \}\)/.test(error.message));
});

test("retries are numbered, quoted and paid, and a message is executed once whatever is delivered", async () => {
  const sent = await waybill.route(request({ gmps: ["hyperlane"] }));
  await network.setFee("wormhole", 9n);
  assert.equal((await waybill.quoteRetry(sent.message, ["wormhole"])).total, 9n);
  const first = await waybill.retryRoute(sent.message, ["wormhole"]);
  const second = await waybill.retryRoute(sent.message, ["axelar", "wormhole"]);
  assert.deepEqual([first.id, first.attempt, first.fee], [sent.id, 1, 9n]);
  assert.deepEqual([second.attempt, [...second.gmps]], [2, ["axelar", "wormhole"]]);
  for (const gmp of TEST_GMPS) await network.deliver(sent.message, gmp);
  const times = await network.beta.client.readContract({ address: network.beta.inbox, abi: inboxAbi, functionName: "timesReceived", args: [sent.id] });
  assert.equal(times, 1n);
});

test("a retry by somebody else, of a changed message, or of one that can't be retried is refused by name", async () => {
  const sent = await waybill.route(request());
  const stranger = new Waybill(network.deployment(), { wallet: localWallet(STRANGER) });
  const error = await refusal("NotSenderOrRetrier", stranger.retryRoute(sent.message, ["wormhole"]));
  assert.equal(error.revert?.values.sender, USER.address);
  await refusal("NotRetriable", waybill.retryRoute({ ...sent.message, payload: "0x01" }, ["wormhole"]));
  const once = await waybill.route(request({ retriable: false }));
  await refusal("NotRetriable", waybill.retryRoute(once.message, ["wormhole"]));
});

test("execute is refused below the quorum, runs once the recipient accepts, and is refused after", async () => {
  const sent = await waybill.route(request({ gmps: ["hyperlane"] }));
  await refusal("QuorumNotReached", waybill.execute(sent.message));
  await network.setClosed(true);
  await network.deliver(sent.message, "hyperlane");
  const refused = await refusal("ExecutionReverted", waybill.execute(sent.message));
  assert.match(refused.message, /reason=Closed\(\)\); make the recipient accept it/);
  await network.setClosed(false);
  assert.equal((await waybill.execute(sent.message)).status, "success");
  await refusal("AlreadyExecuted", waybill.execute(sent.message));
});

test("a sender cancels a message for the fee quoted, its destination ends it, and the source is told", async () => {
  await network.setFee("axelar", 700n);
  const { id, message } = await waybill.route(request({ gmps: ["hyperlane"] }));
  const { total } = await waybill.quoteCancel(message, ["axelar"]);
  const cancellation = await waybill.cancel(message, ["axelar"], { maxFee: total });
  assert.equal(total, 700n);
  assert.equal(cancellation.fee, 700n);
  assert.equal(cancellation.message.kind, Kind.CANCELLATION);
  assert.equal(cancellation.message.replaces, id);
  await refusal("AlreadyCancelled", waybill.retryRoute(message, ["axelar"]));
  await network.deliver(cancellation.message, "axelar");
  const report = await waybill.report(message, ["wormhole"]);
  assert.equal(report.message.kind, Kind.REPORT);
  assert.equal(report.message.replaces, id);
  assert.equal(Number(report.message.destinationChain), network.alpha.id);
  await network.deliver(report.message, "wormhole");
  const stranger = new Waybill(network.deployment(), { wallet: localWallet(STRANGER) });
  const other = await waybill.route(request());
  await refusal("NotSender", stranger.cancel(other.message, ["axelar"]));
  await refusal("NothingToReport", stranger.report(other.message, ["axelar"]));
});

test("a retry after execution is refused before it costs anything, and sent if that is meant", async () => {
  await network.setFee("wormhole", 9n);
  const sent = await waybill.route(request({ gmps: ["hyperlane"] }));
  await network.deliver(sent.message, "hyperlane");
  const nonce = await network.alpha.client.getTransactionCount({ address: USER.address });
  await assert.rejects(waybill.retryRoute(sent.message, ["wormhole"]), (error) => {
    assert.ok(error instanceof NothingToRetryError);
    assert.match(error.message, /was executed on beta: a retry would cost a fee and change nothing/);
    return true;
  });
  assert.equal(await network.alpha.client.getTransactionCount({ address: USER.address }), nonce);
  assert.equal((await waybill.retryRoute(sent.message, ["wormhole"], { evenIfEnded: true })).fee, 9n);
  // A destination that does not answer keeps nobody from retrying.
  const blind = new Waybill(network.deployment({ beta: "http://127.0.0.1:1" }), { wallet: localWallet(USER), pollingInterval: 20 });
  assert.equal((await blind.retryRoute(sent.message, ["wormhole"])).attempt, 2);
});

test("a payload whose delivery needs more gas than relayers give is refused with figures, before it is paid for", async () => {
  const payload: Hex = `0x${"77".repeat(30_000)}`; // the inbox keeps it: 22,100 gas for each 32 bytes
  await assert.rejects(waybill.route(request({ payload })), (error) => {
    assert.ok(error instanceof DeliveryGasError);
    assert.equal(error.limit, RELAYER_MAX_GAS);
    assert.ok(error.gas! > 20_000_000n && error.gas! < 30_000_000n, String(error.gas));
    assert.match(error.message, /the delivery needs about \d+ gas, above the 16000000 that relayers give a transaction/);
    return true;
  });
  // A relayer's operator may have set another limit.
  await assert.rejects(waybill.route(request({ maxDeliveryGas: 300_000n })), /needs about 4\d{5} gas, above the 300000/);
  assert.equal((await waybill.route(request({ maxDeliveryGas: 600_000n }))).attempt, 0);
  // What its recipient refuses today may be accepted later.
  await network.setClosed(true);
  assert.equal((await waybill.route(request({ maxDeliveryGas: 300_000n }))).attempt, 0);
});

test("a dApp's own clients of viem are what the kit reads and signs with", async () => {
  const asked: string[] = [];
  const counted = http(network.alpha.anvil.url, { onFetchRequest: (_request, { body }) => void asked.push(String(body)) });
  const wallet = createWalletClient({ account: USER, transport: counted });
  const reader = createPublicClient({ transport: counted });
  // The file's URL for alpha leads nowhere, so that the clients alone can have done it.
  const deployment = network.deployment({ alpha: "http://127.0.0.1:1" });
  const clients = (chainId: number) => (chainId === network.alpha.id ? reader : undefined);
  const own = new Waybill(deployment, { wallet: walletOf(wallet), clients, pollingInterval: 20 });
  const sent = await own.route(request());
  assert.equal((await own.find(sent.id)).id, sent.id);
  assert.ok(asked.some((body) => body.includes("eth_sendRawTransaction")) && asked.some((body) => body.includes("eth_getLogs")));
  // On another chain than its transport's, the same account signs over the file's URL.
  await network.deliver(sent.message, "hyperlane");
  await network.setClosed(true);
  await network.deliver(sent.message, "axelar");
  await network.setClosed(false);
  assert.equal((await own.execute(sent.message)).status, "success");
  assert.throws(() => walletOf(createWalletClient({ transport: counted })), /has no account; create it with an account/);
});

test("a wallet client whose keys are elsewhere signs through its own requests", async () => {
  const wallet = createWalletClient({ account: USER.address, transport: http(network.alpha.anvil.url) });
  const own = new Waybill(network.deployment(), { wallet: walletOf(wallet), pollingInterval: 20 });
  assert.equal((await own.route(request())).receipt.from, USER.address.toLowerCase());
});

/** The transaction of an account that waits for a block on alpha. */
async function pendingOf(account: Address): Promise<Transaction> {
  for (;;) {
    const { pending } = await network.alpha.client.getTxpoolContent();
    const [hash] = Object.values(pending[account.toLowerCase() as Address] ?? {}).map((transaction) => transaction.hash);
    if (hash) return network.alpha.client.getTransaction({ hash });
    await setTimeout(10);
  }
}

test("what is no hex is named, with the way to make it hex, before anything is asked or sent", async () => {
  for (const payload of ["hello", "0xabc", "0xzz", 7, undefined, null]) {
    const wrong = request({ payload: payload as unknown as Hex });
    for (const attempt of [waybill.quoteRoute(wrong), waybill.route(wrong)]) {
      await assert.rejects(attempt, (error: unknown) => {
        assert.ok(error instanceof WaybillError);
        return /^payload ".*" is not 0x and pairs of hex digits; stringToHex\(text\) converts text$/.test(error.message);
      });
    }
  }
  await assert.rejects(waybill.route(request({ replaces: "0x12" })), /^WaybillError: replaces "0x12" is not 0x and 64 hex digits$/);
});

test("a message of each kind is routed without a ttl, and lives as long as its kind should", async () => {
  for (const kind of Object.values(Kind).filter((one) => one < Kind.CANCELLATION)) {
    const sent = await waybill.route(request({ kind, gmps: ["hyperlane"] }));
    assert.equal(sent.message.ttl, DEFAULT_TTL[kind]);
  }
});

test("an account that can't pay is told so in words, before it signs", async () => {
  await network.setFee("hyperlane", 5n);
  const poor = new Waybill(network.deployment(), { wallet: localWallet(privateKeyToAccount(generatePrivateKey())), pollingInterval: 20 });
  await assert.rejects(poor.route(request({ gmps: ["hyperlane"] })), /exceeds the balance of the account/);
});
