"""The verifier, its files, the hub, and the verifiers included in the package."""
