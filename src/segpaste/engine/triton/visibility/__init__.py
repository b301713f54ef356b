"""Steps between the draws and the pixels, in Triton: tables of the layers, visible pixels, and slots of the pastes.

One launch writes the tables. Two or three launches are looks: they resolve and measure. The last program of a row to
finish takes the decisions that follow from a look, so decisions need no launch of their own. A look that a row does not
need returns at once.
"""
