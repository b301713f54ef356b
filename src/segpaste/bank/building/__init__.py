"""Builder of banks: it cuts a dataset into crops, in parts that survive an interruption, and writes the bank."""
