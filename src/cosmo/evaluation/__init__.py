"""All ways to combine experts on one data set, and comparisons of experts and gates."""
