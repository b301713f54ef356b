"""Protocol of `segpaste tune`: does pasting help on these data, with which share, number, balance and placement?

A plan says which arms are trained with which seeds. A trainer, any program, trains and scores one arm on one split.
The best arm of the search is compared with training without paste, on held-out images that the search never scored.
"""
