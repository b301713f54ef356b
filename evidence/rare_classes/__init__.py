"""Rare classes: pastes of a bank against repeat factors, a weighted loss, and no paste."""
