"""What is asked of sessions, and of requests that go on behind one."""
