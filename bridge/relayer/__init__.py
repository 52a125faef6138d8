"""The relayer.

It observes messages, delivers and confirms them, and retries, executes and propagates those that need it.
"""
