"""The package inside the tools of others."""
