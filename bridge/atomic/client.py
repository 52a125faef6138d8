"""Operations on atomic actions. Each is a transaction of one account."""

from __future__ import annotations

from collections.abc import Mapping

from eth_account.signers.base import BaseAccount
from eth_utils import keccak

from bridge.atomic.reader import Step, abort_call, reconcile_calls
from bridge.atomic.records import Action, Branch, BranchState
from bridge.client.client import RefusedError, transact
from bridge.evm.retriers import contract_retry_call
from bridge.evm.routers import RouterReader
from bridge.evm.signing import Signer
from bridge.protocol.addresses import from_bytes32
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message
from bridge.protocol.ports import Call, Chain, Receipt


class ActionClient:
    """Operates on actions with one account.

    Methods raise `RefusedError` if a contract rejects the call, and `NotIncludedError` if the transaction is
    not included before the timeout.
    """

    def __init__(self, deployment: Deployment, chains: Mapping[int, Chain], account: BaseAccount | Signer) -> None:
        self._deployment = deployment
        self._chains = chains
        self._account = account

    async def take(self, step: Step) -> Receipt:
        """Sends the transaction of the next step of an action."""
        return await self._transact(step.chain, step.call)

    async def abort(self, action: Action) -> Receipt:
        """Aborts an undecided action, as its initiator or the coordinator's owner."""
        return await self._transact(action.chain, abort_call(action))

    async def reconcile(self, action: Action, branch: Branch, evidence: str | None) -> Receipt:
        """Brings a participant in line with the decision.

        A DIVERGED participant applies the change when its owner calls it. For any other participant, the
        coordinator's owner vouches that the participant agrees, and the hash of the evidence is recorded on
        chain.

        Raises:
            RefusedError: the contract rejects the call, or required evidence is missing.
        """
        by_participant, by_coordinator = reconcile_calls(action, branch, keccak(text=evidence or ""))
        if branch.participation is not None and branch.participation.state is BranchState.DIVERGED and not evidence:
            return await self._transact(branch.chain, by_participant)
        if not evidence:
            raise RefusedError(
                f"participant {branch.number} is not DIVERGED, so the coordinator's owner must vouch for it: "
                "pass --evidence with proof that the participant's chain agrees with the decision"
            )
        return await self._transact(action.chain, by_coordinator)

    async def retry(self, message: Message, gmps: tuple[Gmp, ...]) -> Receipt:
        """Retries a phase's message as a retrier of the contract that sent it."""
        source = self._deployment.chain(message.source_chain)
        chain = self._chains[source.chain_id]
        router = RouterReader(chain, source.router)
        fees = [(gmp, await router.quote(message, gmp)) for gmp in gmps]
        call = contract_retry_call(message, from_bytes32(message.sender), fees, self._account.address)
        return await self._transact(message.source_chain, call)

    async def _transact(self, chain: int, call: Call) -> Receipt:
        return await transact(self._chains[chain], self._account, call)
