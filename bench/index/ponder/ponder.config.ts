import { createConfig } from "ponder";
// build/tools/ponder, where the bench runs a copy of this folder, is as deep as the folder itself.
import { routerAbi } from "../../../dapp/src/abi/Router.ts";

/** What the bench says about its chain; Ponder itself takes its database from DATABASE_URL. */
function setting(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set`);
  return value;
}

export default createConfig({
  chains: {
    source: {
      id: Number(setting("WAYBILL_BENCH_CHAIN")),
      // Ponder begins with 20 requests a second to an endpoint and never makes more than 500: here it may from the start.
      rpc: Array<string>(25).fill(setting("WAYBILL_BENCH_URL")),
    },
  },
  contracts: {
    Router: {
      chain: "source",
      abi: routerAbi,
      address: setting("WAYBILL_BENCH_ROUTER") as `0x${string}`,
      startBlock: 0,
      endBlock: Number(setting("WAYBILL_BENCH_LAST_BLOCK")),
    },
  },
});
