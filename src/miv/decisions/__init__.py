"""How a logit becomes an answer: scaling, threshold, and the rule for witnesses. `calibration` fits them."""
