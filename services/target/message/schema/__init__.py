"""Schemas of tools: which values they allow, wherever their references lead."""
