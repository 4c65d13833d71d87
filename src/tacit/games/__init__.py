"""Solvers and training loops that filters share."""
