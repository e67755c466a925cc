-- This file is a part of the scripts `admit` and `settle`, which both read the field `w` of a device's hash
-- (admit-devices.lua). The program joins the parts of a script, because a script of Redis cannot load another one.
--
-- The field `w` of an attributes type has the starts that wait for the token of this type: at most one for each
-- activity, oldest version first. The parts of a start are: the length of its activity's id (2 bytes), the length of
-- its command (4), its version (@VERSION_TEXT_BYTES@ digits), the id and the command.

-- Reads the held start that begins at `position` of the field `w`. Returns its version, its activity, where its command
-- begins, and where the next start begins. The command itself is not returned, because it may be long and most callers
-- do not need it.
local function readHeldStart(w, position)
  local activityLength, commandLength, versionPosition = struct.unpack('<I2I4', w, position)
  local activityPosition = versionPosition + @VERSION_TEXT_BYTES@
  local commandPosition = activityPosition + activityLength
  return w:sub(versionPosition, activityPosition - 1), w:sub(activityPosition, commandPosition - 1), commandPosition,
    commandPosition + commandLength
end
