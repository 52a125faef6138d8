// Written by scripts/generate_abi.py.

export const boundedMulticallAbi = [
{"type": "function", "name": "multicall", "inputs": [{"name": "calls", "type": "tuple[]", "internalType": "struct IBoundedMulticall.Call[]", "components": [{"name": "target", "type": "address", "internalType": "address"}, {"name": "gasLimit", "type": "uint256", "internalType": "uint256"}, {"name": "data", "type": "bytes", "internalType": "bytes"}]}], "outputs": [{"name": "succeeded", "type": "uint256", "internalType": "uint256"}], "stateMutability": "nonpayable"},
{"type": "event", "name": "CallsMade", "inputs": [{"name": "succeeded", "type": "uint256", "indexed": false, "internalType": "uint256"}], "anonymous": false},
{"type": "error", "name": "InsufficientCallGas", "inputs": [{"name": "index", "type": "uint256", "internalType": "uint256"}, {"name": "available", "type": "uint256", "internalType": "uint256"}, {"name": "gasLimit", "type": "uint256", "internalType": "uint256"}]},
{"type": "error", "name": "NoCallSucceeded", "inputs": []},
{"type": "error", "name": "TooManyCalls", "inputs": [{"name": "count", "type": "uint256", "internalType": "uint256"}]}
] as const;
