"""Long trials: hostile files, kills, full disks, broken downloads, load. `python -m soak --help` says how."""
