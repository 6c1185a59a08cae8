"""The picture of the architecture: packages as rooms in the order of the flow, what they import as arrows downwards."""
