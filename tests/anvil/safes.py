"""A real Safe, whose owners' signatures are its own."""

from __future__ import annotations

from eth_abi.abi import encode
from eth_account import Account
from eth_utils import keccak
from eth_utils.address import to_canonical_address, to_checksum_address

from bridge.devnet.accounts import ANVIL_KEYS
from bridge.devnet.artifacts import Artifact
from bridge.evm.chain import EvmChain
from bridge.protocol.ports import Call
from tests.anvil.test_deploying import FACTORY
from tests.anvil.traffic import DAPP, transact

OWNERS = [Account.from_key(key) for key in ANVIL_KEYS[3:6]]
SAFE = Artifact.load("safe", "Safe")
HANDLER = Artifact.load("safe", "CompatibilityFallbackHandler")  # answers isValidSignature (ERC-1271) for a Safe
NOBODY = "0x" + "00" * 20


def create2(factory: str, salt: bytes, code: bytes) -> str:
    return to_checksum_address(keccak(b"\xff" + to_canonical_address(factory) + salt + keccak(code))[12:])


async def send(chain: EvmChain, to: str, data: bytes) -> None:
    receipt = await transact(chain, DAPP, Call(to=to, data=data), gas=16_700_000)
    assert receipt.succeeded


async def safe_on(chain: EvmChain, number: int = 7) -> str:
    """A Safe of three owners, two of whom must sign, at the same address on every chain; each number makes another one."""
    factory = Artifact.load("safe", "SafeProxyFactory")
    artifacts = (SAFE, factory, HANDLER)
    at = [create2(FACTORY, bytes(32), artifact.bytecode) for artifact in artifacts]
    for address, artifact in zip(at, artifacts, strict=True):
        if not await chain.code(address):
            await send(chain, FACTORY, bytes(32) + artifact.bytecode)
    runtime = await chain.call(Call(to=at[0], data=SAFE.contract.encode("VERSION")))
    assert b"1.4.1" in runtime
    names = [owner.address for owner in OWNERS]
    setup = SAFE.contract.encode("setup", names, 2, NOBODY, b"", at[2], NOBODY, 0, NOBODY)
    proxy_code = await chain.call(Call(to=at[1], data=factory.contract.encode("proxyCreationCode")))
    code = factory.contract.decode("proxyCreationCode", proxy_code) + encode(["address"], [at[0]])
    salt = keccak(keccak(setup) + number.to_bytes(32, "big"))
    await send(chain, at[1], factory.contract.encode("createProxyWithNonce", at[0], setup, number))
    return create2(at[1], salt, code)


async def safe_signature(chain: EvmChain, safe: str, digest: bytes, owners: int) -> bytes:
    """The signatures of the first `owners` owners over 32 bytes, as the Safe accepts them for its own."""
    asked = Call(to=safe, data=HANDLER.contract.encode("getMessageHash", digest))
    hashed: bytes = await chain.call(asked)
    signing = sorted(OWNERS[:owners], key=lambda owner: int(owner.address, 16))
    return b"".join(owner.unsafe_sign_hash(hashed).signature for owner in signing)
