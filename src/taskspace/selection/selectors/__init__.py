"""Ways to choose what to train next, one file each."""
