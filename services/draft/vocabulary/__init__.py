"""Translation between a target's tokens and the draft's, where their vocabularies differ."""
