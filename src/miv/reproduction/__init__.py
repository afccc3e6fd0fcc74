"""The paper's tables and figures as data: run what is missing, compare with what was published, say what holds."""
