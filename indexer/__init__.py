"""Waybill's index: what was sent, what arrived, what has stalled, by Spark over the chains' events."""

import os

# Arrow's own allocator keeps more of what is freed the longer a process runs: in the running index 50 MB after a quarter of an
# hour, all of it unused. Arrow looks once, when it is first imported.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
