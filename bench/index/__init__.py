"""How fast the index is, beside what others do, on this machine."""
