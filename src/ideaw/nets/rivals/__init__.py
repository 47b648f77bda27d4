"""Networks that are not shipped: what only the paper's own recipe and the baselines need."""
