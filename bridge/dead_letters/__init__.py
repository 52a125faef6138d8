"""Dead letters: messages whose delivery used up its tries, kept in full until an operator decides about them.

Decisions are never deleted.

The four steps are those of the OIP fault tolerance document: notify (`alerts`), analyse (`analysis`), decide
(`decisions`) and record (the log itself, `bridge.records.dead_letters`, whose integrity `integrity` verifies).
"""
