"""Waybill's relayer: observes, attests, delivers and retries messages."""

__version__ = "0.1.0"
