// Written by scripts/generate_abi.py.

export const lockedRecipientAbi = [
{"type": "function", "name": "lockFor", "inputs": [{"name": "payload", "type": "bytes", "internalType": "bytes"}], "outputs": [{"name": "lock", "type": "uint8", "internalType": "enum MessageLock"}, {"name": "until", "type": "uint64", "internalType": "uint64"}], "stateMutability": "view"},
{"type": "function", "name": "retakeLock", "inputs": [{"name": "payload", "type": "bytes", "internalType": "bytes"}], "outputs": [], "stateMutability": "nonpayable"},
{"type": "error", "name": "NotLockRetaker", "inputs": [{"name": "account", "type": "address", "internalType": "address"}]}
] as const;
