"""Parts that several campaigns share."""
