"""Runtime environment and progress: cores, processes, memory, progress bars."""
