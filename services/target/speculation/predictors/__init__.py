"""What every predictor can be asked, and the lookup, which predicts a text from its own repetitions."""
