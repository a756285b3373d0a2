"""One file per kind of figure: a record of what to draw, and its drawing."""
