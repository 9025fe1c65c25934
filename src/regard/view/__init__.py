"""The matrix as people see it: in the terminal, in a notebook, in a plot."""
