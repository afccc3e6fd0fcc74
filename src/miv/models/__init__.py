"""The verifier, its files, the hub, and the verifiers that come with the package."""
