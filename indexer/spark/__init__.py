"""The Spark session: its Java, its settings, and what happens when it goes away."""
