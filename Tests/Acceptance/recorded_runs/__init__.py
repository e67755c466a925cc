"""What the checkers of recorded runs share: reading files, results of invariants, and the tests of a checker."""
