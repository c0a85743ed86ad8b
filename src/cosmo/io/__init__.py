"""Model files, projects and predictions for inputs of any size."""
