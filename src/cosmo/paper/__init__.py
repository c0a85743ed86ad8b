"""The paper's tables and figures as declared experiments, beside what it prints."""
