"""This machine: its places for stages (`places`), and what has them loaded once (`forked`)."""
