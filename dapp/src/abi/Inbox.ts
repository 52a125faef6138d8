// Written by scripts/generate_abi.py.

export const inboxAbi = [
{"type": "constructor", "inputs": [{"name": "router_", "type": "address", "internalType": "address"}, {"name": "owner", "type": "address", "internalType": "address"}], "stateMutability": "nonpayable"},
{"type": "function", "name": "closed", "inputs": [], "outputs": [{"name": "", "type": "bool", "internalType": "bool"}], "stateMutability": "view"},
{"type": "function", "name": "lastPayload", "inputs": [], "outputs": [{"name": "", "type": "bytes", "internalType": "bytes"}], "stateMutability": "view"},
{"type": "function", "name": "owner", "inputs": [], "outputs": [{"name": "", "type": "address", "internalType": "address"}], "stateMutability": "view"},
{"type": "function", "name": "receiveMessage", "inputs": [{"name": "receiveId", "type": "bytes32", "internalType": "bytes32"}, {"name": "sender", "type": "bytes", "internalType": "bytes"}, {"name": "payload", "type": "bytes", "internalType": "bytes"}], "outputs": [{"name": "", "type": "bytes4", "internalType": "bytes4"}], "stateMutability": "payable"},
{"type": "function", "name": "received", "inputs": [], "outputs": [{"name": "", "type": "uint256", "internalType": "uint256"}], "stateMutability": "view"},
{"type": "function", "name": "renounceOwnership", "inputs": [], "outputs": [], "stateMutability": "nonpayable"},
{"type": "function", "name": "router", "inputs": [], "outputs": [{"name": "", "type": "address", "internalType": "address"}], "stateMutability": "view"},
{"type": "function", "name": "setClosed", "inputs": [{"name": "closed_", "type": "bool", "internalType": "bool"}], "outputs": [], "stateMutability": "nonpayable"},
{"type": "function", "name": "timesReceived", "inputs": [{"name": "messageId", "type": "bytes32", "internalType": "bytes32"}], "outputs": [{"name": "times", "type": "uint256", "internalType": "uint256"}], "stateMutability": "view"},
{"type": "function", "name": "transferOwnership", "inputs": [{"name": "newOwner", "type": "address", "internalType": "address"}], "outputs": [], "stateMutability": "nonpayable"},
{"type": "event", "name": "ClosedSet", "inputs": [{"name": "closed", "type": "bool", "indexed": false, "internalType": "bool"}], "anonymous": false},
{"type": "event", "name": "OwnershipTransferred", "inputs": [{"name": "previousOwner", "type": "address", "indexed": true, "internalType": "address"}, {"name": "newOwner", "type": "address", "indexed": true, "internalType": "address"}], "anonymous": false},
{"type": "event", "name": "Received", "inputs": [{"name": "messageId", "type": "bytes32", "indexed": true, "internalType": "bytes32"}, {"name": "sender", "type": "bytes", "indexed": false, "internalType": "bytes"}, {"name": "payload", "type": "bytes", "indexed": false, "internalType": "bytes"}], "anonymous": false},
{"type": "error", "name": "Closed", "inputs": []},
{"type": "error", "name": "ERC7786RecipientUnauthorizedGateway", "inputs": [{"name": "gateway", "type": "address", "internalType": "address"}, {"name": "sender", "type": "bytes", "internalType": "bytes"}]},
{"type": "error", "name": "OwnableInvalidOwner", "inputs": [{"name": "owner", "type": "address", "internalType": "address"}]},
{"type": "error", "name": "OwnableUnauthorizedAccount", "inputs": [{"name": "account", "type": "address", "internalType": "address"}]}
] as const;
