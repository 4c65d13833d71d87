"""Filters: one module per paper; `base` holds the contract."""
