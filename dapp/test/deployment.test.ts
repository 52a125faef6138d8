import assert from "node:assert/strict";
import { test } from "node:test";

import { adapterOf, Deployment, DeploymentError, gmpsOf, parseGmp, UnknownGmpError } from "@waybill/dapp";

const ROUTER = "0x5FbDB2315678afecb367f032d93F642f64180aa3";
const CCIP = { selector: 1, router: ROUTER, onRamp: ROUTER };

function chain(chainId: number, name: string): Record<string, unknown> {
  return {
    chainId,
    name,
    rpcUrls: ["http://127.0.0.1:1"],
    startBlock: 0,
    confirmations: 1,
    router: ROUTER,
    adapters: { hyperlane: ROUTER.toLowerCase() },
    gmps: { hyperlane: { domain: chainId, mailbox: ROUTER, merkleTreeHook: ROUTER } },
    examples: { inbox: ROUTER },
  };
}

function file(changes: Record<string, unknown> = {}, firstChain: Record<string, unknown> = {}): string {
  const chains = [{ ...chain(31337, "alpha"), ...firstChain }, chain(31338, "beta")];
  return JSON.stringify({ version: 1, network: "test", chains, ...changes });
}

test("a chain is found by its name, its id as a number, and its id as text", () => {
  const deployment = Deployment.parse(file());
  assert.equal(deployment.network, "test");
  for (const key of ["beta", 31338, 31338n, "31338"]) assert.equal(deployment.chain(key).name, "beta");
});

test("a chain may say what its nodes have to call a block before relayers act on it", () => {
  for (const finality of ["safe", "finalized"]) assert.equal(Deployment.parse(file({}, { finality })).chain("alpha").confirmations, 1);
  assert.equal(Deployment.parse(file({}, { agreement: 2 })).chain("alpha").confirmations, 1);
});

test("an unknown chain is an error that lists the chains there are", () => {
  assert.throws(
    () => Deployment.parse(file()).chain("gamma"),
    new DeploymentError("network test has no chain gamma; its chains are alpha (31337), beta (31338)"),
  );
});

test("addresses come out checksummed, and a missing adapter is an error that lists those there are", () => {
  const alpha = Deployment.parse(file()).chain("alpha");
  assert.equal(adapterOf(alpha, "hyperlane"), ROUTER);
  assert.deepEqual(gmpsOf(alpha), ["hyperlane"]);
  assert.throws(() => adapterOf(alpha, "ccip"), new DeploymentError("chain alpha has no adapter for ccip; it has hyperlane"));
});

test("a CCIP selector may have more bits than a number of JavaScript holds", () => {
  const text = file({}, { gmps: { ccip: CCIP, layerzero: { eid: 30101, endpoint: ROUTER } }, adapters: { ccip: ROUTER } });
  const largest = text.replaceAll('"selector":1', '"selector":18446744073709551615');
  assert.notEqual(largest, text);
  assert.deepEqual(gmpsOf(Deployment.parse(largest).chain("alpha")), ["ccip"]);
});

test("what a GMP needs of relayers is its own affair", () => {
  const gmps = { ccip: { selector: "any", fieldOfALaterVersion: 7 } };
  assert.deepEqual(gmpsOf(Deployment.parse(file({}, { gmps, adapters: { ccip: ROUTER } })).chain("alpha")), ["ccip"]);
});

test("a file that is no JSON is refused with its name and what to do", () => {
  assert.throws(() => Deployment.parse("{", "devnet.json"), /^DeploymentError: devnet\.json is not valid JSON .*`waybill deploy`/);
});

for (const [what, text, problem] of [
  ["finality of no tag", file({}, { finality: "latest" }), 'chains.0.finality: "latest" is none of safe, finalized'],
  ["an unknown version", file({ version: 2 }), "version: 2 is unknown; this version reads 1"],
  ["an unknown key", file({ colour: "red" }), 'the file: has an unknown key "colour"'],
  ["no chains", file({ chains: [] }), "chains: [] is not a list of at least one"],
  ["a list for a file", "[]", "the file: [] is not an object"],
  ["a missing router", file({}, { router: undefined }), 'chains.0: lacks "router"'],
  ["a router that is none", file({}, { router: "0x12" }), 'chains.0.router: "0x12" is not the address of a contract'],
  ["the zero address", file({}, { router: `0x${"0".repeat(40)}` }), "is not the address of a contract"],
  ["a wrong checksum", file({}, { router: ROUTER.replace("F", "f") }), "is not the address of a contract"],
  ["a chain id in text", file({}, { chainId: "31337" }), 'chains.0.chainId: "31337" is not a whole number of at least 1'],
  ["a chain named twice", file({}, { name: "beta" }), "chains: name beta stands for more than one chain"],
  ["a chain id twice", file({}, { chainId: 31338 }), "chains: chainId 31338 stands for more than one chain"],
  ["a chain's name with a space", file({}, { name: "al pha" }), 'chains.0.name: "al pha" has other signs'],
  ["an RPC URL that is none", file({}, { rpcUrls: ["localhost"] }), 'chains.0.rpcUrls.0: "localhost" is not an http or ws URL'],
  ["a script for an RPC URL", file({}, { rpcUrls: ["javascript:1"] }), "is not an http or ws URL"],
  ["a GMP that is none", file({}, { adapters: { pigeon: ROUTER } }), "chains.0.adapters.pigeon: no GMP; the GMPs are hyperlane"],
  ["an adapter without its GMP", file({}, { adapters: { axelar: ROUTER } }), "no contracts under gmps.axelar"],
  ["a GMP whose contracts are a list", file({}, { gmps: { hyperlane: [ROUTER] } }), `chains.0.gmps.hyperlane: ["${ROUTER}"] is not an object`],
  ["a GMP's contract in an object", file({}, { gmps: { hyperlane: { mailbox: { at: ROUTER } } } }), `gmps.hyperlane.mailbox: {"at":"${ROUTER}"} is neither text nor a number`],
] as const) {
  test(`a deployments file with ${what} is refused`, () => {
    assert.throws(
      () => Deployment.parse(text, "devnet.json"),
      (error) => error instanceof DeploymentError && error.message.startsWith("devnet.json") && error.message.includes(problem),
    );
  });
}

test("every problem of a deployments file is named at once, each once", () => {
  assert.throws(
    () => Deployment.parse(file({ version: 9 }, { chainId: -1, router: null })),
    (error) => error instanceof DeploymentError && error.message.split("\n").length === 5,
  );
});

test("a GMP is found by its name in any case, and an unknown one is refused with the names there are", () => {
  assert.equal(parseGmp(" Hyperlane "), "hyperlane");
  assert.throws(() => parseGmp("pigeon"), new UnknownGmpError('unknown GMP "pigeon"; the GMPs are hyperlane, axelar, wormhole, layerzero, ccip'));
});
