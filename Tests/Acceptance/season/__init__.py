"""Seasons, and the laws of single activities against which they are checked."""
