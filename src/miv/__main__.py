"""``python -m miv`` is the ``miv`` command."""

from miv.cli import main

if __name__ == "__main__":
    main()
