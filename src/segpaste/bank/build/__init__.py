"""Building: a dataset is cut into crops, in parts that survive an interruption, and written as a bank."""
