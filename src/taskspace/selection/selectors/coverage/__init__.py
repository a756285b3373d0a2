"""Our own selector: a model of transfer, a plan on one axis, and who uses both."""
