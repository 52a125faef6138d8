/** Stands between the kit and a chain, and breaks when a test says so. */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface RpcProxy {
  readonly url: string;
  /** While down, every request is answered with HTTP 503. */
  setDown(down: boolean): void;
  /** Answers `eth_getLogs` over more blocks than this with an error, as public nodes do. */
  limitLogRange(blocks: number): void;
  /** Lets something happen while the answer to a method, already given, is on its way. */
  meanwhile(happening: (method: string) => Promise<unknown>): void;
  /** How many requests were refused while it was down. */
  readonly refusals: number;
  /** The methods asked for so far. */
  readonly methods: readonly string[];
  stop(): Promise<void>;
}

interface RpcRequest {
  readonly id: number;
  readonly method: string;
  readonly params: readonly [{ fromBlock: string; toBlock: string }];
}

export async function startRpcProxy(target: string): Promise<RpcProxy> {
  let isDown = false;
  let refusals = 0;
  let logRange = Number.POSITIVE_INFINITY;
  let happen: (method: string) => Promise<unknown> = async () => undefined;
  const methods: string[] = [];

  const answer = async (body: string): Promise<string> => {
    const { id, method, params } = JSON.parse(body) as RpcRequest;
    methods.push(method);
    if (method === "eth_getLogs" && Number(params[0].toBlock) - Number(params[0].fromBlock) >= logRange) {
      return JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32005, message: "query exceeds max block range" } });
    }
    const headers = { "content-type": "application/json" };
    const text = await (await fetch(target, { method: "POST", headers, body })).text();
    await happen(method);
    return text;
  };

  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => (body += chunk.toString()));
    request.on("end", () => {
      refusals += isDown ? 1 : 0;
      if (isDown) return response.writeHead(503).end("down for a test");
      answer(body).then(
        (text) => response.writeHead(200, { "content-type": "application/json" }).end(text),
        (error: unknown) => response.writeHead(502).end(String(error)),
      );
      return response;
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    setDown: (down) => (isDown = down),
    limitLogRange: (blocks) => (logRange = blocks),
    meanwhile: (happening) => (happen = happening),
    get refusals() {
      return refusals;
    },
    methods,
    stop: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}
