"""Data sets as their users have them: pictures in class folders, tables or COCO, with masks or not.

`folder` lists a set, `check` opens every picture and mask of it and says what it found. The command
`relevit example` writes one to try both with.
"""
