"""Training runs: configuration, epochs, processes, checkpoints and logs."""
