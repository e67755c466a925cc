"""Disturbed rounds through an audience."""
