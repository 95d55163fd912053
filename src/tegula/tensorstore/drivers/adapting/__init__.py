"""Drivers that show other stores in another form."""
