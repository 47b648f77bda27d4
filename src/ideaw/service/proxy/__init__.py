"""`ideaw proxy`: marks what a speech server answers, while it streams through, and passes all else on."""
