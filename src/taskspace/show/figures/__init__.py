"""One function per figure; see `taskspace.show`."""
