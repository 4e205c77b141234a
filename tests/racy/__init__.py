"""User code under test: two bugs, their fixes right and wrong, and what each must show. No line here knows of Holdtrue."""
