"""The whole story on an emulator of its own: backfill, live changes, what a lookup saves. It checks its own claims."""

from projections.demo.story import Narrator, Story, demo

__all__ = ["Narrator", "Story", "demo"]
