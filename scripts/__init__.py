"""The programs behind `make`: set-up, lock files, code generation, and the test run."""
