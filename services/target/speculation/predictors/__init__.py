"""The interface of predictors, and prompt lookup, which predicts a text from its own repetitions."""
