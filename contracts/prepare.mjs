/** Puts the ABIs beside the sources when npm packs this folder or installs it from its path. */

import { cpSync, existsSync } from "node:fs";

const abis = new URL("../bridge/protocol/abi", import.meta.url);
if (existsSync(abis)) cpSync(abis, new URL("abi", import.meta.url), { recursive: true });
