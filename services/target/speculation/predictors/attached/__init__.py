"""The predictor that an attached drafter is, behind the target's passes and on the target's device."""
