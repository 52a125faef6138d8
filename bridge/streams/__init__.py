"""Streams out: publishes what store and index record to Apache Kafka, at least once or exactly once."""
