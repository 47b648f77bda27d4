"""Training: recipes, data, losses, the loop, checkpoints and the export to the runtime's format."""
