"""Training: two stages on Lightning, each instance embedded once, and runs that can be stopped and resumed."""
