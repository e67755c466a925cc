"""The places of the repository's files, and of the built programs."""
import pathlib

root = pathlib.Path(__file__).resolve().parents[3]
# The folder with the built programs. The program that runs the tests sets it.
programs = None
