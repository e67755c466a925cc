-- This file is a part of the scripts `admit` and `settle`, which both change lists of audiences. A list has the digests
-- of the audiences, 8 bytes each. The program joins the parts of a script, because a script of Redis cannot load
-- another one.

-- Returns the digests of `list` that `other` does not have.
local function without(list, other)
  local sub, kept = string.sub, ''
  for at = 1, #list, 8 do
    local digest, isThere = sub(list, at, at + 7), false
    for place = 1, #other, 8 do isThere = isThere or sub(other, place, place + 7) == digest end
    if not isThere then kept = kept .. digest end
  end
  return kept
end
