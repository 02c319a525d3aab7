"""What every room stands on: paths, files and stages' folders, downloads, number formats, seeds."""
