"""Waybill's index: what was sent, what arrived, what has stalled, by Spark over the chains' events."""
