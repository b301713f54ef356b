"""Few images: an instance model trained on 4 or 8 photos, without pastes and with those of several libraries."""
