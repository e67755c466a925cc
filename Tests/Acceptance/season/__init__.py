"""Seasons, and the invariants of single activities that they must keep."""
