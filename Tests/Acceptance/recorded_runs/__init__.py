"""What the checkers of recorded runs share: reading files, verdicts on laws, and the tests of a checker."""
