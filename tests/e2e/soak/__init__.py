"""The soak: long, random, and under all kinds of trouble."""
