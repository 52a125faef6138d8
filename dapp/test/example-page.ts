/** The example dApp in Chromium, over two simulated chains: what its tests share. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, beforeEach } from "node:test";
import { fileURLToPath } from "node:url";

import type { Browser, BrowserContext, Locator, Page } from "playwright-core";

import { type Message, Waybill } from "@waybill/dapp";
import { type Example, serveExample } from "../example/server.ts";
import { launchChromium, observe, type Observed, TestWallet } from "./browser.ts";
import { TEST_GMPS, TestNetwork, USER } from "./network.ts";

const SCREENS = fileURLToPath(new URL("../../build/screens/", import.meta.url));
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
export const STALL_AFTER = 60;

export let network: TestNetwork;
export let example: Example;
export let browser: Browser;
export let context: BrowserContext;
export let page: Page;
export let wallet: TestWallet;
export let observed: Observed;

before(async () => {
  network = await TestNetwork.start();
  browser = await launchChromium();
  example = await serveExample({ file: network.file(), deployment: network.deployment(), port: 0, stallAfter: STALL_AFTER });
});
after(async () => {
  await browser?.close();
  await example?.stop();
  await network?.stop();
});
beforeEach(async () => {
  for (const gmp of TEST_GMPS) await network.setFee(gmp, 0n);
  await network.setClosed(false);
  await context?.close();
  context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: "light" });
  context.setDefaultTimeout(15_000);
  wallet = new TestWallet(USER, new Map([network.alpha, network.beta].map(({ id, anvil }) => [id, anvil.url])));
  await wallet.inject(context);
  page = await context.newPage();
  observed = observe(page);
  await page.goto(example.url);
});

export async function connect(): Promise<void> {
  await page.getByRole("button", { name: "Connect wallet" }).click();
  await page.locator(".account").waitFor();
}

/** Sends a text over the GMPs chosen and returns the message and its card. */
export async function send(text: string, gmps: readonly string[] = ["hyperlane", "axelar"]): Promise<{ message: Message; card: Locator }> {
  await page.getByLabel("Text").fill(text);
  for (const gmp of TEST_GMPS) await composed().getByLabel(gmp).setChecked(gmps.includes(gmp));
  await composed().getByRole("button", { name: "Send message" }).click();
  const card = page.locator("article.message").filter({ hasText: text });
  await card.waitFor();
  const { message } = await new Waybill(network.deployment()).find((await card.getAttribute("id")) as `0x${string}`);
  return { message, card };
}

export const composed = (): Locator => page.locator("#compose");
export const stateOf = (card: Locator, state: string): Promise<void> => card.and(page.locator(`[data-state="${state}"]`)).waitFor();
export const shot = (name: string): Promise<Buffer> => page.screenshot({ path: `${SCREENS}dapp-${name}.png`, fullPage: true });

interface Violation {
  readonly id: string;
  readonly impact: string;
  readonly nodes: readonly { readonly html: string }[];
}

/** No finding of axe that keeps somebody from using the page. */
export async function assertAccessible(): Promise<void> {
  // As text, so that the debugger evaluates it: the page's own policy forbids scripts from elsewhere.
  await page.evaluate(AXE);
  const violations = await page.evaluate<Violation[]>("axe.run().then(({ violations }) => violations)");
  const grave = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  assert.deepEqual(grave.map(({ id, nodes }) => ({ id, html: nodes.map(({ html }) => html) })), []);
}

