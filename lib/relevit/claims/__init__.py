"""What the papers claim against what came out here: criteria, verdicts, tables side by side."""
