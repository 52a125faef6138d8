"""The GMPs that Waybill speaks. Each has a folder: its adapter, its attester on public networks, its part of a devnet."""
