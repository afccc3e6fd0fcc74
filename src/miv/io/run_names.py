"""Names in the folder of a run, for modules that must not wait for torch."""

RUN_NAME = "run.json"
VERIFIER_NAME = "verifier"
