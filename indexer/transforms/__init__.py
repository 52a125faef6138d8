"""Pure functions from DataFrames to DataFrames. Their SQL also runs in the store."""
