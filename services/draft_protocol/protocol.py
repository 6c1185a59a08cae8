"""The version and limits of the draft protocol, for both ends of a link."""

PROTOCOL_VERSION = 2

MAX_COMMIT = 8192  # token ids in one commit
MAX_WINDOW = 64  # tokens after a commit, and so in one run, even if more are granted
MAX_ALTERNATES = 8  # of a sequence at a time, and so in one message
MAX_MASKED = 1024  # token ids masked in one sequence: the request's, and the model's end-of-text ids

MAX_REQUESTS = 32  # messages of a target that are merged into one
MAX_REQUEST_BYTES = 1 << 20  # of those together: a target adds none to a quarter of this, and one has at most half
MAX_RESPONSES = 64  # messages of a draft that are merged into one
MAX_RESPONSE_BYTES = 32 << 10  # of those together: 25 KB if each run fills a window with ids of five bytes
