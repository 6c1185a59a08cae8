"""One generation's state, and the stream by which its events reach whoever reads them."""
