"""What survives operation: gains that are switched while the context moves."""
