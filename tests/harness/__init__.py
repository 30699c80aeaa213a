"""What the Python tests have in common: programs under test and their peers as processes, and what they cost."""
