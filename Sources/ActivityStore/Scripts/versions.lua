-- This file is a part of the scripts `admit` and `audience`, which both compare stored versions. The program joins the
-- parts of a script, because a script of Redis cannot load another one.

-- Whether the version at the beginning of `left` is newer than the version at the beginning of `right`. The script
-- compares them as three numbers, because their bytes are little-endian, and because Lua compares strings by the
-- locale. A number of Lua is exact up to 53 bits, so the eight bytes of the sequence are two numbers.
local function isNewer(left, right)
  local timestamp, low, high = struct.unpack('<I5I4I4', left)
  local rightTimestamp, rightLow, rightHigh = struct.unpack('<I5I4I4', right)
  if timestamp ~= rightTimestamp then return timestamp > rightTimestamp end
  return high > rightHigh or high == rightHigh and low > rightLow
end
