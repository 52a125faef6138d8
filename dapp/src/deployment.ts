/** The deployments file: addresses and endpoints on each chain of a network (docs/formats.md). */

import { type Address, getAddress, isAddress, zeroAddress } from "viem";

import { WaybillError } from "./errors.ts";
import { type Gmp, GMPS } from "./gmps.ts";

const VERSION = 1;

/** Block tags that relayers may wait for. */
const FINALITY_TAGS: readonly string[] = ["safe", "finalized"];

/** A deployments file that can't be used, or a chain or adapter that it does not have. */
export class DeploymentError extends WaybillError {
  override name = "DeploymentError";
}

/** One chain: how to reach it, and Waybill's contracts on it. */
export interface ChainDeployment {
  /** EIP-155 id. */
  readonly chainId: number;
  readonly name: string;
  readonly rpcUrls: readonly string[];
  /** A block not later than the router's creation. */
  readonly startBlock: number;
  /** How many blocks must follow an event's block before the event counts as confirmed. */
  readonly confirmations: number;
  readonly router: Address;
  readonly adapters: Readonly<Partial<Record<Gmp, Address>>>;
  readonly examples: Readonly<Record<string, Address>>;
}

/** A network: chains whose routers know each other. */
export class Deployment {
  readonly network: string;
  readonly chains: readonly ChainDeployment[];

  private constructor(network: string, chains: readonly ChainDeployment[]) {
    this.network = network;
    this.chains = chains;
  }

  /**
   * Reads a deployments file.
   *
   * @param source names the file in errors.
   * @throws {@link DeploymentError} that lists everything that is wrong: not JSON, of an unknown version, or with missing,
   *   unknown or wrong values.
   */
  static parse(text: string, source = "the deployments file"): Deployment {
    let document: unknown;
    try {
      document = JSON.parse(text);
    } catch (error) {
      throw new DeploymentError(`${source} is not valid JSON (${(error as Error).message}); recreate it with \`waybill deploy\``);
    }
    const check = new Check();
    const deployment = check.network(document);
    if (check.problems.length > 0) {
      const problems = check.problems.map((problem) => `  ${problem}`).join("\n");
      throw new DeploymentError(
        `${source} is not a deployments file this version can use:\n${problems}\nwrite it again with \`waybill deploy\``,
      );
    }
    return new Deployment(deployment.network, deployment.chains);
  }

  /** The chain with that id or name; throws {@link DeploymentError} that lists the chains there are. */
  chain(key: number | bigint | string): ChainDeployment {
    const found = this.chains.find((chain) => String(key) === chain.name || String(key) === String(chain.chainId));
    if (found) return found;
    const known = this.chains.map((chain) => `${chain.name} (${chain.chainId})`).join(", ");
    throw new DeploymentError(`network ${this.network} has no chain ${key}; its chains are ${known}`);
  }
}

/** The address of a GMP's adapter; throws {@link DeploymentError} if the chain has none. */
export function adapterOf(chain: ChainDeployment, gmp: Gmp): Address {
  const adapter = chain.adapters[gmp];
  if (adapter) return adapter;
  const known = gmpsOf(chain).join(", ") || "none";
  throw new DeploymentError(`chain ${chain.name} has no adapter for ${gmp}; it has ${known}`);
}

/** The GMPs that have an adapter on a chain. */
export function gmpsOf(chain: ChainDeployment): readonly Gmp[] {
  return GMPS.filter((gmp) => chain.adapters[gmp]);
}

type Fields = Readonly<Record<string, unknown>>;

/** Collects every problem, so that one error lists them all. */
class Check {
  readonly problems: string[] = [];

  network(value: unknown): { network: string; chains: readonly ChainDeployment[] } {
    const fields = this.object(value, "the file", ["version", "network", "chains"]);
    if (fields.version !== VERSION) this.refuse("version", `${show(fields.version)} is unknown; this version reads ${VERSION}`);
    const chains = this.list(fields.chains, "chains").map((chain, index) => this.chain(chain, `chains.${index}`));
    for (const key of ["chainId", "name"] as const) {
      const values = chains.map((chain) => chain[key]);
      const twice = [...new Set(values.filter((entry, index) => values.indexOf(entry) !== index))];
      if (twice.length > 0) this.refuse("chains", `${key} ${twice.join(", ")} stands for more than one chain`);
    }
    return { network: this.text(fields.network, "network"), chains };
  }

  private chain(value: unknown, path: string): ChainDeployment {
    const required = ["chainId", "name", "rpcUrls", "startBlock", "confirmations", "router", "adapters", "gmps"];
    const fields = this.object(value, path, required, ["finality", "agreement", "parameters", "multicall", "examples"]);
    if (fields.finality !== undefined && !FINALITY_TAGS.includes(this.text(fields.finality, `${path}.finality`)))
      this.refuse(`${path}.finality`, `${show(fields.finality)} is none of ${FINALITY_TAGS.join(", ")}`);
    if (fields.parameters !== undefined) this.address(fields.parameters, `${path}.parameters`);
    if (fields.multicall !== undefined) this.address(fields.multicall, `${path}.multicall`);
    const gmps = this.gmps(fields.gmps, `${path}.gmps`);
    const name = this.text(fields.name, `${path}.name`);
    if (name && !/^[a-z0-9-]+$/.test(name)) this.refuse(`${path}.name`, `${show(name)} has other signs than a-z, 0-9 and -`);
    return {
      chainId: this.integer(fields.chainId, `${path}.chainId`, 1),
      name,
      rpcUrls: this.list(fields.rpcUrls, `${path}.rpcUrls`).map((url, index) => this.url(url, `${path}.rpcUrls.${index}`)),
      startBlock: this.integer(fields.startBlock, `${path}.startBlock`, 0),
      confirmations: this.integer(fields.confirmations, `${path}.confirmations`, 0),
      router: this.address(fields.router, `${path}.router`),
      adapters: this.adapters(fields.adapters, `${path}.adapters`, gmps),
      examples: this.addresses(fields.examples ?? {}, `${path}.examples`),
    };
  }

  private adapters(value: unknown, path: string, gmps: Fields): Partial<Record<Gmp, Address>> {
    const adapters = this.addresses(value, path);
    for (const name of Object.keys(adapters)) {
      if (!GMPS.some((gmp) => gmp === name)) this.refuse(`${path}.${name}`, `no GMP; the GMPs are ${GMPS.join(", ")}`);
      else if (!(name in gmps)) this.refuse(`${path}.${name}`, `an adapter, but no contracts under gmps.${name}`);
    }
    return adapters;
  }

  /** The GMPs' sections, which only relayers use; the kit does not check their keys. */
  private gmps(value: unknown, path: string): Fields {
    const sections = this.object(value, path, [], GMPS);
    for (const [name, section] of Object.entries(sections)) {
      for (const [key, entry] of Object.entries(this.record(section, `${path}.${name}`))) {
        if (typeof entry === "string" || typeof entry === "number") continue;
        this.refuse(`${path}.${name}.${key}`, `${show(entry)} is neither text nor a number`);
      }
    }
    return sections;
  }

  private addresses(value: unknown, path: string): Record<string, Address> {
    const fields = this.record(value, path);
    return Object.fromEntries(Object.entries(fields).map(([key, entry]) => [key, this.address(entry, `${path}.${key}`)]));
  }

  private object(value: unknown, path: string, required: readonly string[], optional: readonly string[] = []): Fields {
    const fields = this.record(value, path);
    for (const key of Object.keys(fields)) {
      if (!required.includes(key) && !optional.includes(key)) this.refuse(path, `has an unknown key ${show(key)}`);
    }
    for (const key of required) if (!(key in fields)) this.refuse(path, `lacks ${show(key)}`);
    return fields;
  }

  private record(value: unknown, path: string): Fields {
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Fields;
    if (value !== undefined) this.refuse(path, `${show(value)} is not an object`);
    return {};
  }

  private list(value: unknown, path: string): readonly unknown[] {
    if (Array.isArray(value) && value.length > 0) return value;
    if (value !== undefined) this.refuse(path, `${show(value)} is not a list of at least one`);
    return [];
  }

  private text(value: unknown, path: string): string {
    if (typeof value === "string" && value !== "") return value;
    if (value !== undefined) this.refuse(path, `${show(value)} is not text`);
    return "";
  }

  private url(value: unknown, path: string): string {
    const text = this.text(value, path);
    if (text && !/^(https?|wss?):$/.test(URL.canParse(text) ? new URL(text).protocol : "")) {
      this.refuse(path, `${show(text)} is not an http or ws URL`);
    }
    return text;
  }

  private integer(value: unknown, path: string, least: number): number {
    if (typeof value === "number" && Number.isSafeInteger(value) && value >= least) return value;
    if (value !== undefined) this.refuse(path, `${show(value)} is not a whole number of at least ${least}`);
    return least;
  }

  private address(value: unknown, path: string): Address {
    if (typeof value === "string" && isAddress(value) && value !== zeroAddress) return getAddress(value);
    if (value !== undefined) this.refuse(path, `${show(value)} is not the address of a contract`);
    return zeroAddress;
  }

  private refuse(path: string, why: string): void {
    this.problems.push(`${path}: ${why}`);
  }
}

function show(value: unknown): string {
  return JSON.stringify(value) ?? "nothing";
}
