"""User code under test: two bugs, their right fixes and their wrong fixes. No line here knows of Holdtrue."""
