-- This file is a part of the scripts `admit` and `audience`, which both compare stored versions. The program joins the
-- parts of a script, because a script of Redis cannot load another one.

-- Whether the version at the beginning of `left` is newer than the one at the beginning of `right`. Compares numbers,
-- because the bytes of strings are little-endian here. A version is read as three numbers, the timestamp and the halves
-- of the sequence, because a number of Lua is exact only up to 53 bits.
local function isNewer(left, right)
  local timestamp, lowHalf, highHalf = struct.unpack('<I5I4I4', left)
  local rightTimestamp, rightLowHalf, rightHighHalf = struct.unpack('<I5I4I4', right)
  if timestamp ~= rightTimestamp then return timestamp > rightTimestamp end
  return highHalf > rightHighHalf or highHalf == rightHighHalf and lowHalf > rightLowHalf
end
