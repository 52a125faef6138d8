"""Dead letters: messages whose tries are spent, kept whole until somebody decides, and every decision kept for ever.

The four steps are those of the OIP fault tolerance document: notify (`alerts`), analyse (`analysis`), decide (`decisions`),
record (the log itself, `bridge.records.dead_letters`, whose integrity `integrity` verifies).
"""

from __future__ import annotations

from bridge.dlq.office import DeadLetterOffice, DeadLetterSettings

__all__ = ["DeadLetterOffice", "DeadLetterSettings"]
