/** Chromium, and a wallet in it that signs with a key of the test. */

import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";

import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { createWalletClient, type Hex, http, type LocalAccount } from "viem";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const INJECTED = fileURLToPath(new URL("injected-wallet.js", import.meta.url));

export async function launchChromium(): Promise<Browser> {
  const executablePath = execFileSync("python3", ["-m", "scripts.setup_chromium"], { cwd: ROOT, encoding: "utf8" }).trim();
  return chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-background-networking", "--disable-gpu"] });
}

interface WalletRequest {
  readonly method: string;
  readonly params?: readonly [Readonly<Record<string, Hex>>];
}

/** What a wallet answers, or the error that it throws. */
type Answer = { readonly result: unknown } | { readonly error: { readonly code: number; readonly message: string } };

/** A wallet that knows chains by URL, asks nobody, and declines when it is told to. */
export class TestWallet {
  readonly #account: LocalAccount;
  readonly #urls: ReadonlyMap<number, string>;
  #chain: number;
  /** Whether the next transaction is declined. */
  declinesNext = false;

  constructor(account: LocalAccount, urls: ReadonlyMap<number, string>) {
    this.#account = account;
    this.#urls = urls;
    this.#chain = 1;
  }

  /** Puts the wallet into every page of a context, announced as EIP-6963 has it. */
  async inject(context: BrowserContext): Promise<void> {
    await context.exposeFunction("testWalletRequest", (request: WalletRequest) => this.#answer(request));
    await context.addInitScript({ path: INJECTED });
  }

  async #answer(request: WalletRequest): Promise<Answer> {
    try {
      return { result: await this.#handle(request) };
    } catch (error) {
      const { code = -32603, message } = error as { code?: number; message: string };
      return { error: { code, message } };
    }
  }

  async #handle({ method, params }: WalletRequest): Promise<unknown> {
    switch (method) {
      case "eth_requestAccounts":
      case "eth_accounts":
        return [this.#account.address];
      case "eth_chainId":
        return `0x${this.#chain.toString(16)}`;
      case "wallet_switchEthereumChain":
        this.#chain = this.#known(Number(params![0].chainId));
        return null;
      case "eth_signTypedData_v4":
        return this.#account.signTypedData!(JSON.parse((params as unknown as readonly string[])[1]!));
      case "eth_sendTransaction":
        return this.#send(params![0]);
      default:
        return this.#forward(method, params);
    }
  }

  #known(chain: number): number {
    if (this.#urls.has(chain)) return chain;
    throw Object.assign(new Error("Unrecognized chain ID"), { code: 4902 });
  }

  async #send(transaction: Readonly<Record<string, Hex>>): Promise<Hex> {
    if (this.declinesNext) {
      this.declinesNext = false;
      throw Object.assign(new Error("User rejected the request."), { code: 4001 });
    }
    const client = createWalletClient({ account: this.#account, transport: http(this.#urls.get(this.#chain)) });
    const { to, data, value, gas } = transaction;
    return client.sendTransaction({ chain: null, to: to!, data: data!, value: BigInt(value ?? 0), gas: BigInt(gas!) });
  }

  async #forward(method: string, params: unknown): Promise<unknown> {
    const headers = { "content-type": "application/json" };
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: params ?? [] });
    const response = await fetch(this.#urls.get(this.#chain)!, { method: "POST", headers, body });
    const answer = (await response.json()) as { result?: unknown; error?: { code: number; message: string } };
    if (answer.error) throw Object.assign(new Error(answer.error.message), answer.error);
    return answer.result;
  }
}

/** What went wrong in a page, and which servers it spoke to. */
export interface Observed {
  readonly errors: readonly string[];
  readonly origins: ReadonlySet<string>;
}

export function observe(page: Page): Observed {
  const errors: string[] = [];
  const origins = new Set<string>();
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  page.on("request", (request) => origins.add(new URL(request.url()).origin));
  return { errors, origins };
}

/** Errors in the page, but for Chromium's note on a page that is not there, or not yet. */
export const problems = ({ errors }: Observed): readonly string[] => errors.filter((error) => !error.includes("status of 404"));
