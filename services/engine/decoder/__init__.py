"""The native module and what stands around it: weights in, logits and tokens out."""
