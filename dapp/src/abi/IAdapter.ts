// Written by scripts/generate_abi.py.

export const adapterAbi = [
{"type": "function", "name": "disconnect", "inputs": [{"name": "chain", "type": "uint64", "internalType": "uint64"}, {"name": "remoteAdapter", "type": "bytes32", "internalType": "bytes32"}], "outputs": [], "stateMutability": "nonpayable"},
{"type": "function", "name": "dispatch", "inputs": [{"name": "destinationChain", "type": "uint64", "internalType": "uint64"}, {"name": "destinationRouter", "type": "bytes32", "internalType": "bytes32"}, {"name": "envelope", "type": "bytes", "internalType": "bytes"}, {"name": "gasLimit", "type": "uint64", "internalType": "uint64"}, {"name": "refundTo", "type": "address", "internalType": "address"}], "outputs": [], "stateMutability": "payable"},
{"type": "function", "name": "quote", "inputs": [{"name": "destinationChain", "type": "uint64", "internalType": "uint64"}, {"name": "destinationRouter", "type": "bytes32", "internalType": "bytes32"}, {"name": "envelope", "type": "bytes", "internalType": "bytes"}, {"name": "gasLimit", "type": "uint64", "internalType": "uint64"}], "outputs": [{"name": "fee", "type": "uint256", "internalType": "uint256"}], "stateMutability": "view"},
{"type": "function", "name": "remoteAdapterOf", "inputs": [{"name": "chain", "type": "uint64", "internalType": "uint64"}, {"name": "remoteRouter", "type": "bytes32", "internalType": "bytes32"}], "outputs": [{"name": "", "type": "bytes32", "internalType": "bytes32"}], "stateMutability": "view"},
{"type": "function", "name": "router", "inputs": [], "outputs": [{"name": "", "type": "address", "internalType": "address"}], "stateMutability": "view"},
{"type": "function", "name": "transport", "inputs": [], "outputs": [{"name": "", "type": "address", "internalType": "address"}], "stateMutability": "view"},
{"type": "event", "name": "Connected", "inputs": [{"name": "chain", "type": "uint64", "indexed": true, "internalType": "uint64"}, {"name": "remoteRouter", "type": "bytes32", "indexed": true, "internalType": "bytes32"}, {"name": "remoteAdapter", "type": "bytes32", "indexed": false, "internalType": "bytes32"}], "anonymous": false},
{"type": "event", "name": "Disconnected", "inputs": [{"name": "chain", "type": "uint64", "indexed": true, "internalType": "uint64"}, {"name": "remoteRouter", "type": "bytes32", "indexed": true, "internalType": "bytes32"}, {"name": "remoteAdapter", "type": "bytes32", "indexed": false, "internalType": "bytes32"}], "anonymous": false},
{"type": "event", "name": "DuplicateAbsorbed", "inputs": [{"name": "messageId", "type": "bytes32", "indexed": true, "internalType": "bytes32"}, {"name": "gmp", "type": "uint8", "indexed": true, "internalType": "Gmp"}], "anonymous": false},
{"type": "error", "name": "NotConnected", "inputs": [{"name": "chain", "type": "uint64", "internalType": "uint64"}, {"name": "remoteRouter", "type": "bytes32", "internalType": "bytes32"}]},
{"type": "error", "name": "OnlyGmp", "inputs": [{"name": "caller", "type": "address", "internalType": "address"}]},
{"type": "error", "name": "OnlyOwner", "inputs": [{"name": "caller", "type": "address", "internalType": "address"}]},
{"type": "error", "name": "OnlyRouter", "inputs": [{"name": "caller", "type": "address", "internalType": "address"}]},
{"type": "error", "name": "RemoteAlreadyConnected", "inputs": [{"name": "chain", "type": "uint64", "internalType": "uint64"}, {"name": "remoteAdapter", "type": "bytes32", "internalType": "bytes32"}, {"name": "remoteRouter", "type": "bytes32", "internalType": "bytes32"}]},
{"type": "error", "name": "UntrustedRemote", "inputs": [{"name": "chain", "type": "uint64", "internalType": "uint64"}, {"name": "remoteAdapter", "type": "bytes32", "internalType": "bytes32"}]},
{"type": "error", "name": "WrongFee", "inputs": [{"name": "value", "type": "uint256", "internalType": "uint256"}, {"name": "fee", "type": "uint256", "internalType": "uint256"}]},
{"type": "error", "name": "WrongRemoteRouter", "inputs": [{"name": "chain", "type": "uint64", "internalType": "uint64"}, {"name": "remoteAdapter", "type": "bytes32", "internalType": "bytes32"}, {"name": "router", "type": "bytes32", "internalType": "bytes32"}]},
{"type": "error", "name": "ZeroConnection", "inputs": []}
] as const;
