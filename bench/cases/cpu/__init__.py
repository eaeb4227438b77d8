"""What a processor computes."""
