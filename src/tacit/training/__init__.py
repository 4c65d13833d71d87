"""Training loops, batches and stacks of networks that the deep filters share."""
