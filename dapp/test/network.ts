/**
 * Two anvil chains with real routers, and GMPs between them that deliver when a test says so (contracts/testing). What the
 * compiler made is read from build/.
 */

import { existsSync, readFileSync } from "node:fs";

import {
  type Abi,
  type Address,
  createTestClient,
  type Hex,
  http,
  type PrivateKeyAccount,
  publicActions,
  type TransactionReceipt,
  walletActions,
} from "viem";
import { mnemonicToAccount, type HDAccount } from "viem/accounts";
import { foundry } from "viem/chains";

import {
  bitsFromGmps,
  Deployment,
  encodeEnvelope,
  formatInteroperable,
  type Found,
  type Gmp,
  GMP_NUMBERS,
  inboxAbi,
  type Message,
  profilesAbi,
  routerAbi,
  toWord,
  Waybill,
} from "@waybill/dapp";
import { type Anvil, startAnvil } from "./anvil.ts";

/** The GMPs of the test network. */
export const TEST_GMPS = ["hyperlane", "axelar", "wormhole"] as const satisfies readonly Gmp[];
type TestGmp = (typeof TEST_GMPS)[number];

const DELIVERY_GAS = 2_000_000n;

const MNEMONIC = "test test test test test test test test test test test junk";

/** The person who uses the dApp. */
export const USER = testAccount(1);
/** Somebody else. */
export const STRANGER = testAccount(2);
const OWNER = testAccount(0);

interface Artifact {
  readonly abi: Abi;
  readonly bytecode: Hex;
}

/** One chain of the test network. */
export interface TestChain {
  readonly name: string;
  readonly id: number;
  readonly client: ReturnType<typeof clientOf>;
  readonly anvil: Anvil;
  readonly router: Address;
  readonly inbox: Address;
  readonly networks: Readonly<Record<TestGmp, Address>>;
  readonly adapters: Readonly<Record<TestGmp, Address>>;
}

export class TestNetwork {
  readonly alpha: TestChain;
  readonly beta: TestChain;

  private constructor(alpha: TestChain, beta: TestChain) {
    this.alpha = alpha;
    this.beta = beta;
  }

  /** Starts and connects two chains. */
  static async start(): Promise<TestNetwork> {
    const anvils: Anvil[] = [];
    try {
      for (const id of [31337, 31338]) anvils.push(await startAnvil(id));
      const [alpha, beta] = await Promise.all([deploy("alpha", 31337, anvils[0]!), deploy("beta", 31338, anvils[1]!)]);
      await Promise.all([connect(alpha, beta), connect(beta, alpha)]);
      return new TestNetwork(alpha, beta);
    } catch (error) {
      await Promise.all(anvils.map((anvil) => anvil.stop())); // else they would keep the tests from ending
      throw error;
    }
  }

  async stop(): Promise<void> {
    await Promise.all([this.alpha.anvil.stop(), this.beta.anvil.stop()]);
  }

  /** The deployments file; other URLs may be given for chains by name. */
  file(urls: Readonly<Record<string, string>> = {}): string {
    const chains = [this.alpha, this.beta].map((chain) => ({
      chainId: chain.id,
      name: chain.name,
      rpcUrls: [urls[chain.name] ?? chain.anvil.url],
      startBlock: 0,
      confirmations: 1,
      router: chain.router,
      adapters: chain.adapters,
      gmps: gmpSections(chain),
      examples: { inbox: chain.inbox },
    }));
    return JSON.stringify({ version: 1, network: "test", chains });
  }

  deployment(urls?: Readonly<Record<string, string>>): Deployment {
    return Deployment.parse(this.file(urls), "the test network's file");
  }

  /** A GMP delivers a message, whether or not it took it. */
  async deliver(message: Message, gmp: TestGmp): Promise<Hex> {
    const [from, to] = Number(message.sourceChain) === this.alpha.id ? [this.alpha, this.beta] : [this.beta, this.alpha];
    const args = [message.sourceChain, toWord(from.adapters[gmp]), toWord(to.adapters[gmp]), encodeEnvelope(message)];
    // An estimate would find the least gas with which the delivery does not revert: too little for the recipient.
    return transact(to, to.networks[gmp], artifact("InMemoryGmp").abi, "deliver", args, DELIVERY_GAS);
  }

  /** Sets what a GMP asks for on alpha, in wei. */
  async setFee(gmp: TestGmp, fee: bigint): Promise<void> {
    await transact(this.alpha, this.alpha.networks[gmp], artifact("InMemoryGmp").abi, "setFee", [fee]);
  }

  /** Makes a GMP on alpha refuse messages, or take them again. */
  async setBroken(gmp: TestGmp, broken: boolean): Promise<void> {
    await transact(this.alpha, this.alpha.networks[gmp], artifact("InMemoryGmp").abi, "setBroken", [broken]);
  }

  /** Makes beta's inbox refuse messages, or accept them again. */
  async setClosed(closed: boolean): Promise<void> {
    await transact(this.beta, this.beta.inbox, inboxAbi, "setClosed", [closed]);
  }

  /** Pauses beta's lane from alpha for so many seconds. */
  async pause(seconds: bigint): Promise<void> {
    const { timestamp } = await this.beta.client.getBlock();
    await transact(this.beta, this.beta.router, routerAbi, "pauseLane", [BigInt(this.alpha.id), timestamp + seconds]);
  }

  /** Sends a message to beta's inbox without its fee, as an ERC-7786 sender does; its sender is not the tests' user. */
  async sendUnfunded(payload: Hex, gmps: readonly TestGmp[]): Promise<{ readonly hash: Hex; readonly found: Found }> {
    const { client, router } = this.alpha;
    const profiles = await client.readContract({ address: router, abi: routerAbi, functionName: "profiles" });
    const profile = { gmps: bitsFromGmps(gmps), quorum: gmps.length, gasLimit: 200_000n, ttl: 0, kind: 0, retriable: true, maxFeeGwei: 0 };
    await transact(this.alpha, profiles, profilesAbi, "setProfile", [BigInt(this.beta.id), profile]);
    const recipient = formatInteroperable({ chainId: BigInt(this.beta.id), address: this.beta.inbox });
    const hash = await transact(this.alpha, router, routerAbi, "sendMessage", [recipient, payload, []]);
    const [found] = await new Waybill(this.deployment()).findByTransaction(hash);
    return { hash, found: found! };
  }

  /** Lets time pass on both chains, in seconds, and gives each a block. */
  async pass(seconds: number): Promise<void> {
    for (const { client } of [this.alpha, this.beta]) {
      await client.increaseTime({ seconds });
      await client.mine({ blocks: 1 });
    }
  }
}

/** What the compiler made of a contract. The router is as it is deployed: with the default profile it is too large for a chain. */
export function artifact(contract: string): Artifact {
  const profile = contract === "Router" ? "release" : "forge";
  const path = new URL(`../../build/${profile}/out/${contract}.sol/${contract}.json`, import.meta.url);
  if (!existsSync(path)) throw new Error(`${path.pathname} is missing; run \`npm run tools\``);
  const { abi, bytecode } = JSON.parse(readFileSync(path, "utf8")) as { abi: Abi; bytecode: { object: Hex } };
  return { abi, bytecode: bytecode.object };
}

/** One of the accounts that anvil funds. */
export function testAccount(addressIndex: number): HDAccount & Pick<PrivateKeyAccount, "address"> {
  return mnemonicToAccount(MNEMONIC, { addressIndex });
}

function clientOf(url: string, id: number) {
  const chain = { ...foundry, id };
  return createTestClient({ mode: "anvil", chain, account: OWNER, transport: http(url), pollingInterval: 20, cacheTime: 0 })
    .extend(publicActions)
    .extend(walletActions);
}

async function deploy(name: string, id: number, anvil: Anvil): Promise<TestChain> {
  const client = clientOf(anvil.url, id);
  const create = async (contract: string, ...args: readonly unknown[]): Promise<Address> => {
    const { abi, bytecode } = artifact(contract);
    const hash = await client.deployContract({ abi, bytecode, args } as Parameters<typeof client.deployContract>[0]);
    return (await receiptOf(client, hash)).contractAddress!;
  };
  const router = await create("Router", OWNER.address);
  const networks: Partial<Record<TestGmp, Address>> = {};
  const adapters: Partial<Record<TestGmp, Address>> = {};
  for (const gmp of TEST_GMPS) {
    networks[gmp] = await create("InMemoryGmp");
    adapters[gmp] = await create("InMemoryAdapter", router, networks[gmp]);
  }
  const inbox = await create("Inbox", router, OWNER.address);
  const all = { networks: networks as TestChain["networks"], adapters: adapters as TestChain["adapters"] };
  const chain = { name, id, client, anvil, router, inbox, ...all };
  for (const gmp of TEST_GMPS) await transact(chain, router, routerAbi, "addAdapter", [GMP_NUMBERS[gmp], adapters[gmp]]);
  return chain;
}

async function connect(here: TestChain, there: TestChain): Promise<void> {
  const peer = toWord(there.router);
  await transact(here, here.router, routerAbi, "setPeer", [BigInt(there.id), peer, 1]);
  for (const gmp of TEST_GMPS) {
    const { abi } = artifact("InMemoryAdapter");
    await transact(here, here.adapters[gmp], abi, "connect", [BigInt(there.id), peer, toWord(there.adapters[gmp])]);
  }
}

async function transact(
  chain: TestChain,
  address: Address,
  abi: Abi,
  functionName: string,
  args: readonly unknown[],
  gas?: bigint,
): Promise<Hex> {
  const hash = await chain.client.writeContract({ address, abi, functionName, args, ...(gas && { gas }) });
  const { status } = await receiptOf(chain.client, hash);
  if (status !== "success") throw new Error(`${functionName} on ${chain.name} reverted: ${hash}`);
  return hash;
}

/** viem's own wait without its search for a replacement, during which it passes over blocks; see src/inclusion.ts. */
function receiptOf(client: TestChain["client"], hash: Hex): Promise<TransactionReceipt> {
  return client.waitForTransactionReceipt({ hash, checkReplacement: false });
}

/** The file names every GMP's contracts; here all of them are the one in memory. */
function gmpSections({ id, name, networks }: TestChain): Record<TestGmp, Record<string, unknown>> {
  return {
    hyperlane: { domain: id, mailbox: networks.hyperlane, merkleTreeHook: networks.hyperlane },
    axelar: { chainName: name, gateway: networks.axelar, gasService: networks.axelar, domainSeparator: "0x01" },
    wormhole: { chainId: id, core: networks.wormhole },
  };
}
