"""Scheduling: the choice of the rows that the next pass computes."""
