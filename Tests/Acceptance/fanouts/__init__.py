"""Tests of fan-outs that are disturbed, for example by a worker's death."""
