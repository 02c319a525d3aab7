"""How models come to be before relevance finetuning: epochs, classifiers, pretrainings."""
