"""Images per second of a training step with two loader workers: no paste, segpaste in several places, and its peers."""
