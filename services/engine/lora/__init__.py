"""LoRA adapters: PEFT's folders, checked, and given to a decoder under the names that requests ask for."""
