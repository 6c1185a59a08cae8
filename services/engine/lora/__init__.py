"""LoRA adapters: PEFT folders, checked, and loaded into a decoder under the names that requests use."""
