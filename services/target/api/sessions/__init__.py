"""The RPCs of sessions, and requests that continue one."""
