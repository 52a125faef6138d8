"""Waybill's relayer: observes, attests, delivers and retries messages."""
