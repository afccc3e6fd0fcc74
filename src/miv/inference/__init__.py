"""From user input to verdicts: collect the instances, embed each distinct one once, pool, decide."""
