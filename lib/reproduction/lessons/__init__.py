"""What teachers and learners get of the notebooks: copies to work in, exercises, slides."""
