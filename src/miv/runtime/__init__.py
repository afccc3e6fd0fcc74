"""What the process runs on and how it reports: cores, processes, memory, progress."""
