"""what each page shows, as values: built from reads by pure functions, so that templates compute nothing"""
