"""Long trials: damaged files, killed processes, full disks, load on the studio (`python -m soak --help`)."""
