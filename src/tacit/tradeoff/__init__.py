"""Whole curves of utility against leakage in one run, and the choice of a point on them."""
