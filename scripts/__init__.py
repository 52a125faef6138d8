"""Set-up, lock files, code generation and the test run: what `make` calls."""
