/** Another site's page, which embeds Waybill under a strict content security policy. */

import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

import type { Deployment } from "@waybill/dapp";

const PACKAGE = fileURLToPath(new URL("..", import.meta.url));
const TYPES: Readonly<Record<string, string>> = { html: "text/html; charset=utf-8", js: "text/javascript", css: "text/css", json: "application/json" };

export interface ForeignPage {
  readonly url: string;
  stop(): Promise<void>;
}

/** The README's blocks of a language. */
export function readmeBlocks(language: string): string[] {
  const readme = readFileSync(`${PACKAGE}README.md`, "utf8");
  return [...readme.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, "gm"))].map((match) => match[1]!);
}

/** The README's page about that message, and the files beside it. */
export async function embeddingPage(id: string, network: string): Promise<Record<string, string>> {
  const [html] = readmeBlocks("html");
  const [script] = readmeBlocks("js");
  return {
    "/": html!.replace("0x…", id).replace("https://dapp.example/network.json", "/network.json"),
    "/wallet.js": script!,
    "/style.css": "body { color: #222; background: #fff; }",
    "/network.json": network,
    "/waybill-message.js": await bundled('import "@waybill/dapp/element"'),
  };
}

/** A module and all that it imports, in one file. */
export async function bundled(contents: string): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: PACKAGE, loader: "tsx" },
    bundle: true,
    minify: true,
    format: "esm",
    jsx: "automatic",
    conditions: ["source"],
    define: { "process.env.NODE_ENV": '"production"' },
    write: false,
  });
  return outputFiles[0]!.text;
}

/** Serves files by path; the page may load its own and talk to the chains, and nothing else. */
export async function serveForeign(files: Readonly<Record<string, string>>, { chains }: Deployment): Promise<ForeignPage> {
  const origins = chains.flatMap(({ rpcUrls }) => rpcUrls.map((url) => new URL(url).origin));
  const policy = [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    `connect-src 'self' ${origins.join(" ")}`,
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
  ].join("; ");
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url!, "http://localhost");
    const body = files[pathname];
    const type = TYPES[pathname === "/" ? "html" : pathname.split(".").at(-1)!] ?? "text/plain";
    const icon = pathname === "/favicon.ico"; // Chromium asks for one without being told of it
    response.writeHead(body === undefined ? (icon ? 204 : 404) : 200, { "content-type": type, "content-security-policy": policy }).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    stop: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}
