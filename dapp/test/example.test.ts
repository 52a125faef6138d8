import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, beforeEach, test } from "node:test";
import { fileURLToPath } from "node:url";

import type { Browser, BrowserContext, Locator, Page } from "playwright-core";
import { stringToHex } from "viem";

import { inboxAbi, localWallet, type Message, Waybill } from "@waybill/dapp";
import { type Example, serveExample } from "../example/server.ts";
import { launchChromium, observe, type Observed, TestWallet } from "./browser.ts";
import { TEST_GMPS, TestNetwork, USER } from "./network.ts";

const SCREENS = fileURLToPath(new URL("../../build/screens/", import.meta.url));
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const STALL_AFTER = 60;

let network: TestNetwork;
let example: Example;
let browser: Browser;
let context: BrowserContext;
let page: Page;
let wallet: TestWallet;
let observed: Observed;

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

async function connect(): Promise<void> {
  await page.getByRole("button", { name: "Connect wallet" }).click();
  await page.locator(".account").waitFor();
}

/** Sends a text over the GMPs chosen and returns the message and its card. */
async function send(text: string, gmps: readonly string[] = ["hyperlane", "axelar"]): Promise<{ message: Message; card: Locator }> {
  await page.getByLabel("Text").fill(text);
  for (const gmp of TEST_GMPS) await composed().getByLabel(gmp).setChecked(gmps.includes(gmp));
  await composed().getByRole("button", { name: "Send message" }).click();
  const card = page.locator("article.message").filter({ hasText: text });
  await card.waitFor();
  const { message } = await new Waybill(network.deployment()).find((await card.getAttribute("id")) as `0x${string}`);
  return { message, card };
}

const composed = (): Locator => page.locator("#compose");
const stateOf = (card: Locator, state: string): Promise<void> => card.and(page.locator(`[data-state="${state}"]`)).waitFor();
const shot = (name: string): Promise<Buffer> => page.screenshot({ path: `${SCREENS}dapp-${name}.png`, fullPage: true });

interface Violation {
  readonly id: string;
  readonly impact: string;
  readonly nodes: readonly { readonly html: string }[];
}

/** No finding of axe that keeps somebody from using the page. */
async function assertAccessible(): Promise<void> {
  // As text, so that the debugger evaluates it: the page's own policy forbids scripts from elsewhere.
  await page.evaluate(AXE);
  const violations = await page.evaluate<Violation[]>("axe.run().then(({ violations }) => violations)");
  const grave = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  assert.deepEqual(grave.map(({ id, nodes }) => ({ id, html: nodes.map(({ html }) => html) })), []);
}

test("a person connects, sees the fee, sends, watches both GMPs deliver, and the message is executed", async () => {
  await network.setFee("hyperlane", 2_000_000_000_000_000n);
  await network.setFee("axelar", 1_000_000_000_000_000n);
  await page.reload();
  await connect();
  await composed().getByText("0.003 ETH").waitFor();
  await shot("compose");
  const { message, card } = await send("Hello, beta");
  await stateOf(card, "ROUTED");
  await network.deliver(message, "hyperlane");
  await stateOf(card, "RECEIVED");
  await card.getByText("1 of 2 delivered; waiting for axelar").waitFor();
  await network.deliver(message, "axelar");
  await stateOf(card, "EXECUTED");
  await network.pass(1);
  await card.getByText("the recipient on beta has it", { exact: true }).waitFor();
  assert.equal(await card.locator("tbody tr.counts").count(), 2);
  assert.deepEqual(await card.locator(".timeline li > span:first-of-type").allTextContents(), [
    "Sent over hyperlane, axelar",
    "hyperlane delivered: 1 of 2",
    "axelar delivered: 2 of 2",
    "Executed by the recipient",
  ]);
  const payload = await network.beta.client.readContract({ address: network.beta.inbox, abi: inboxAbi, functionName: "lastPayload" });
  assert.equal(payload, stringToHex("Hello, beta"));
  await shot("executed");
  await assertAccessible();
});

test("a message that stalls is retried over another GMP and executed, all on the page", async () => {
  await connect();
  const { message, card } = await send("Patience");
  await network.deliver(message, "hyperlane");
  await stateOf(card, "RECEIVED");
  await network.pass(STALL_AFTER + 5);
  await stateOf(card, "STALLED");
  await card.getByText(/nothing of axelar/).waitFor();
  assert.equal(await card.getByLabel("wormhole").isChecked(), true);
  assert.equal(await card.getByLabel("axelar").isChecked(), false);
  await card.locator(".total").getByText("free").waitFor();
  await shot("stalled");
  await assertAccessible();
  await card.getByRole("button", { name: "Retry" }).click();
  await card.getByText("Retry 1 over wormhole").waitFor();
  await network.deliver(message, "wormhole");
  await stateOf(card, "EXECUTED");
  await network.deliver(message, "axelar"); // late
  await card.getByText("axelar delivered: 3, more than the 2 needed").waitFor();
  await shot("retried");
});

test("a recipient that refuses is shown with its reason, and the page executes the message once it accepts", async () => {
  await connect();
  await network.setClosed(true);
  const { message, card } = await send("Knock knock", ["axelar"]);
  await network.deliver(message, "axelar");
  await stateOf(card, "EXECUTION_FAILED");
  await card.getByText("the recipient refused: Closed()", { exact: true }).waitFor();
  await network.setClosed(false);
  await card.getByRole("button", { name: "Execute" }).click();
  await stateOf(card, "EXECUTED");
});

test("a message whose time has run out is marked as expired on the page", async () => {
  await connect();
  await composed().getByLabel("Expires").selectOption("in an hour");
  const { card } = await send("Too late");
  await network.pass(3_700);
  await stateOf(card, "EXPIRED");
  await card.getByText("its time to live of 3600 s has run out").waitFor();
  await card.getByRole("button", { name: "Mark as expired" }).click();
  await card.getByText("beta marked it expired").waitFor();
  assert.equal(await card.getByRole("button", { name: "Mark as expired" }).count(), 0);
  await assertAccessible();
});

test("a message that was sent without its fee is paid for on the page, and executed", async () => {
  await network.setFee("hyperlane", 2_000_000_000_000_000n);
  const { hash, found } = await network.sendUnfunded(stringToHex("On account"), ["hyperlane"]);
  await connect();
  const search = page.getByLabel("Message id, or a transaction on either chain");
  await search.fill(hash);
  await search.press("Enter");
  const card = page.locator("article.message").filter({ hasText: "On account" });
  await stateOf(card, "UNFUNDED");
  await card.getByText("hyperlane ask for: 0.002 ETH. Anyone may pay.").waitFor();
  await card.getByRole("button", { name: "Fund it" }).click();
  await stateOf(card, "ROUTED");
  await network.deliver(found.message, "hyperlane");
  await stateOf(card, "EXECUTED");
});

test("a payload full of markup is shown as text and runs nothing", async () => {
  await connect();
  const hostile = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;
  const { card } = await send(hostile);
  assert.equal(await card.locator("blockquote").textContent(), hostile);
  assert.equal(await card.locator("img, script").count(), 0);
  assert.notEqual(await page.title(), "owned");
});

test("control characters in a payload are shown as bytes", async () => {
  const sender = new Waybill(network.deployment(), { wallet: localWallet(USER), pollingInterval: 20 });
  const lane = { source: "alpha", destination: "beta", recipient: network.beta.inbox };
  const { id } = await sender.route({ ...lane, payload: stringToHex("\u202egnirts\u0007"), gmps: ["axelar"] });
  await page.goto(`${example.url}#${id}`);
  await page.reload();
  const quote = page.locator(`[id="${id}"] blockquote`);
  assert.equal(await quote.textContent(), stringToHex("\u202egnirts\u0007"));
});

test("a person who declines in the wallet is told that nothing was sent, and can try again", async () => {
  await connect();
  wallet.declinesNext = true;
  await composed().getByRole("button", { name: "Send message" }).click();
  await page.getByText("declined in the wallet: route; nothing was sent").waitFor();
  await send("Second thoughts");
});

test("nothing is sent without a wallet, and the page says so", async () => {
  await composed().getByRole("button", { name: "Send message" }).click();
  await composed().getByRole("alert").getByText("this needs a wallet to sign with").waitFor();
});

test("a wrong recipient is refused before the wallet is asked", async () => {
  await connect();
  await page.getByLabel("Recipient").fill("0x12");
  await composed().getByRole("button", { name: "Send message" }).click();
  await composed().getByText(/^"0x12" is not an EVM address/).waitFor();
});

test("messages stay after a reload, and others are found by id and by transaction", async () => {
  await connect();
  const { message, card } = await send("Remember me", ["axelar"]);
  const id = await card.getAttribute("id");
  const delivery = await network.deliver(message, "axelar");
  await page.reload();
  await stateOf(page.locator(`[id="${id}"]`), "EXECUTED");

  await page.evaluate(() => localStorage.clear());
  await page.reload();
  await page.getByText("Nothing sent yet").waitFor();
  const search = page.getByLabel("Message id, or a transaction on either chain");
  await search.fill("hello");
  await search.press("Enter");
  await page.getByText('"hello" is not 0x and 64 hex digits').waitFor();
  await search.fill(delivery);
  await search.press("Enter");
  await stateOf(page.locator(`[id="${id}"]`), "EXECUTED");
});

test("the page is sent with the keyboard alone", async () => {
  await connect();
  await page.getByLabel("Text").focus();
  await page.keyboard.press("Control+A");
  await page.keyboard.type("No mouse");
  const send = composed().getByRole("button", { name: "Send message" });
  for (let presses = 0; presses < 12 && !(await send.evaluate((button) => button === document.activeElement)); presses += 1) {
    await page.keyboard.press("Tab");
  }
  await page.keyboard.press("Enter");
  await page.locator("article.message").filter({ hasText: "No mouse" }).waitFor();
});

for (const [what, width, colorScheme] of [
  ["phone-dark", 360, "dark"],
  ["phone-light", 360, "light"],
  ["wide-dark", 1280, "dark"],
] as const) {
  test(`nothing runs off the side and nothing is hard to read: ${what}`, async () => {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme });
    await connect();
    const { message, card } = await send(`On a ${what} screen`);
    await network.deliver(message, "axelar");
    await stateOf(card, "RECEIVED");
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.equal(overflow, 0);
    await assertAccessible();
    await shot(what);
  });
}

test("the page speaks to its own server and its chains only, without an error, under a strict policy", async () => {
  await connect();
  await send("Quietly");
  const allowed = [new URL(example.url).origin, network.alpha.anvil.url, network.beta.anvil.url];
  assert.deepEqual([...observed.origins].filter((origin) => !allowed.includes(origin)), []);
  assert.deepEqual(observed.errors, []);
  const policy = (await fetch(example.url)).headers.get("content-security-policy") ?? "";
  assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self'/);
  assert.doesNotMatch(policy, /unsafe|\*/);
});

test("the server gives out the page's files and nothing else", async () => {
  for (const path of ["../package.json", "main.ts", "%2e%2e/package.json", "settings"]) {
    assert.equal((await fetch(`${example.url}${path}`)).status, 404, path);
  }
  assert.equal((await fetch(example.url, { method: "POST" })).status, 405);
});
