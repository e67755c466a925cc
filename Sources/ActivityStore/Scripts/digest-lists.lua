-- This file is a part of the scripts `admit` and `settle`, which both change lists of audiences. A list has the digests
-- of the audiences, 8 bytes each. The program joins the parts of a script, because a script of Redis cannot load
-- another one.

-- Returns `list` without the digests that are also in `excluded`.
local function without(list, excluded)
  local sub, kept = string.sub, ''
  for at = 1, #list, @AUDIENCE_DIGEST_BYTES@ do
    local digest, isExcluded = sub(list, at, at + (@AUDIENCE_DIGEST_BYTES@ - 1)), false
    for excludedAt = 1, #excluded, @AUDIENCE_DIGEST_BYTES@ do
      isExcluded = isExcluded or sub(excluded, excludedAt, excludedAt + (@AUDIENCE_DIGEST_BYTES@ - 1)) == digest
    end
    if not isExcluded then kept = kept .. digest end
  end
  return kept
end
