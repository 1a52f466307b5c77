"""Runs flows for others, over HTTP and WebSocket."""
