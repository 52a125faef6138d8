"""Spark sessions: Java, the jars of Delta, settings, and recovery from outages."""
