"""The reproduction: presets, runs, claims, tables, pictures, pages, the command."""
