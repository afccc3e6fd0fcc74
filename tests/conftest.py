from hypothesis import settings

# How long an example takes says more of a machine's other work than of the code; benchmarks/ measure speed.
settings.register_profile("miv", deadline=None)
settings.load_profile("miv")
