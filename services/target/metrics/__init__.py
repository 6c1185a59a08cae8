"""What is counted of requests, and what a scrape reads of the whole target."""
