"""Solvers of the games that filters play: Kiwiel, alternation, closed forms, exact codes."""
