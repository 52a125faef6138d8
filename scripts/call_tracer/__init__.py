"""The folder that a Python process to be traced has on PYTHONPATH."""
