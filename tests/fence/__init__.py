"""The fence: what users rely on, and no rearrangement of the package may break.

These tests import only from ``miv``, from documented rooms and through the command line, so that files may move freely.

- ``test_interface.py``: commands and flags, exit codes, keys of JSON outputs, ``miv.__all__``, documented imports and
  the web service, against ``interface.json``. ``python -m tests.fence.interface`` adds what is new to that file. It
  never removes a line: what is taken away on purpose is deleted by hand, with the reason in the commit.
- ``test_formats.py``: saved verifiers, runs, sets, galleries and operating points, and the shipped
  verifiers. The specimens in ``golden/`` were written by 0.2.0 and are never written again.

Two more parts of the fence are tested where their code is: the numbers of the authors' own layers in
``tests/poolings/test_golden.py``, and resuming bit for bit in ``tests/training/test_similar_runs.py``
(``test_a_killed_run_goes_on_as_if_it_had_not_been``) and ``tests/training/test_kills.py``.
"""
