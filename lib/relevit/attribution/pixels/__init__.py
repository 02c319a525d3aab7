"""Methods that ask the pixels: their gradients, averaged over noise or along a path."""
