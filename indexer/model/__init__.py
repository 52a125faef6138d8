"""Schemas, kinds of divergence, settings, locations and errors."""
