// Written by scripts/generate_abi.py.

/** A transport's stable number on chain, 1…16. */
export const GMP_NUMBERS = { hyperlane: 1, axelar: 2, wormhole: 3, layerzero: 4, ccip: 5 } as const;
