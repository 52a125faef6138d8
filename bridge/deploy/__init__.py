"""Puts Waybill's contracts on the chains of a network, with Foundry, and writes the deployments file."""
