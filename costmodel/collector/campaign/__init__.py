"""Campaigns: what to measure, in which order, and how a stopped one goes on."""
