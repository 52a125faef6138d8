import assert from "node:assert/strict";
import { test } from "node:test";

import type { EIP1193Provider } from "viem";

import { connectWallet, type ChainDeployment, WalletError } from "@waybill/dapp";

const ADDRESS = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
const CHAIN: ChainDeployment = {
  chainId: 31338,
  name: "beta",
  rpcUrls: ["http://127.0.0.1:1"],
  startBlock: 0,
  confirmations: 1,
  router: ADDRESS,
  adapters: {},
  examples: {},
};

class ProviderError extends Error {
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/** A wallet that is on chain 1 at first. */
function wallet(behaviour: { declines?: string; knows?: readonly number[]; stays?: boolean; accounts?: readonly string[] } = {}) {
  const asked: string[] = [];
  const known = new Set([1, ...(behaviour.knows ?? [])]);
  let chain = 1;
  const request = async ({ method, params }: { method: string; params?: readonly [{ chainId: string }] }): Promise<unknown> => {
    asked.push(method);
    if (method === behaviour.declines) throw new ProviderError(4001, "User rejected the request.");
    if (method === "eth_requestAccounts") return behaviour.accounts ?? [ADDRESS.toLowerCase()];
    if (method === "eth_chainId") return `0x${chain.toString(16)}`;
    if (method === "wallet_addEthereumChain") return known.add(Number(params![0].chainId)) && null;
    if (method === "wallet_switchEthereumChain") {
      if (!known.has(Number(params![0].chainId))) throw new ProviderError(4902, "Unrecognized chain ID");
      if (!behaviour.stays) chain = Number(params![0].chainId);
      return null;
    }
    if (method === "eth_sendTransaction") throw new ProviderError(-32603, "no answer from the device");
    throw new ProviderError(4200, `not expected here: ${method}`);
  };
  return { asked, provider: { request } as unknown as EIP1193Provider };
}

test("a wallet is asked for its account, which comes out checksummed", async () => {
  assert.equal((await connectWallet(wallet().provider)).address, ADDRESS);
});

test("a person who declines to connect is told that nothing was sent", async () => {
  const { provider } = wallet({ declines: "eth_requestAccounts" });
  await assert.rejects(connectWallet(provider), new WalletError("declined in the wallet: connect; nothing was sent"));
});

test("a wallet that shows no account is an error that says what to do", async () => {
  await assert.rejects(connectWallet(wallet({ accounts: [] }).provider), /unlock it, allow access to an account, and connect again/);
});

test("a wallet on another chain is switched over, and not when it is there already", async () => {
  const { provider, asked } = wallet({ knows: [31338] });
  const connected = await connectWallet(provider);
  await connected.on(CHAIN);
  assert.deepEqual(asked.filter((method) => method.startsWith("wallet_")), ["wallet_switchEthereumChain"]);
  await connected.on(CHAIN);
  assert.equal(asked.filter((method) => method.startsWith("wallet_")).length, 1);
});

test("a chain that the wallet does not know is added first", async () => {
  const { provider, asked } = wallet();
  await (await connectWallet(provider)).on(CHAIN);
  const steps = ["wallet_switchEthereumChain", "wallet_addEthereumChain", "wallet_switchEthereumChain"];
  assert.deepEqual(asked.filter((method) => method.startsWith("wallet_")), steps);
});

test("a person who declines to switch, and a wallet that does not switch, are errors that name the chain", async () => {
  const declining = await connectWallet(wallet({ declines: "wallet_switchEthereumChain" }).provider);
  await assert.rejects(declining.on(CHAIN), new WalletError("declined in the wallet: switch to beta (31338); nothing was sent"));
  const staying = await connectWallet(wallet({ knows: [31338], stays: true }).provider);
  await assert.rejects(staying.on(CHAIN), /could not switch to beta \(31338\): the wallet stays on chain 1; switch it manually/);
});

test("a wallet that fails while it sends is not asked again: it may have sent", async () => {
  const { provider, asked } = wallet({ knows: [31338] });
  const client = await (await connectWallet(provider)).on(CHAIN);
  await assert.rejects(client.send({ to: ADDRESS, data: "0x", value: 1n, gas: 21_000n }), /no answer from the device/);
  assert.equal(asked.filter((method) => method === "eth_sendTransaction").length, 1);
});
