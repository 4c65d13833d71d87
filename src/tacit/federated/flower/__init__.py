"""Federations between machines, on Flower: TLS, registered keys, and the protocol functions that `simulate` runs."""
