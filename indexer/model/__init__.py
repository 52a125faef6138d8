"""What the whole index agrees on: schemas, kinds of divergence, settings, places and errors."""
