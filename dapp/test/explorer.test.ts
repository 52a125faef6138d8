import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import type { Browser, BrowserContext, Page } from "playwright-core";
import { createWalletClient, type Hex, http, stringToHex } from "viem";

import { Deployment, type Gmp, inboxAbi, localWallet, type Sent, Waybill } from "@waybill/dapp";
import { roughly } from "../example/format.ts";
import { launchChromium, observe, type Observed, TestWallet } from "./browser.ts";
import { type Devnet, startDevnet } from "./devnet.ts";
import { testAccount } from "./network.ts";
import { assertUsable } from "./usable.ts";

const SCREENS = fileURLToPath(new URL("../../build/screenshots/", import.meta.url));
const PATIENCE = 60_000;
const PAUSED: Gmp = "axelar";

/** Neither the deployer, nor the relayer, nor the example dApp of the devnet: nobody retries for this one. */
const PERSON = testAccount(5);
const OWNER = testAccount(0);

let devnet: Devnet;
let deployment: Deployment;
let waybill: Waybill;
let browser: Browser;
let url: string;

before(async () => {
  devnet = await startDevnet(PAUSED);
  deployment = Deployment.parse(devnet.file, "the devnet's file");
  waybill = new Waybill(deployment, { wallet: localWallet(PERSON), pollingInterval: 250 });
  const [, place] = await devnet.start(["web", "--http", "127.0.0.1:0"], /the explorer is at (\S+)\//);
  url = place!;
  await devnet.start(["index", "run", "--stall-after", "8"], /\S/);
  for (let read = 0; read < deployment.chains.length; ) {
    await new Promise((resolve) => setTimeout(resolve, 500));
    read = (await (await fetch(`${url}/lanes`)).text()).split('<span class="state good">read').length - 1;
  }
  browser = await launchChromium();
});
after(async () => {
  await browser?.close();
  await devnet?.stop();
});

interface Opened {
  readonly page: Page;
  readonly context: BrowserContext;
  readonly observed: Observed;
}

type ContextOptions = Parameters<Browser["newContext"]>[0];

async function open(path: string, options: ContextOptions = {}): Promise<Opened> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(PATIENCE);
  const urls = new Map(deployment.chains.map(({ chainId, rpcUrls }) => [chainId, rpcUrls[0]!]));
  await new TestWallet(PERSON, urls).inject(context);
  const page = await context.newPage();
  const observed = observe(page);
  await page.goto(`${url}${path}`);
  return { page, context, observed };
}

function send(text: string, gmps: readonly Gmp[]): Promise<Sent> {
  const recipient = deployment.chain("beta").examples.inbox!;
  return waybill.route({ source: "alpha", destination: "beta", recipient, payload: stringToHex(text), gmps });
}

async function setClosed(closed: boolean): Promise<void> {
  const beta = deployment.chain("beta");
  const owner = createWalletClient({ account: OWNER, transport: http(beta.rpcUrls[0]) });
  await owner.writeContract({ chain: null, address: beta.examples.inbox!, abi: inboxAbi, functionName: "setClosed", args: [closed] });
}

/** Errors in the page, but for Chromium's note on a page that is not there, or not yet. */
const problems = ({ errors }: Observed): readonly string[] => errors.filter((error) => !error.includes("status of 404"));
const state = (page: Page, name: string): Promise<void> => page.locator(`[data-state="${name}"]`).waitFor();
const shot = (page: Page, name: string): Promise<Buffer> => page.screenshot({ path: `${SCREENS}explorer-${name}.png`, fullPage: true });

let executed: Hex;

test("a message appears in the open list by itself, and its page follows it to its execution", async () => {
  const { page, context, observed } = await open("/");
  const { id, fee, receipt } = await send("Hello, beta", ["hyperlane", "wormhole"]);
  await page.locator(`a[href="/message/${id}"]`).click();
  await state(page, "EXECUTED");
  await page.locator(".timeline").getByText("Executed by the recipient").waitFor();
  await page.getByText("Hello, beta").waitFor();
  await page.locator("summary").click();
  await page.getByText("keccak256(payload)").waitFor();
  const route = page.locator(`table.costs tr[data-hash="${receipt.transactionHash}"]`);
  await route.locator(".gas").getByText(receipt.gasUsed.toLocaleString("en").replace(",", " "), { exact: true }).waitFor();
  await route.locator(".paid").getByText(roughly(receipt.gasUsed * receipt.effectiveGasPrice), { exact: true }).waitFor();
  await route.locator(".value").getByText(fee > 0n ? roughly(fee) : "–", { exact: true }).waitFor();
  await assertUsable(page);
  await shot(page, "message");
  const allowed = [url, ...deployment.chains.map(({ rpcUrls }) => new URL(rpcUrls[0]!).origin)];
  assert.deepEqual([...observed.origins].filter((origin) => !allowed.includes(origin)), []);
  assert.deepEqual(observed.errors, []);
  await context.close();
  executed = id;
});

test("what redundancy cost is drawn in money, as the chains say it", async () => {
  const recipient = deployment.chain("beta").examples.inbox!;
  const request = { source: "alpha", destination: "beta", recipient, quorum: 1, gmps: ["hyperlane", "wormhole", "layerzero"] } as const;
  await Promise.all(
    [5, 6, 7, 8].map(async (number) => {
      const sender = new Waybill(deployment, { wallet: localWallet(testAccount(number)), pollingInterval: 250 });
      for (const text of ["one", "two", "three", "four", "five"]) await sender.route({ ...request, payload: stringToHex(text) });
    }),
  );
  const { page, context, observed } = await open("/lanes");
  const lane = page.locator(".lane", { hasText: "alpha → beta" });
  const said = /(\S+ \S+) of the (\S+ \S+) paid for the gas of the newest (\d+) went to late ones/;
  for (const end = Date.now() + PATIENCE; ; await page.reload()) {
    const found = said.exec(await lane.innerText());
    if (found && Number(found[3]) >= 60 && found[1] !== "0 wei") break;
    assert.ok(Date.now() < end, await lane.innerText());
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  assert.equal(await lane.locator("svg.plot").count(), 4);
  await assertUsable(page);
  await lane.screenshot({ path: `${SCREENS}explorer-lane.png` });
  assert.deepEqual(observed.errors, []);
  await context.close();
});

test("a search for the transaction of a delivery leads to its message", async () => {
  const { page, context } = await open(`/message/${executed}`);
  const delivery = await page.locator(".timeline li").last().locator("code").getAttribute("title");
  await page.getByLabel("Search").fill(delivery!);
  await page.getByLabel("Search").press("Enter");
  await page.waitForURL(`**/message/${executed}`);
  await page.getByLabel("Search").fill(PERSON.address.toLowerCase());
  await page.getByRole("button", { name: "Find" }).click();
  await page.locator(`a[href="/message/${executed}"]`).waitFor();
  await context.close();
});

test("a message whose GMP is silent is retried over another from its page, with the visitor's wallet, and executed", async () => {
  const sent = await send("Patience", [PAUSED]);
  const { page, context, observed } = await open(`/message/${sent.id}`);
  await state(page, "STALLED");
  await page.getByText(`waybill message retry ${sent.id} --gmps hyperlane`).waitFor();
  await page.getByRole("button", { name: "Connect wallet" }).click();
  const retry = page.locator('[data-act="retry"]');
  await retry.getByLabel("hyperlane").uncheck();
  await retry.getByLabel("wormhole").check();
  await page.getByText(`waybill message retry ${sent.id} --gmps wormhole`, { exact: true }).waitFor();
  await retry.locator(".total").getByText(/free|ETH|wei/).waitFor();
  await shot(page, "stalled");
  await assertUsable(page);
  await retry.getByRole("button", { name: "Retry over other GMPs" }).click();
  await page.locator(".timeline").getByText("Retry 1 over wormhole").waitFor();
  await state(page, "EXECUTED");
  assert.equal(await page.locator("[data-act]").count(), 0);
  assert.deepEqual(problems(observed), []);
  const allowed = [url, ...deployment.chains.map(({ rpcUrls }) => new URL(rpcUrls[0]!).origin)];
  assert.deepEqual([...observed.origins].filter((origin) => !allowed.includes(origin)), []);
  await context.close();
});

test("a message that its recipient refused is executed from its page once it accepts", async () => {
  await setClosed(true);
  const { id } = await send("Knock knock", ["wormhole"]);
  const { page, context } = await open(`/message/${id}`);
  await state(page, "EXECUTION_FAILED");
  await page.locator(".reason").getByText("the recipient refused it: Closed()").waitFor();
  await setClosed(false);
  await page.getByRole("button", { name: "Connect wallet" }).click();
  await page.locator('[data-act="execute"]').getByRole("button", { name: "Execute" }).click();
  await state(page, "EXECUTED");
  await context.close();
});

test("a payload full of markup is text, runs nothing, and is read with JavaScript off too", async () => {
  const hostile = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;
  const { id } = await send(hostile, ["wormhole"]);
  const live = await open(`/message/${id}`);
  await state(live.page, "EXECUTED");
  assert.equal(await live.page.locator("pre.payload").textContent(), hostile);
  assert.equal(await live.page.locator("main img, main script").count(), 0);
  assert.notEqual(await live.page.title(), "owned");
  await live.context.close();
  const plain = await open(`/message/${id}`, { javaScriptEnabled: false });
  assert.equal(await plain.page.locator("pre.payload").textContent(), hostile);
  await plain.page.getByRole("link", { name: "Messages" }).click();
  await plain.page.locator('select[name="status"]').selectOption("EXECUTED");
  await plain.page.getByRole("button", { name: "Show" }).click();
  await plain.page.locator(`a[href="/message/${id}"]`).waitFor();
  await plain.context.close();
});

for (const [what, width, colorScheme] of [
  ["phone-dark", 360, "dark"],
  ["wide-light", 1280, "light"],
  ["wide-dark", 1280, "dark"],
] as const) {
  test(`nothing runs off the side and nothing is hard to read on any page: ${what}`, async () => {
    const { page, context, observed } = await open("/", { viewport: { width, height: 800 }, colorScheme });
    for (const path of ["/messages", `/message/${executed}`, "/lanes", "/gmps", "/dead-letters", "/faults", "/search?q=nothing"]) {
      await page.goto(`${url}${path}`);
      await assertUsable(page);
      await shot(page, `${path.split(/[/?]/)[1]}-${what}`);
    }
    assert.deepEqual(problems(observed), []);
    await context.close();
  });
}

test("the first stop of the keyboard skips to the content, and the search is reached without a mouse", async () => {
  const { page, context } = await open("/lanes");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Skip to the content");
  for (let presses = 0; presses < 10; presses += 1) {
    await page.keyboard.press("Tab");
    if (await page.evaluate(() => document.activeElement?.id === "q")) break;
  }
  await page.keyboard.type(executed);
  await page.keyboard.press("Enter");
  await page.waitForURL(`**/message/${executed}`);
  await context.close();
});
