"""Publishes the store's and the index's records to Apache Kafka, at least once or exactly once."""
