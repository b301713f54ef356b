"""An augmented dataset: its inputs, pastes, steps, report and replay."""
