"""Files that strangers may have put there: opened without waiting, bounded before they are read, with clear errors."""
