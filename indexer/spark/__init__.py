"""Spark sessions: Java, Delta's jars, settings, and recovery from outages."""
