/** Builds the example page and serves it: its own files and nothing else, under a strict content security policy. */

import { createServer, type Server } from "node:http";
import { mkdir, readFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

import type { Deployment } from "@waybill/dapp";

const SOURCES = fileURLToPath(new URL(".", import.meta.url));
/** The explorer's style sheet: both look the same. */
const STYLE = fileURLToPath(new URL("../../bridge/web/static/style.css", import.meta.url));
const OUTPUT = fileURLToPath(new URL("../../build/dapp/example/", import.meta.url));

/** All that is served, and as what. */
const FILES: Readonly<Record<string, readonly [path: string, type: string]>> = {
  "/": [`${SOURCES}index.html`, "text/html; charset=utf-8"],
  "/style.css": [STYLE, "text/css; charset=utf-8"],
  "/icon.svg": [`${SOURCES}icon.svg`, "image/svg+xml"],
  "/main.js": [`${OUTPUT}main.js`, "text/javascript; charset=utf-8"],
};

export interface ExampleOptions {
  /** The deployments file's content, and the same parsed. */
  readonly file: string;
  readonly deployment: Deployment;
  /** 0 takes a free one. */
  readonly port: number;
  /** Seconds after which the page calls a message stalled. */
  readonly stallAfter: number;
}

export interface Example {
  readonly url: string;
  stop(): Promise<void>;
}

/** Builds the page and serves it on this machine only, until stopped. */
export async function serveExample(options: ExampleOptions): Promise<Example> {
  await bundle();
  const settings = JSON.stringify({ deployment: JSON.parse(options.file), stallAfter: options.stallAfter });
  const headers = securityHeaders(options.deployment);
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://localhost");
    const send = (status: number, type: string, body: string | Buffer): void => {
      response.writeHead(status, { ...headers, "content-type": type }).end(request.method === "HEAD" ? undefined : body);
    };
    if (request.method !== "GET" && request.method !== "HEAD") return send(405, "text/plain", "only GET and HEAD");
    if (pathname === "/settings.json") return send(200, "application/json", settings);
    const file = FILES[pathname];
    if (!file) return send(404, "text/plain", "no such file");
    readFile(file[0]).then(
      (body) => send(200, file[1], body),
      (error: unknown) => send(500, "text/plain", String(error)),
    );
  });
  await listen(server, options.port);
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    stop: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}

/** Only this page's own files run and style it, and it talks to itself and to the chains of its network. */
function securityHeaders({ chains }: Deployment): Record<string, string> {
  const origins = [...new Set(chains.flatMap(({ rpcUrls }) => rpcUrls.map((url) => new URL(url).origin)))];
  const policy = [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    `connect-src 'self' ${origins.join(" ")}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
  ];
  return {
    "content-security-policy": policy.join("; "),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
  };
}

async function bundle(): Promise<void> {
  await mkdir(OUTPUT, { recursive: true });
  await build({
    entryPoints: [`${SOURCES}main.ts`],
    outfile: `${OUTPUT}main.js`,
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    conditions: ["source"],
    legalComments: "linked",
    logLevel: "warning",
  });
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      const taken = error.code === "EADDRINUSE";
      reject(taken ? new Error(`port ${port} is taken; choose another with --port, or 0 for any free one`) : error);
    });
    server.listen(port, "127.0.0.1", resolve);
  });
}
