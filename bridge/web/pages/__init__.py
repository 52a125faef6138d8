"""The pages, by subject. Each page is a plain function: reading a store blocks, so pages run in threads."""
