"""Sessions, and the caches behind them."""
