"""Puts Waybill's contracts on the chains of a network, with Foundry, and writes the deployments file."""

from bridge.deploying.deploy import ChainOutcome, Deployed, DeployError, deploy
from bridge.deploying.plan import NetworkPlan, PlanError, PlannedChain

__all__ = ["ChainOutcome", "DeployError", "Deployed", "NetworkPlan", "PlanError", "PlannedChain", "deploy"]
