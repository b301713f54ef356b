"""Reading for training: which crops are drawn, and how they come to each step."""
