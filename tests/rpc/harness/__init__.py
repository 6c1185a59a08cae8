"""What the tests of the RPCs share: requests, commands, links, predictors, and examples of fields."""
