"""Reading for training: samplers that draw crops, and loaders that stage them for each step."""
