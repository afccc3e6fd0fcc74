"""The files of a gallery: append-only segments, removed bags, and a manifest that is replaced in one step."""
