/** The deployments file as visitors' browsers may have it, with the public RPC URLs only; asked for once, when needed. */

interface PublicChain {
  readonly chainId: number;
  readonly rpcUrls: readonly [string];
}

let asked: Promise<string> | undefined;

export function networkText(): Promise<string> {
  asked ??= fetch("/network.json").then((answer) => answer.text());
  return asked;
}

/** Asks a chain's public node. */
export async function ask(chainId: number, method: string, ...params: readonly unknown[]): Promise<unknown> {
  const { chains } = JSON.parse(await networkText()) as { readonly chains: readonly PublicChain[] };
  const url = chains.find((chain) => chain.chainId === chainId)!.rpcUrls[0];
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
  const answer = await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body });
  const { result } = (await answer.json()) as { readonly result?: unknown };
  if (!result) throw new Error(`chain ${chainId} does not answer ${method}`);
  return result;
}
