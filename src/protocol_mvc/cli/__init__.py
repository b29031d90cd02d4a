"""The command-line interface: `main` declares the verbs, the other modules implement them."""
