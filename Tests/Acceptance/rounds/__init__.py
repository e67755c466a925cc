"""Tests of fan-outs that are disturbed, for example by a worker's death. "Round" means one command's fan-out here."""
