"""Readers of the publishers' own files, and what packs them for `tacit.load_dataset`: see `packing`."""
