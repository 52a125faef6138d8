"""Deploys Waybill's contracts on the chains of a network and writes the deployments file."""
