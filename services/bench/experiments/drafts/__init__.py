"""Drafts as no service is: scripted ones, bad ones, and ones that are far away."""
