"""Files: validated when read, written atomically."""
