"""What samples show: fresh episodes, and contexts drawn from a distribution."""
