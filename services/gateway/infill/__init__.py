"""POST /infill: fills in the middle of a text, in the format of llama.cpp's server."""
