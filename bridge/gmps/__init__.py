"""The GMPs that Waybill supports, each with an adapter, an attester for public networks, and a devnet."""
