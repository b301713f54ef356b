"""Training runs: config, epochs, processes, checkpoints, logs."""
