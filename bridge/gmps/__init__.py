"""The GMPs that Waybill supports, each with its adapter, its attester for public networks and its devnet."""
