"""Few images: an instance model that has 4 or 8 photos to learn from, with pastes of several libraries and without."""
