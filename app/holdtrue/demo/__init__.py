"""a small refunds service with real races, to look at Holdtrue working"""
