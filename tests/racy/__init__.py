"""User code under test: bugs, their fixes right and wrong, and what each must show. It knows checkpoints of Holdtrue alone."""
