/** The element and the React hook in another site's page, whose policy allows nothing but its own files. */

import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { fileURLToPath } from "node:url";

import type { Browser, BrowserContext, Locator, Page } from "playwright-core";
import { type Hex, stringToHex } from "viem";

import { localWallet, type Sent, Waybill } from "@waybill/dapp";
import type { WaybillMessageElement } from "../../src/element.ts";
import { launchChromium, observe, type Observed, TestWallet } from "../browser.ts";
import { bundled, embeddingPage, type ForeignPage, readmeBlocks, serveForeign } from "../foreign.ts";
import { TestNetwork, USER } from "../network.ts";
import { assertUsable } from "../usable.ts";

/** Makes the page look ten times as often; the kit's own pause of two seconds is for chains with slower blocks. */
const QUICK_TIMERS = "const later = setTimeout; window.setTimeout = (run, ms, ...rest) => later(run, ms / 10, ...rest);";
const SCREENS = fileURLToPath(new URL("../../../build/screens/", import.meta.url));

let network: TestNetwork;
let waybill: Waybill;
let browser: Browser;
let context: BrowserContext;
let page: Page;
let wallet: TestWallet;
let observed: Observed;
const served: ForeignPage[] = [];

before(async () => {
  network = await TestNetwork.start();
  waybill = new Waybill(network.deployment(), { wallet: localWallet(USER), pollingInterval: 20 });
  browser = await launchChromium();
});
after(async () => {
  await browser?.close();
  await network?.stop();
});
beforeEach(async () => {
  await network.setClosed(false);
  context = await browser.newContext({ viewport: { width: 400, height: 700 }, colorScheme: "light" });
  context.setDefaultTimeout(15_000);
  wallet = new TestWallet(USER, new Map([network.alpha, network.beta].map(({ id, anvil }) => [id, anvil.url])));
  await wallet.inject(context);
  await context.addInitScript(QUICK_TIMERS);
  page = await context.newPage();
  observed = observe(page);
});
afterEach(async () => {
  await context.close();
  for (const { stop } of served.splice(0)) await stop();
});

const send = (quorum = 2): Promise<Sent> =>
  waybill.route({ source: "alpha", destination: "beta", recipient: network.beta.inbox, payload: stringToHex("hi"), gmps: ["hyperlane", "axelar"], quorum });

async function open(files: Readonly<Record<string, string>>): Promise<void> {
  const foreign = await serveForeign(files, network.deployment());
  served.push(foreign);
  await page.goto(foreign.url);
}

/** Opens the README's page about a message. */
async function embed(id: string, file = network.file()): Promise<Locator> {
  await open(await embeddingPage(id, file));
  return page.locator("waybill-message");
}

const stateOf = (element: Locator, state: string): Promise<void> => element.locator(`.state[part~="${state}"]`).waitFor();
const change = (element: Locator, name: string, value: string) =>
  element.evaluate((node, [key, text]) => node.setAttribute(key!, text!), [name, value]);

test("the README's page shows state, reason and deliveries, in light and dark, and its retry brings the message to its end", async () => {
  const { id, message } = await send();
  const element = await embed(id);
  await stateOf(element, "ROUTED");
  assert.equal(await element.getByRole("button").count(), 0, "nothing to retry yet");
  await network.deliver(message, "hyperlane");
  await network.pass(61);
  await stateOf(element, "STALLED");
  await element.getByText("1 of 2 delivered more than 60 s after it was sent; no delivery from Axelar").waitFor();
  assert.deepEqual(await element.getByRole("listitem").allTextContents(), ["Hyperlane: delivered", "Axelar: no delivery yet"]);
  const button = element.getByRole("button", { name: "Retry over Wormhole" });
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await button.focus();
    await assertUsable(page);
    await page.screenshot({ path: `${SCREENS}embedded-${colorScheme}.png`, fullPage: true });
  }
  assert.equal(await page.evaluate(() => document.getAnimations().length), 0);

  wallet.declinesNext = true;
  await button.click();
  await element.getByRole("alert").getByText(/^declined in the wallet: retryRoute; nothing was sent$/).waitFor();
  await button.click();
  await element.getByText(/waiting for Axelar, Wormhole/).waitFor();
  assert.equal(await button.count(), 0);
  await network.deliver(message, "wormhole");
  await stateOf(element, "EXECUTED");
  await network.pass(1);
  await element.getByText("the recipient on beta has it", { exact: true }).waitFor();
  assert.deepEqual(observed.errors, []);
});

test("a wrong id, a network that is not there, and one that is none are said in the element and as an event", async () => {
  const { id } = await send();
  const element = await embed("0x12");
  const problem = element.getByRole("alert");
  await problem.getByText('message id "0x12" is not 0x and 64 hex digits').waitFor();
  await page.evaluate(() => {
    const told: string[] = ((window as unknown as { told: string[] }).told = []);
    document.addEventListener("waybill-error", (event) => told.push((event as CustomEvent<Error>).detail.message));
    document.addEventListener("waybill-progress", (event) => told.push((event as CustomEvent<{ state: string }>).detail.state));
  });
  const wrong: readonly (readonly [name: string, value: string, text: RegExp])[] = [
    ["message-id", `0x${"33".repeat(32)}`, /^no chain has created a message 0x3333.*searched: alpha, beta$/],
    ["network", "/gone.json", /^network http:\/\/127.0.0.1:\d+\/gone.json can't be read: HTTP 404; check the address$/],
    ["network", "https://elsewhere.invalid/n.json", /^network https:\/\/elsewhere.invalid\/n.json can't be read: .*and that the page's content security policy allows it$/],
    ["network", "http://[", /^network "http:\/\/\[" is not the URL of a deployments file$/],
    ["network", '{"version": 9}', /^the attribute network is not a deployments file this version can use/],
    ["network", "", /^the attribute network is missing/],
    ["stall-after", "soon", /^stall-after "soon" is not a whole number of seconds$/],
  ];
  for (const [name, value, text] of wrong) {
    await change(element, name, value);
    await problem.getByText(text).waitFor();
  }
  await assertUsable(page);
  await change(element, "stall-after", "60");
  await change(element, "message-id", id);
  await change(element, "network", network.file()); // inline
  await stateOf(element, "ROUTED");
  assert.equal(await problem.count(), 0);
  const told = await page.evaluate(() => (window as unknown as { told: string[] }).told);
  for (const [, , text] of wrong) assert.ok(told.some((said) => text.test(said.split("\n")[0]!)), String(text));
  assert.equal(told.at(-1), "ROUTED");
});

test("another id shows another message, and what a recipient refuses with is text", async () => {
  const [first, second] = [await send(1), await send(1)];
  const element = await embed(first.id);
  await network.deliver(first.message, "axelar");
  await stateOf(element, "EXECUTED");
  await network.setClosed(true);
  await network.deliver(second.message, "axelar");
  await change(element, "message-id", second.id);
  await stateOf(element, "EXECUTION_FAILED");
  await element.getByText("the recipient refused: Closed()").waitFor();
  assert.equal(await element.getByRole("group").getAttribute("aria-label"), `Message ${second.id.slice(0, 8)}…${second.id.slice(-6)}`);
  // Nothing in it makes markup of text: its file names no way to do so.
  assert.doesNotMatch(await bundled('import "@waybill/dapp/element"'), /innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|document\.write/);
  assert.deepEqual(observed.errors, []);
});

test("removed from its page it asks nothing more, and put back it goes on", async () => {
  const { id } = await send();
  await page.clock.install();
  const element = await embed(id);
  await stateOf(element, "ROUTED");
  const handle = await element.elementHandle();
  await handle!.evaluate((node) => node.remove());
  let asked = 0;
  page.on("request", () => (asked += 1));
  await page.clock.runFor(60_000);
  assert.equal(asked, 0);
  await handle!.evaluate((node) => document.body.append(node));
  await stateOf(page.locator("waybill-message"), "ROUTED");
  assert.ok(asked > 0);
});

test("properties that a page sets before the element's script is there are kept, and a page may style it", async () => {
  const { id } = await send();
  const files = await embeddingPage(id, network.file());
  const late = { ...files, "/waybill-message.js": "", "/late.js": files["/waybill-message.js"]! };
  await open({ ...late, "/style.css": "waybill-message { --waybill-text: rgb(1, 2, 3); } waybill-message::part(STALLED) { color: rgb(4, 5, 6); }" });
  await network.pass(61);
  await page.evaluate(() => import("/late.js" as string));
  const element = page.locator("waybill-message");
  await element.getByRole("button", { name: "Retry over Wormhole and Hyperlane" }).waitFor();
  const colour = (part: string) => element.locator(`[part~="${part}"]`).evaluate((node) => getComputedStyle(node).color);
  assert.deepEqual([await colour("reason"), await colour("state")], ["rgb(1, 2, 3)", "rgb(4, 5, 6)"]);
  assert.ok(await element.evaluate((node) => !Object.hasOwn(node, "provider") && (node as WaybillMessageElement).provider === (window as unknown as { ethereum: unknown }).ethereum));
});

const APP = `
import { StrictMode, useState } from "react";
import { createRoot } from "react-dom/client";
import { connectWallet, Deployment } from "@waybill/dapp";
`;
const MAIN = `
const deployment = Deployment.parse(await (await fetch("/network.json")).text());
const wallet = await connectWallet(window.ethereum);
function App() {
  const [id, setId] = useState<string | undefined>(undefined);
  Object.assign(window, { setId });
  return <main><h1>Yours</h1>{id === "gone" ? undefined : <Transfer id={id!} deployment={deployment} wallet={wallet} />}</main>;
}
createRoot(document.getElementById("root")!).render(<StrictMode><App /></StrictMode>);
`;

test("the README's React component shows the same, retries, follows another id, and ends with its component", async () => {
  const [{ id, message }, other] = [await send(), await send(1)];
  await open({
    "/": '<!doctype html><html lang="en"><title>App</title><script type="module" src="app.js"></script><div id="root"></div></html>',
    "/network.json": network.file(),
    "/app.js": await bundled(APP + readmeBlocks("tsx")[0]! + MAIN),
  });
  const follow = (next: string) => page.evaluate((value) => (window as unknown as { setId(value: string): void }).setId(value), next);
  const status = page.getByRole("status");
  await status.getByText("looking").waitFor();
  await follow("0x12");
  await page.getByRole("alert").getByText('message id "0x12" is not 0x and 64 hex digits').waitFor();
  await follow(id);
  await network.deliver(message, "hyperlane");
  await network.pass(61);
  await status.getByText("STALLED: 1 of 2 delivered more than 60 s after it was sent; no delivery from Axelar").waitFor();
  wallet.declinesNext = true;
  const button = page.getByRole("button", { name: "Retry over Wormhole" });
  await button.click();
  await page.getByRole("alert").getByText("declined in the wallet: retryRoute; nothing was sent").waitFor();
  await button.click();
  await status.getByText(/waiting for Axelar, Wormhole/).waitFor();
  await network.deliver(message, "wormhole");
  await status.getByText(/^EXECUTED/).waitFor();
  await follow(other.id as Hex);
  await status.getByText(/^STALLED|^ROUTED/).waitFor();
  await follow("gone");
  await status.waitFor({ state: "detached" });
  await page.waitForTimeout(500);
  let asked = 0;
  page.on("request", () => (asked += 1));
  await page.waitForTimeout(700);
  assert.equal(asked, 0);
  assert.deepEqual(observed.errors, []);
});
