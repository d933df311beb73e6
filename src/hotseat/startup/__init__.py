"""The steps of a startup. app.py takes them in order."""
