"""What runs: source, transforms and sinks wired together, and nothing else."""
