"""Trying the gateway with clients and servers that others have made."""
