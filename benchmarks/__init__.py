"""What a step costs next to a copy of its batch, and next to other ways to do it; programs, not tests."""
