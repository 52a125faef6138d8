/** What all tests of the explorer look at: two chains, relayer, index and explorer, a person and the owner, and Chromium. */

import { after, before } from "node:test";
import { fileURLToPath } from "node:url";

import type { Browser, BrowserContext, Page } from "playwright-core";
import { stringToHex } from "viem";

import { Deployment, type Gmp, localWallet, type RouteRequest, type Sent, Waybill } from "@waybill/dapp";
import { launchChromium, observe, type Observed, TestWallet } from "../../browser.ts";
import { type Devnet, startDevnet } from "../../devnet.ts";
import { testAccount } from "../../network.ts";

export const SCREENS = fileURLToPath(new URL("../../../../build/screenshots/", import.meta.url));
export const PATIENCE = 60_000;

/** The GMP that the relayer knows nothing of. */
export const PAUSED: Gmp = "axelar";

/** Neither the deployer, nor the relayer, nor the example dApp of the devnet: nobody retries for this one. */
export const PERSON = testAccount(5);
export const OWNER = testAccount(0);

export let deployment: Deployment;
export let url: string;
/** A message that was executed; the first test sends it. */
export const shown: { executed: `0x${string}` } = { executed: "0x" };

/** What other files want done once the stage stands, before the first test. */
export const prologues: (() => Promise<void>)[] = [];

let devnet: Devnet;
let waybill: Waybill;
let browser: Browser;

before(async () => {
  devnet = await startDevnet(PAUSED);
  deployment = Deployment.parse(devnet.file, "the devnet's file");
  waybill = new Waybill(deployment, { wallet: localWallet(PERSON), pollingInterval: 250 });
  const [[, place], , opened] = await Promise.all([
    devnet.start(["web", "--http", "127.0.0.1:0"], /the explorer is at (\S+)\//),
    devnet.start(["index", "run", "--stall-after", "8"], /\S/),
    launchChromium(),
  ]);
  url = place!;
  browser = opened;
  await eventually("both chains read by the index", async () => {
    const page = await (await fetch(`${url}/status`)).text();
    return page.split('<span class="state good">read').length - 1 === deployment.chains.length;
  });
  for (const prologue of prologues) await prologue();
});
after(async () => {
  await browser?.close();
  await devnet?.stop();
});

/** Looks until it is so; fails after a while, that is long enough for Spark to start on a busy machine. */
export async function eventually(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + 5 * PATIENCE;
  while (!(await isSo())) {
    if (Date.now() > end) throw new Error(`${what}: not within ${(5 * PATIENCE) / 1000} s`);
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
}

export interface Opened {
  readonly page: Page;
  readonly context: BrowserContext;
  readonly observed: Observed;
}

type ContextOptions = NonNullable<Parameters<Browser["newContext"]>[0]>;

/** Opens a page of the explorer in a browser with a wallet; the person's if not said otherwise. */
export async function open(path: string, { account = PERSON, ...options }: ContextOptions & { account?: typeof PERSON } = {}): Promise<Opened> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(PATIENCE);
  const urls = new Map(deployment.chains.map(({ chainId, rpcUrls }) => [chainId, rpcUrls[0]!]));
  await new TestWallet(account, urls).inject(context);
  const page = await context.newPage();
  const observed = observe(page);
  await page.goto(`${url}${path}`);
  return { page, context, observed };
}

/** Sends a text to the devnet's inbox as the person. */
export function send(text: string, gmps: readonly Gmp[], changes: Partial<RouteRequest> = {}): Promise<Sent> {
  const recipient = deployment.chain("beta").examples.inbox!;
  return waybill.route({ source: "alpha", destination: "beta", recipient, payload: stringToHex(text), gmps, ...changes });
}

export const state = (page: Page, name: string): Promise<void> => page.locator(`[data-state="${name}"]`).waitFor();
export const shot = (page: Page, name: string): Promise<Buffer> => page.screenshot({ path: `${SCREENS}explorer-${name}.png`, fullPage: true });
