"""What the commands ``miv train`` and ``miv evaluate`` do, as functions: ``miv.train`` and ``miv.evaluate``."""
