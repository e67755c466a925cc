-- This file is a part of the scripts `admit` and `settle`, which both change lists of audiences. A list has the digests
-- of the audiences, 8 bytes each. The program joins the parts of a script, because a script of Redis cannot load
-- another one.

-- Returns `list` without the digests that are also in `excluded`.
local function without(list, excluded)
  local sub, kept = string.sub, ''
  for position = 1, #list, @AUDIENCE_DIGEST_BYTES@ do
    local digest, isExcluded = sub(list, position, position + (@AUDIENCE_DIGEST_BYTES@ - 1)), false
    for excludedPosition = 1, #excluded, @AUDIENCE_DIGEST_BYTES@ do
      isExcluded = isExcluded
        or sub(excluded, excludedPosition, excludedPosition + (@AUDIENCE_DIGEST_BYTES@ - 1)) == digest
    end
    if not isExcluded then kept = kept .. digest end
  end
  return kept
end
