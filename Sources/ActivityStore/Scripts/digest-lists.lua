-- This file is a part of the scripts `admit` and `settle`, which both change lists of audiences. A list has the digests
-- of the audiences, 8 bytes each. The program joins the parts of a script, because a script of Redis cannot load
-- another one.

-- Returns `list` without the digests that are also in `excluded`. The lists of a device with many attributes types may
-- be long, so the function makes a table of `excluded`, instead of comparing each digest with each other.
local function without(list, excluded)
  if list == '' or excluded == '' then return list end
  local sub, isExcluded, kept = string.sub, {}, {}
  for position = 1, #excluded, @AUDIENCE_DIGEST_BYTES@ do
    isExcluded[sub(excluded, position, position + (@AUDIENCE_DIGEST_BYTES@ - 1))] = true
  end
  for position = 1, #list, @AUDIENCE_DIGEST_BYTES@ do
    local digest = sub(list, position, position + (@AUDIENCE_DIGEST_BYTES@ - 1))
    if not isExcluded[digest] then kept[#kept + 1] = digest end
  end
  return table.concat(kept)
end
