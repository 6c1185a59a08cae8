"""What measures: `outrider bench`, and the experiments that take a checkout."""
