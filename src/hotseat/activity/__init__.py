"""Requests: those in progress, those that ended lately, their store on disk, and what each key has used."""
