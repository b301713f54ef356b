"""Everything between the draws and the pixels, in Triton: tables of the layers, what is seen, and who gets a slot.

One launch writes the tables. Two or three look, that is resolve and measure; the decisions that follow from a look are
taken by the program of a row that is the last to finish, so they take no launch, and a look that a row does not need
returns at once.
"""

from segpaste.engine.triton.looks.settling import Settled, settle

__all__ = ["Settled", "settle"]
