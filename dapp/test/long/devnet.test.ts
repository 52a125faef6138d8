import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { stringToHex } from "viem";

import { Deployment, localWallet, Waybill } from "@waybill/dapp";
import { serveExample } from "../../example/server.ts";
import { launchChromium, observe, TestWallet } from "../browser.ts";
import { type Devnet, startDevnet } from "../devnet.ts";
import { embeddingPage, serveForeign } from "../foreign.ts";
import { testAccount } from "../network.ts";

const SCREENS = fileURLToPath(new URL("../../../build/screens/", import.meta.url));
const PATIENCE = 90_000;

/** Neither the deployer, nor the relayer, nor the example dApp of the devnet. */
const PERSON = testAccount(5);

let devnet: Devnet;
let deployment: Deployment;

before(async () => {
  devnet = await startDevnet("wormhole");
  deployment = Deployment.parse(devnet.file, "the devnet's file");
});
after(() => devnet?.stop());

test("over real GMPs and the relayer, a message whose GMP is silent is retried over another and executed once", async () => {
  const waybill = new Waybill(deployment, { wallet: localWallet(PERSON), pollingInterval: 250 });
  const recipient = deployment.chain("beta").examples.inbox!;
  const request = { source: "alpha", destination: "beta", recipient, payload: stringToHex("hello") } as const;
  const sent = await waybill.route({ ...request, gmps: ["hyperlane", "wormhole"], quorum: 2 });
  assert.deepEqual([...sent.gmps].sort(), ["hyperlane", "wormhole"]);

  const states: string[] = [];
  const signal = AbortSignal.timeout(PATIENCE);
  for await (const { state, receipts, final, reason } of waybill.watch(sent.message, { stallAfter: 8, signal })) {
    if (states.at(-1) !== state) states.push(state);
    if (state === "STALLED" && receipts === 1 && !states.includes("retried")) {
      assert.match(reason, /no delivery from Wormhole/);
      states.push("retried");
      await waybill.retryRoute(sent.message, ["axelar"]);
    }
    if (final) assert.equal(state, "EXECUTED");
  }
  assert.ok(!signal.aborted, `after ${PATIENCE / 1000} s: ${states.join(", ")}`);
  assert.equal(states.at(-1), "EXECUTED");
  assert.ok(states.includes("retried"), states.join(", "));
});

test("over real GMPs and the relayer, a person connects in the browser, sends, and sees the message executed", async () => {
  const example = await serveExample({ file: devnet.file, deployment, port: 0, stallAfter: 60 });
  const browser = await launchChromium();
  try {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    context.setDefaultTimeout(PATIENCE);
    await new TestWallet(PERSON, new Map(deployment.chains.map(({ chainId, rpcUrls }) => [chainId, rpcUrls[0]!]))).inject(context);
    const page = await context.newPage();
    await page.goto(example.url);
    await page.getByRole("button", { name: "Connect wallet" }).click();
    await page.locator(".account").waitFor();
    await page.getByLabel("Text").fill("Over the real thing");
    for (const gmp of ["hyperlane", "axelar"]) await page.locator("#compose").getByLabel(gmp).check();
    await page.getByRole("button", { name: "Send message" }).click();
    const card = page.locator("article.message").filter({ hasText: "Over the real thing" });
    await card.getByText("the recipient on beta has it", { exact: true }).waitFor();
    assert.equal(await card.locator("tbody tr.counts").count(), 2);
    await page.screenshot({ path: `${SCREENS}dapp-devnet.png`, fullPage: true });
  } finally {
    await browser.close();
    await example.stop();
  }
});

test("over real GMPs and the relayer, a stalled message in a foreign page is retried with the keyboard alone, and executed", async () => {
  const waybill = new Waybill(deployment, { wallet: localWallet(PERSON), pollingInterval: 250 });
  const recipient = deployment.chain("beta").examples.inbox!;
  const request = { source: "alpha", destination: "beta", recipient, payload: stringToHex("embedded") } as const;
  const { id } = await waybill.route({ ...request, gmps: ["hyperlane", "wormhole"], quorum: 2 });
  const files = await embeddingPage(id, devnet.file);
  const foreign = await serveForeign({ ...files, "/": files["/"]!.replace('stall-after="60"', 'stall-after="3"') }, deployment);
  const browser = await launchChromium();
  try {
    const context = await browser.newContext();
    context.setDefaultTimeout(PATIENCE);
    await new TestWallet(PERSON, new Map(deployment.chains.map(({ chainId, rpcUrls }) => [chainId, rpcUrls[0]!]))).inject(context);
    const page = await context.newPage();
    const observed = observe(page);
    await page.goto(foreign.url);
    const element = page.locator("waybill-message");
    await element.getByText(/no delivery from Wormhole/).waitFor();
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement!.shadowRoot!.activeElement!.textContent), "Retry over Axelar");
    await page.keyboard.press("Enter");
    await element.locator('[part~="EXECUTED"]').waitFor();
    assert.equal(await page.evaluate(() => document.activeElement!.localName), "waybill-message", "the focus stays where the button was");
    let asked = 0;
    await element.evaluate((node) => node.remove());
    await page.waitForTimeout(500); // what was on its way
    page.on("request", () => (asked += 1));
    await page.waitForTimeout(3_000);
    assert.equal(asked, 0);
    assert.deepEqual(observed.errors, []);
  } finally {
    await browser.close();
    await foreign.stop();
  }
});

test("tests that are interrupted take their devnet with them", async () => {
  const script = 'const { startDevnet } = await import("./test/devnet.ts"); console.log(JSON.stringify((await startDevnet("axelar")).file));';
  const options = ["--conditions=source", "--import", "tsx", "--input-type=module", "--eval", script];
  const child = spawn(process.execPath, options, { cwd: fileURLToPath(new URL("../..", import.meta.url)), stdio: ["ignore", "pipe", "inherit"] });
  let printed = "";
  for await (const part of child.stdout) {
    printed += part;
    if (printed.endsWith("\n")) break;
  }
  const { chains } = Deployment.parse(JSON.parse(printed), "the devnet's file");
  child.kill("SIGINT");
  child.kill("SIGTERM"); // as the test runner does with what has not ended at once
  assert.deepEqual(await once(child, "exit"), [130, null]);
  for (const chain of chains) await assert.rejects(fetch(chain.rpcUrls[0]!, { method: "POST" }), /fetch failed/);
});
