"""Records on their way in: what a table, window or image is, how its cells are read, and how it is encoded."""
