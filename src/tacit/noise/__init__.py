"""Noise that a release carries, keyed so that averaging cannot remove it."""
