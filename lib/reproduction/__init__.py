"""The reproduction: presets, runs, claims, tables, pictures, pages, the command.

It may import `relevit` and `habitats`; neither imports it. `stages` are the folders through which
notebooks pass on their results.
"""
