/**
 * Builds `dist` when npm packs this folder or installs it from its path. A fresh clone has no compiler yet: then the locked
 * development packages are installed first, without running any script of theirs.
 */

import { execFileSync } from "node:child_process";
import { existsSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const cwd = fileURLToPath(new URL(".", import.meta.url));
const npm = (...words) => execFileSync("npm", words, { cwd, stdio: ["ignore", "inherit", "inherit"] });

if (!existsSync(new URL("node_modules/typescript", import.meta.url))) npm("ci", "--ignore-scripts", "--include=dev", "--loglevel=error");
rmSync(new URL("dist", import.meta.url), { recursive: true, force: true });
npm("run", "--silent", "build");
