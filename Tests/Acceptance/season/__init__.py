"""The laws of single activities, and seasons that are checked against them."""
