"""What both ends of a draft link know of its protocol beside the messages."""

PROTOCOL_VERSION = 2

MAX_COMMIT = 8192  # token ids in one commit
MAX_WINDOW = 64  # tokens ahead of a commit, and so in one run, whatever is granted
MAX_ALTERNATES = 8  # of a sequence at a time, and so in one message
MAX_MASKED = 1024  # token ids masked in one sequence: a request's, and those that end every text

MAX_REQUESTS = 32  # messages of a target that come as one
MAX_REQUEST_BYTES = 1 << 20  # of those together: a target adds no more at a quarter, and one has half at most
MAX_RESPONSES = 64  # messages of a draft that come as one
MAX_RESPONSE_BYTES = 32 << 10  # of those together: runs as long as a window, of ids of five bytes, take 25 KB
