"""Federations between machines, on Flower: the same coordinators and workers that `simulate` runs."""
