"""Tests of rounds through an audience that are disturbed, for example by a worker's death."""
