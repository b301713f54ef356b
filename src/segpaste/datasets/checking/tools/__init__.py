"""What other tools do with annotations: one file a tool, and the traits of a dataset that make a difference."""
