import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import type { Browser, BrowserContext, Page } from "playwright-core";
import { createWalletClient, type Hex, http, stringToHex } from "viem";

import { Deployment, type Gmp, GMP_NUMBERS, Kind, localWallet, routerAbi, Waybill } from "@waybill/dapp";
import { launchChromium, observe, type Observed, TestWallet } from "./browser.ts";
import { type Devnet, startDevnet } from "./devnet.ts";
import { testAccount } from "./network.ts";
import { assertUsable } from "./usable.ts";

const SCREEN = fileURLToPath(new URL("../../build/screenshots/explorer-letter.png", import.meta.url));
const PATIENCE = 60_000;
const REFUSED: Gmp = "layerzero";
const PERSON = testAccount(5);
const OWNER = testAccount(0);

let devnet: Devnet;
let deployment: Deployment;
let browser: Browser;
let url: string;
/** Paths of the letters of three messages that beta refuses to take from one GMP until their tries are spent. */
let letters: readonly string[];

before(async () => {
  devnet = await startDevnet("axelar");
  deployment = Deployment.parse(devnet.file, "the devnet's file");
  const [, place] = await devnet.start(["web", "--http", "127.0.0.1:0"], /the explorer is at (\S+)\//);
  url = place!;
  await setPaused(REFUSED, true);
  const waybill = new Waybill(deployment, { wallet: localWallet(PERSON), pollingInterval: 250 });
  const recipient = deployment.chain("beta").examples.inbox!;
  const request = { source: "alpha", destination: "beta", recipient, gmps: [REFUSED], kind: Kind.GOVERNANCE_VOTE, ttl: 3_600 };
  const ids: Hex[] = [];
  for (const text of ["again", "upwards", "never"]) ids.push((await waybill.route({ ...request, payload: stringToHex(text) })).id);
  letters = ids.map((id) => `/dead-letters/${id}/${REFUSED}/0`);
  browser = await launchChromium();
  for (const letter of letters) {
    await eventually(`a letter at ${letter}`, async () => (await fetch(`${url}${letter}`)).ok);
  }
  await setPaused(REFUSED, false);
});
after(async () => {
  await browser?.close();
  await devnet?.stop();
});

/** Looks until it is so; fails after a while. */
async function eventually(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + 3 * PATIENCE;
  while (!(await isSo())) {
    if (Date.now() > end) throw new Error(`${what}: not within ${(3 * PATIENCE) / 1000} s`);
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

/** Has beta refuse what a GMP delivers for an hour, or ends that. */
async function setPaused(gmp: Gmp, paused: boolean): Promise<void> {
  const { router, rpcUrls } = deployment.chain("beta");
  const owner = createWalletClient({ account: OWNER, transport: http(rpcUrls[0]) });
  const call = { chain: null, address: router, abi: routerAbi } as const;
  const until = Math.floor(Date.now() / 1000) + 3_600;
  if (paused) await owner.writeContract({ ...call, functionName: "pauseGmp", args: [GMP_NUMBERS[gmp], until] });
  else await owner.writeContract({ ...call, functionName: "endGmpPause", args: [GMP_NUMBERS[gmp]] });
}

async function open(path: string, account = OWNER): Promise<{ page: Page; context: BrowserContext; observed: Observed }> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  context.setDefaultTimeout(PATIENCE);
  const urls = new Map(deployment.chains.map(({ chainId, rpcUrls }) => [chainId, rpcUrls[0]!]));
  await new TestWallet(account, urls).inject(context);
  const page = await context.newPage();
  const observed = observe(page);
  await page.goto(`${url}${path}`);
  return { page, context, observed };
}

const state = (page: Page, name: string): Promise<void> => page.locator(`[data-state="${name}"]`).waitFor();

/** Connects the wallet and takes a decision, with its reason; the page then shows both. */
async function decide(page: Page, act: string, button: string): Promise<void> {
  await page.getByRole("button", { name: "Connect wallet" }).click();
  const offered = page.locator(`[data-act="${act}"]`);
  await offered.getByLabel("Why").fill(`because of ${act}`);
  await assertUsable(page);
  await page.screenshot({ path: SCREEN, fullPage: true });
  await offered.getByRole("button", { name: button }).click();
  await page.locator(".timeline").getByText(`because of ${act}`).waitFor();
}

test("an operator's wallet requeues a dead letter, and its message arrives", async () => {
  const { page, context, observed } = await open(letters[0]!);
  await state(page, "PENDING_REVIEW");
  await decide(page, "requeue", "Requeue");
  await eventually("the letter recovered", async () => {
    await page.reload();
    return (await page.locator('[data-state="RECOVERED"]').count()) > 0;
  });
  assert.equal(await page.locator("[data-act]").count(), 0);
  assert.deepEqual(observed.errors, []);
  await context.close();
});

test("an operator's wallet escalates a dead letter by a message to governance, and it stays open", async () => {
  const { page, context, observed } = await open(letters[1]!);
  await decide(page, "escalate", "Escalate");
  await state(page, "PENDING_REVIEW");
  assert.deepEqual(observed.errors, []);
  await context.close();
});

test("an operator's wallet abandons a dead letter for good", async () => {
  const { page, context, observed } = await open("/dead-letters");
  await page.locator(`a[href="${letters[2]}"]`).click();
  await decide(page, "abandon", "Abandon");
  await state(page, "ABANDONED");
  assert.equal(await page.locator("[data-act]").count(), 0);
  assert.deepEqual(observed.errors, []);
  await context.close();
});

test("whoever is no operator is refused and told so, and nothing is decided", async () => {
  const { page, context } = await open(letters[1]!, PERSON);
  await page.getByText("waybill dlq abandon").waitFor();
  await page.getByRole("button", { name: "Connect wallet" }).click();
  const abandon = page.locator('[data-act="abandon"]');
  await abandon.getByRole("button", { name: "Abandon" }).click();
  await abandon.getByText("say why").waitFor();
  await abandon.getByLabel("Why").fill("I would rather not");
  await abandon.getByRole("button", { name: "Abandon" }).click();
  await abandon.getByText(`account ${PERSON.address} is no operator on chain`).waitFor();
  await page.reload();
  await state(page, "PENDING_REVIEW");
  await context.close();
});
