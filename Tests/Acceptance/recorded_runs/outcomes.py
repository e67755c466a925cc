"""What the checks of recorded runs conclude from the outcome of a command. `.ci/outcome-places` requires that each outcome is in
exactly one of these sets."""

# The command may get another result later.
NOT_FINAL = {"held"}
# It is correct if no phone gets the command's content or a newer one.
UNDELIVERED = {"ended", "expired", "invalid", "unregistered", "failed", "unknown"}
# A phone has or gets the command's content, or a newer one.
DELIVERED = {"accepted", "unchanged", "duplicate", "superseded"}
