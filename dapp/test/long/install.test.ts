/** The package as a dApp's developer gets it: packed, and installed in a project outside the repository. */

import assert from "node:assert/strict";
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";

import { routerAbi } from "@waybill/dapp";
import { factsOf } from "../../src/facts.ts";
import { readmeBlocks } from "../foreign.ts";
import { STRANGER, TestNetwork } from "../network.ts";

const run = promisify(execFile);
const PACKAGE = fileURLToPath(new URL("../..", import.meta.url));
/** The oldest that the kit's peer range allows; the kit itself is developed with a newer one. */
const OLDEST_VIEM = "2.21.0";
/** The key of the account that the test network's user has, as anvil funds it. */
const USER_KEY = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d";
const NPM = ["--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error"];

let folder: string;
/** The kit's folder as a clone has it, built by nobody. */
let clone: string;
let tarball: string;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "waybill kit ")); // paths have spaces on many machines
  clone = join(folder, "clone");
  const isSource = (path: string): boolean => !/^(node_modules|dist)/.test(path.slice(PACKAGE.length));
  await cp(PACKAGE, clone, { recursive: true, filter: isSource });
  await symlink(join(PACKAGE, "node_modules"), join(clone, "node_modules"));
  await run("npm", ["pack", "--silent", clone, "--pack-destination", folder], { cwd: folder });
  tarball = join(folder, (await readdir(folder)).find((name) => name.endsWith(".tgz"))!);
});

after(() => rm(folder, { recursive: true, force: true }));

/** An empty project of a dApp's, with those packages installed. */
async function project(name: string, ...packages: readonly string[]): Promise<string> {
  const root = join(folder, name);
  await mkdir(root);
  await writeFile(join(root, "package.json"), JSON.stringify({ name, private: true, type: "module" }));
  await run("npm", ["install", ...NPM, ...packages], { cwd: root });
  return root;
}

test("the packed kit compiles and runs the README's code beside another viem", { timeout: 240_000 }, async () => {
  const root = await project("oldest", tarball, `viem@${OLDEST_VIEM}`);
  assert.match(await readFile(join(root, "node_modules/viem/package.json"), "utf8"), new RegExp(`"version": "${OLDEST_VIEM}"`));
  assert.match(await readFile(join(root, "node_modules/@waybill/dapp/LICENSE"), "utf8"), /MIT/);
  const description = JSON.parse(await readFile(join(root, "node_modules/@waybill/dapp/package.json"), "utf8")) as Record<string, unknown>;
  assert.deepEqual([description.private, description.dependencies], [undefined, undefined]);
  const installed = await run("npm", ["ls", "viem", "--all", "--parseable"], { cwd: root });
  assert.equal(installed.stdout.trim().split("\n").length, 1, "viem is the dApp's own, and there is no other");
  assert.ok(!(await readdir(join(root, "node_modules"))).includes("react"), "who does not use React does not get it");
  const readme = await readFile(join(root, "node_modules/@waybill/dapp/README.md"), "utf8");
  assert.match(readme, /^## Install$/m);
  const blocks = [...readme.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map((match) => match[1]!);
  assert.ok(blocks.length >= 6);
  await Promise.all(blocks.map((block, index) => writeFile(join(root, `block-${index + 1}.ts`), block)));
  await compile(root);
  await runsTheFirst(root);
});

test("the kit installs from its folder, which has been built by nobody", { timeout: 240_000 }, async () => {
  for (const [name, ...options] of [["linked"], ["copied", "--install-links"]] as const) {
    await rm(join(clone, "dist"), { recursive: true, force: true });
    const root = await project(name, ...options, clone, "viem");
    const script = 'import { Waybill } from "@waybill/dapp"; console.log(typeof Waybill)';
    const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", script], { cwd: root });
    assert.equal(stdout.trim(), "function", name);
  }
});

test("the element and the React hook of the packed kit load, and compile in a dApp of its own", { timeout: 240_000 }, async () => {
  const react = ["react", "@types/react"].map((name) => join(PACKAGE, "node_modules", name));
  const root = await project("embedding", tarball, "viem", ...react);
  const script = `
    import { WaybillMessageElement } from "@waybill/dapp/element";
    import { useWaybillMessage } from "@waybill/dapp/react";
    console.log(typeof WaybillMessageElement, typeof useWaybillMessage);`;
  const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", script], { cwd: root });
  assert.equal(stdout.trim(), "function function", "on a server, where there are no elements");
  await writeFile(join(root, "transfer.tsx"), readmeBlocks("tsx")[0]!);
  const typed = `
    import "@waybill/dapp/element";
    import type { WaybillMessageEvents } from "@waybill/dapp/element";
    const shown = document.querySelector("waybill-message")!;
    shown.provider = { request: async () => undefined };
    shown.addEventListener("waybill-error", (event) => (event as WaybillMessageEvents["waybill-error"]).detail.message);
    // @ts-expect-error a wallet is no text
    shown.wallet = "0x";`;
  await writeFile(join(root, "page.ts"), typed);
  await compile(root);
});

test("the element is at most 60 KB gzipped, with the kit and viem in it, and a bundler keeps it", async () => {
  const element = await bundle('import "@waybill/dapp/element"');
  assert.match(new TextDecoder().decode(element), /waybill-message/);
  const size = gzipSync(element).length;
  assert.ok(size < 60_000, `the element is ${size} bytes gzipped`);
  const kit = gzipSync(await bundle('export { Waybill, Deployment, connectWallet } from "@waybill/dapp"')).length;
  assert.ok(kit < 60_000 && kit > 30_000, `the kit with a browser's wallet is ${kit} bytes gzipped`);
  const hook = gzipSync(await bundle('export * from "@waybill/dapp/react"', ["react"])).length;
  assert.ok(hook < 60_000, `the hook is ${hook} bytes gzipped`);
});

test("a bundler keeps of the kit what is imported, and viem only where it is used", async () => {
  const names = await bundled('export { GMPS } from "@waybill/dapp"');
  assert.ok(names < 1_000, `GMPS alone is ${names} bytes`);
  const bits = await bundled('export { gmpsFromBits } from "@waybill/dapp"');
  assert.ok(bits < 1_500, `gmpsFromBits alone is ${bits} bytes`);
  const whole = await bundled('export { Waybill } from "@waybill/dapp"');
  assert.ok(whole > 50_000, "the whole kit must be larger, or nothing was measured");
});

test("the kit is at most 40 KB gzipped, and viem is not in it", async () => {
  const kit = gzipSync(await bundle('export * from "@waybill/dapp"', ["viem", "viem/*"])).length;
  assert.ok(kit < 40_000, `the whole kit is ${kit} bytes gzipped`);
  assert.ok(kit > 5_000, "or nothing was measured");
});

test("the kit loads where a project requires it, too", async () => {
  const root = await project("required", tarball, "viem");
  const script = 'const { Waybill } = require("@waybill/dapp"); import("@waybill/dapp").then((kit) => console.log(kit.Waybill === Waybill))';
  const { stdout } = await run(process.execPath, ["--eval", script], { cwd: root });
  assert.equal(stdout.trim(), "true", "one class, whichever way it was loaded");
});

async function compile(root: string): Promise<void> {
  const options = { target: "es2022", lib: ["es2023", "dom"], module: "nodenext", jsx: "react-jsx", strict: true, skipLibCheck: true };
  const types = { typeRoots: [join(PACKAGE, "node_modules/@types")], types: ["node"] };
  await writeFile(join(root, "tsconfig.json"), JSON.stringify({ compilerOptions: { ...options, ...types }, include: ["*.ts", "*.tsx"] }));
  await run(join(PACKAGE, "node_modules/.bin/tsc"), ["--project", root], { cwd: root }).catch((error: { stdout: string }) => {
    throw new Error(error.stdout);
  });
}

/** The README's first block sends and watches; here the GMPs deliver once it has sent. */
async function runsTheFirst(root: string): Promise<void> {
  const network = await TestNetwork.start();
  let dapp: ChildProcess | undefined;
  try {
    await mkdir(join(root, "deployments"));
    await writeFile(join(root, "deployments/devnet.json"), network.file());
    const environment = { ...process.env, WAYBILL_KEY: USER_KEY, WAYBILL_RELAYER: STRANGER.address };
    dapp = spawn(process.execPath, ["block-1.js"], { cwd: root, env: environment, stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    for (const stream of [dapp.stdout!, dapp.stderr!]) stream.setEncoding("utf8").on("data", (text: string) => (said += text));
    const ended = new Promise((resolve) => dapp!.once("exit", resolve));
    const message = await Promise.race([routed(network), ended.then(() => Promise.reject(new Error(said)))]);
    for (const gmp of ["hyperlane", "axelar"] as const) await network.deliver(message, gmp);
    await network.pass(1); // a block on top confirms it
    assert.equal(await ended, 0, said);
    assert.match(said, /^EXECUTED the recipient on beta has it \(final\)$/m);
  } finally {
    dapp?.kill("SIGKILL");
    await network.stop();
  }
}

async function routed(network: TestNetwork) {
  const { client, router } = network.alpha;
  const source = network.deployment().chain("alpha");
  for (;;) {
    const logs = await client.getContractEvents({ address: router, abi: routerAbi, eventName: "MessageRouted", fromBlock: 0n });
    const fact = factsOf(source, logs).find(({ type }) => type === "routed");
    if (fact?.type === "routed") return fact.message;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** How many bytes a bundle of that module has, minified. */
async function bundled(code: string): Promise<number> {
  return (await bundle(code)).length;
}

async function bundle(code: string, external: string[] = []): Promise<Uint8Array> {
  const root = join(folder, "bundle");
  await mkdir(join(root, "node_modules/@waybill"), { recursive: true });
  await run("tar", ["-xzf", tarball, "-C", root]);
  await symlink(join(root, "package"), join(root, "node_modules/@waybill/dapp")).catch(() => undefined);
  await symlink(join(PACKAGE, "node_modules/viem"), join(root, "node_modules/viem")).catch(() => undefined);
  const { outputFiles } = await build({
    stdin: { contents: code, resolveDir: root },
    bundle: true,
    minify: true,
    format: "esm",
    write: false,
    nodePaths: [join(root, "node_modules"), join(PACKAGE, "node_modules")],
    external,
  });
  return outputFiles[0]!.contents;
}
