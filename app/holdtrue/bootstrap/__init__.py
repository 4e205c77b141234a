"""builds every object from Settings into one Service that can start, reload and stop

``bootstrap.building`` brings the whole service with it, ``bootstrap.storing`` only what opens the store: a command that reads
the store needs neither a web server nor a scheduler, and starts in a third of the time.
"""
