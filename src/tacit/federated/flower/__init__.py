"""D-EIGAN between machines, on Flower: TLS, registered node keys, and the protocol functions that `simulate` runs."""
