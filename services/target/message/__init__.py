"""What an answer is as a message of a conversation: thoughts, words and calls, in its model family's own syntax."""
