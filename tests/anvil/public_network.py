"""A public network as a relayer sees it: the GMPs' own parties at work elsewhere, and their public services over HTTP."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from eth_account.signers.local import LocalAccount
from eth_utils.address import to_checksum_address

from bridge.devnet.accounts import ANVIL_KEYS, account
from bridge.devnet.artifacts import Artifact
from bridge.devnet.attesting import sign_digest
from bridge.devnet.deployer import Deployer
from bridge.devnet.gmps import devnet_attesters
from bridge.gmps.attestation import JsonDocuments
from bridge.gmps.axelar.adapter import AxelarContracts
from bridge.gmps.ccip.message import CcipMessage, decode_results
from bridge.gmps.hyperlane.adapter import HyperlaneContracts
from bridge.gmps.hyperlane.devnet import VALIDATORS, HyperlaneValidators
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Call, Dispatch
from tests.anvil.traffic import World, transact

PAYER = account(ANVIL_KEYS[6])


@dataclass
class PublicNetwork:
    """The GMPs' parties, and what they publish; `world` is a devnet whose keys only they use."""

    world: World
    documents: dict[str, Any] = field(default_factory=dict)  # by path
    announce: dict[str, str] = field(default_factory=dict)  # ValidatorAnnounce, by name of the chain
    url: str = ""
    asking: JsonDocuments = field(default_factory=lambda: JsonDocuments(timeout=2))  # asks them
    prefix: str = ""  # of the paths that are asked for: the bucket, as S3's clients name it

    @property
    def settings(self) -> dict[Gmp, Any]:
        """What a relayer has to be told."""
        hosts = (self.url,)
        return {Gmp.WORMHOLE: hosts, Gmp.CCIP: hosts, Gmp.HYPERLANE: self.announce}

    async def attest(self, dispatch: Dispatch) -> None:
        """The GMP's own parties do their part."""
        attester = devnet_attesters(self.world.deployment, self.world.chains)[dispatch.gmp]
        match dispatch.gmp:
            case Gmp.HYPERLANE:
                for validator in VALIDATORS:
                    await self.sign_checkpoint(dispatch, validator)
            case Gmp.WORMHOLE:
                path = f"/v1/signed_vaa/{dispatch.transport_id}"
                self.documents[path] = {"vaaBytes": base64.b64encode(await attester.attest(dispatch)).decode()}
            case Gmp.AXELAR:
                destination = self.world.deployment.chain(dispatch.destination_chain)
                approval = Call(to=AxelarContracts.of(destination).gateway, data=await attester.attest(dispatch))
                assert (await transact(self.world.chains[destination.chain_id], PAYER, approval)).succeeded
            case Gmp.LAYERZERO:
                await attester.attest(dispatch)
            case Gmp.CCIP:
                await self.world.deliver(Gmp.CCIP, dispatch)

    async def sign_checkpoint(
        self, dispatch: Dispatch, validator: LocalAccount, *, signer: LocalAccount | None = None
    ) -> None:
        """A Hyperlane validator publishes its checkpoint, in the agents' own format; or somebody else in its place."""
        source = self.world.deployment.chain(dispatch.source_chain)
        signing = HyperlaneValidators(self.world.deployment, self.world.chains, [signer or validator])
        metadata = await signing.attest(dispatch)
        root, leaf, signature = metadata[32:64], int.from_bytes(metadata[64:68], "big"), metadata[68:]
        self.documents[f"/{validator.address}/checkpoint_{leaf}_with_id.json"] = {
            "value": {
                "checkpoint": {
                    "merkle_tree_hook_address": f"0x{metadata[:32].hex()}",
                    "mailbox_domain": HyperlaneContracts.of(source).domain,
                    "root": f"0x{root.hex()}",
                    "index": leaf,
                },
                "message_id": dispatch.transport_id,
            },
            "signature": {"r": f"0x{signature[:32].hex()}", "s": f"0x{signature[32:64].hex()}", "v": signature[64]},
            "serialized_signature": f"0x{signature.hex()}",
        }

    async def publish_results(self, dispatch: Dispatch) -> dict[str, Any]:
        """CCIP's API has what verifiers of 2.0 signed; its document.

        A fixture: names and types are those of `RawExecutionInputsResult` in version 1.6.2 of CCIP's own SDK.
        """
        attestation = await devnet_attesters(self.world.deployment, self.world.chains)[Gmp.CCIP].attest(dispatch)
        resolvers, results = decode_results(attestation)
        message = CcipMessage.of_dispatch(dispatch)
        document = {
            "offramp": message.off_ramp,
            "encodedMessage": f"0x{message.packed.hex()}",
            "verificationComplete": True,
            "ccvData": [f"0x{result.hex()}" for result in results],
            "verifierAddresses": [to_checksum_address(resolver) for resolver in resolvers],
        }
        self.documents[f"/v2/messages/{dispatch.transport_id}/execution-inputs"] = document
        return document

    async def announce_validators(self, bucket: str | None = None) -> None:
        """The validators say on every chain where their signatures are: here, or in a bucket of S3 that is here."""
        storage = self.url if bucket is None else f"s3://{bucket}/us-east-1"
        self.prefix = "" if bucket is None else f"/{bucket}"
        artifact = Artifact.load("hyperlane", "ValidatorAnnounce")
        for deployed in self.world.deployment.chains:
            chain = self.world.chains[deployed.chain_id]
            deployer = await Deployer.on(chain, PAYER)
            contract = deployer.create(artifact, HyperlaneContracts.of(deployed).mailbox)
            await deployer.send()
            for validator in VALIDATORS:
                location = f"{storage}/{validator.address}"
                asked = Call(to=contract, data=artifact.contract.encode("getAnnouncementDigest", location))
                digest = artifact.contract.decode("getAnnouncementDigest", await chain.call(asked))
                signature = sign_digest(validator, digest)
                deployer.call(artifact, contract, "announce", validator.address, location, signature)
                self.documents[f"/{validator.address}/announcement.json"] = {
                    "value": {
                        "validator": validator.address,
                        "mailbox_domain": HyperlaneContracts.of(deployed).domain,
                        "mailbox_address": HyperlaneContracts.of(deployed).mailbox,
                        "storage_location": location,
                    }
                }
            await deployer.send()
            self.announce[deployed.name] = contract

    async def _serve(self, request: web.Request) -> web.Response:
        document = self.documents.get(request.path.removeprefix(self.prefix))
        if document is None:  # as guardians say it
            return web.json_response({"code": 5, "message": "requested VAA not found in store"}, status=404)
        return document if isinstance(document, web.Response) else web.json_response(document)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serves the public services on a free port."""
        application = web.Application()
        application.router.add_get("/{path:.*}", self._serve)
        runner = web.AppRunner(application, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            async with self.asking:
                yield
        finally:
            await runner.cleanup()
