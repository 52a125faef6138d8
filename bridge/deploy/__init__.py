"""Deploys Waybill's contracts to the chains of a network, and writes the deployments file."""
