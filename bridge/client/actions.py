"""What acts on atomic actions: each call as one transaction of one account."""

from __future__ import annotations

from collections.abc import Mapping

from eth_account.signers.base import BaseAccount
from eth_utils import keccak
from web3.types import TxReceipt

from bridge.client.client import RefusedError, transact
from bridge.evm.actions import Step, abort_call, contract_retry_call, reconcile_calls
from bridge.evm.routers import RouterReader
from bridge.evm.signing import Signer
from bridge.protocol.actions import Action, Branch, BranchState
from bridge.protocol.addresses import from_bytes32
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message
from bridge.protocol.ports import Call, Chain


class ActionClient:
    """Acts on actions with one account.

    Methods raise `RefusedError` if a contract refuses, and `NotIncludedError` if no block includes the transaction in time.
    """

    def __init__(self, deployment: Deployment, chains: Mapping[int, Chain], account: BaseAccount | Signer) -> None:
        self._deployment = deployment
        self._chains = chains
        self._account = account

    async def take(self, step: Step) -> TxReceipt:
        """Does what moves an action on."""
        return await self._transact(step.chain, step.call)

    async def abort(self, action: Action) -> TxReceipt:
        """Aborts an action that is not decided, as its initiator or the coordinator's owner."""
        return await self._transact(action.chain, abort_call(action))

    async def reconcile(self, action: Action, branch: Branch, evidence: str | None) -> TxReceipt:
        """Puts a participant right that is not where the decision wants it.

        One that says DIVERGED makes its change, for its owner. For any other the coordinator's owner vouches; the hash of the
        evidence is kept on chain.

        Raises:
            RefusedError: there is no evidence where it is needed, too.
        """
        by_participant, by_coordinator = reconcile_calls(action, branch, keccak(text=evidence or ""))
        if branch.participation is not None and branch.participation.state is BranchState.DIVERGED and not evidence:
            return await self._transact(branch.chain, by_participant)
        if not evidence:
            raise RefusedError(
                f"participant {branch.number} does not say that it diverged, so the coordinator's owner has to vouch for it: say"
                " with --evidence what shows that its chain agrees with the decision"
            )
        return await self._transact(action.chain, by_coordinator)

    async def retry(self, message: Message, gmps: tuple[Gmp, ...]) -> TxReceipt:
        """Sends a phase's message again, as a retrier of the contract that sent it."""
        source = self._deployment.chain(message.source_chain)
        chain = self._chains[source.chain_id]
        router = RouterReader(chain, source.router)
        fees = [(gmp, await router.quote(message, gmp)) for gmp in gmps]
        call = contract_retry_call(message, from_bytes32(message.sender), fees, self._account.address)
        return await self._transact(message.source_chain, call)

    async def _transact(self, chain: int, call: Call) -> TxReceipt:
        return await transact(self._chains[chain], self._account, call)
