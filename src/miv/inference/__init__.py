"""From what people give to verdicts: gather the instances, embed each distinct one once, pool, decide."""
