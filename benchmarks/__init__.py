"""Everything that is timed: each figure a ratio, or a count, from one run."""
