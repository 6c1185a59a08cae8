"""An attached drafter as a predictor: between two passes of the target, on the same device."""
