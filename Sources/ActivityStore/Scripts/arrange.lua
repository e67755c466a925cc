-- The script `arrange`: makes a page that does not exist, or renews the expiry of a page. If the page is too long, the
-- script also removes the outdated entries: those that a later entry of the same member replaces, and those that are
-- too old. If the page is still long, the script splits the page. Two kinds of pages are not split: a page with only
-- one position, and a page of a segment that has the maximum number of pages.
--
-- A page has the members whose positions (hashes of their ids) are between its bounds. KEYS are the segment's
-- directory, the page, and the page that a split makes of the upper half. A page with only one position has no third
-- key. ARGV[1] to ARGV[3] have four bytes each: the lower bound of the page, the lower bound of the next page (zeros
-- for none) and the middle between the two (empty without a third key). A page is arranged because of an entry; ARGV[4]
-- is `1` if this entry is a device's.
--
-- Times are milliseconds, unless a name says otherwise.
--
-- The reply is the directory: the lower bounds of the segment's pages, four bytes each, ascending. The directory is
-- stored at least as long as its pages. In two cases the worker's bounds of the page are outdated, and the script
-- changes nothing:
-- 1. The directory has other bounds.
-- 2. The directory does not exist, but the bounds say that the segment has more pages. The reply is empty.

local callRedis, byte, char, sub = redis.call, string.byte, string.char, string.sub
local read, pack = struct.unpack, struct.pack
local MALFORMED = {err = 'MALFORMED the value is not a page of Causeway'}
local MALFORMED_DIRECTORY = {err = 'MALFORMED the value is not a directory of Causeway'}
local directoryKey, key, upperKey = KEYS[1], KEYS[2], KEYS[3]
local lowerBound, nextLowerBound, middle = ARGV[1], ARGV[2], ARGV[3]
local NONE = '\0\0\0\0'

local time = callRedis('TIME')
local seconds = time[1] + 0
local now = seconds * 1000 + math.floor(time[2] / 1000)

local directory = callRedis('GET', directoryKey)
-- Whether the segment has no directory yet. If so, this script makes the directory and the first page.
local isNewSegment = not directory
if isNewSegment then
  if lowerBound ~= NONE or nextLowerBound ~= NONE then return '' end
  directory = NONE
end
if sub(directory, 1, 4) ~= NONE or #directory % 4 ~= 0 then return MALFORMED_DIRECTORY end
local boundOffset
for offset = 1, #directory, 4 do
  if sub(directory, offset, offset + 3) == lowerBound then boundOffset = offset end
end
local nextInDirectory = boundOffset and sub(directory, boundOffset + 4, boundOffset + 7)
if not boundOffset or (nextInDirectory == '' and NONE or nextInDirectory) ~= nextLowerBound then return directory end

local page = callRedis('GET', key)
-- 1 if the page has, or once had, an entry of a device; otherwise 0 (MemberPage.Flag).
local flags = 0
if page and not (isNewSegment and sub(page, 9, 12) ~= NONE) then
  if #page < @PAGE_HEADER_BYTES@ or byte(page) ~= 1 or sub(page, 5, 8) ~= lowerBound
    or sub(page, 9, 12) ~= nextLowerBound
  then
    return MALFORMED
  end
  flags = byte(page, 2) % @PAGE_IS_FULL@
else
  page = nil
end
if ARGV[4] == '1' then flags = 1 end
local expiry = flags == 1 and @PAGE_DEVICE_EXPIRY_MILLISECONDS@ or @PAGE_ACTIVITY_EXPIRY_MILLISECONDS@

-- Writes a page. If the page fills more than half of its capacity, one SET and two SETRANGE make Redis reserve exactly
-- the capacity (append.lua: Memory).
local function writePage(key, lowerBound, nextLowerBound, entries)
  local size = @PAGE_HEADER_BYTES@ + #entries
  local blockBytes = size + @STRING_OVERHEAD_BYTES@
  local growthBytes = blockBytes <= @SMALL_PAGE_BYTES_MAX@ and @SMALL_GROWTH_BYTES@
    or blockBytes <= @MEDIUM_PAGE_BYTES_MAX@ and @MEDIUM_GROWTH_BYTES@ or @LARGE_GROWTH_BYTES@
  local capacity = math.ceil(blockBytes / growthBytes) * growthBytes - @STRING_OVERHEAD_BYTES@
  local header, halfCapacity =
    char(1, flags) .. pack('<I2', capacity) .. lowerBound .. nextLowerBound .. pack('<I4', seconds), capacity / 2
  if size > halfCapacity then
    callRedis('SET', key, header, 'PX', expiry)
    callRedis('SETRANGE', key, halfCapacity - 1, '\0')
    callRedis('SETRANGE', key, @PAGE_HEADER_BYTES@, entries)
  else
    callRedis('SET', key, header .. entries, 'PX', expiry)
  end
end

local isSplit = false
if page and #page > @PAGE_BYTES_BEFORE_ARRANGING@ then
  -- Keeps only the latest entry of each member; of several with the same time, the one that came last. An entry whose
  -- time is too far ahead is not the latest: RegistrationTime.swift decides the same. Removes the latest entry too if
  -- it is too old. The entries go into two lists, `lower` and `upper`, in case the page is split.
  -- Two tables say where the latest entry of a member is so far: `offsets` has the byte of the page at which the entry
  -- begins, `indexes` its index in its list. The key in both is the member's position. If several members have one
  -- position, the second has the key position + 2 ^ 32, the third the key position + 2 * 2 ^ 32, and so on.
  --
  -- `oldestTimes` has a time for each value of an entry's bits: entries with an earlier time are too old.
  --
  -- Offsets in this script count from 1, except those of SETRANGE.
  local offsets, indexes, oldestTimes, latestTime = {}, {}, {}, now + @REGISTRATION_LEAD_MAX@
  local upperFrom, size = middle ~= '' and read('<I4', middle) or math.huge, @PAGE_HEADER_BYTES@
  local offset, pageBytes = @PAGE_HEADER_BYTES@ + 1, #page
  local lower, upper, lowerCount, upperCount = {}, {}, 0, 0

  -- Returns what identifies the member of the entry at `offset`: the bits for the member's kind (2) and for the form of
  -- its id (16 and 32), and the id itself (MemberEntryFormat.swift).
  local function readIdentity(offset, bits)
    local idOffset = offset + @ENTRY_FIXED_BYTES@
    -- A packed id has sixteen bytes. Before any other id, one byte has the id's length minus one.
    return char(bits - bits % 16 + bits % 4 - bits % 2)
      .. sub(page, idOffset, idOffset + (bits >= 16 and 15 or byte(page, idOffset) + 1))
  end

  while offset <= pageBytes do
    if offset + @ENTRY_BYTES_MIN@ - 1 > pageBytes then return MALFORMED end
    local length, position, bits, changedAt = read('<I2I4BI6', page, offset)
    if length < @ENTRY_BYTES_MIN@ or offset + length - 1 > pageBytes then return MALFORMED end
    local oldestTime = oldestTimes[bits]
    if not oldestTime then
      oldestTime = now
        - (bits % 2 == 1 and @LEAVING_ENTRY_AGE_MAX@
          or bits % 4 >= @ENTRY_IS_DEVICE@ and @DEVICE_ENTRY_AGE_MAX@ or @ACTIVITY_ENTRY_AGE_MAX@)
      oldestTimes[bits] = oldestTime
    end
    local isLower, tableKey, isOutdated = position < upperFrom, position, false
    local half = isLower and lower or upper
    local earlierOffset = offsets[tableKey]
    while earlierOffset do
      local earlierBits, earlierChangedAt = read('<BI6', page, earlierOffset + 6)
      if readIdentity(earlierOffset, earlierBits) == readIdentity(offset, bits) then
        isOutdated = earlierChangedAt > changedAt and (earlierChangedAt <= latestTime or changedAt > latestTime)
        if not isOutdated then
          size = size - #half[indexes[tableKey]]
          half[indexes[tableKey]] = ''
        end
        break
      end
      tableKey = tableKey + 4294967296
      earlierOffset = offsets[tableKey]
    end
    if not isOutdated then
      local entry = ''
      if changedAt >= oldestTime then
        entry, size = sub(page, offset, offset + length - 1), size + length
      end
      local index
      if isLower then
        lowerCount = lowerCount + 1
        index = lowerCount
      else
        upperCount = upperCount + 1
        index = upperCount
      end
      half[index], offsets[tableKey], indexes[tableKey] = entry, offset, index
    end
    offset = offset + length
  end
  lower, upper = table.concat(lower), table.concat(upper)
  isSplit = size > @PAGE_BYTES_BEFORE_SPLIT@ and middle ~= '' and #directory < 4 * @PAGES_MAX@
  if isSplit then
    writePage(upperKey, middle, nextLowerBound, upper)
    writePage(key, lowerBound, middle, lower)
    directory = sub(directory, 1, boundOffset + 3) .. middle .. sub(directory, boundOffset + 4)
  else
    writePage(key, lowerBound, nextLowerBound, lower .. upper)
  end
elseif page then
  callRedis('SETRANGE', key, '1', char(flags))
  callRedis('SETRANGE', key, '12', pack('<I4', seconds))
  callRedis('PEXPIRE', key, expiry)
else
  writePage(key, lowerBound, nextLowerBound, '')
end

local expiryLeft = isNewSegment and 0 or callRedis('PTTL', directoryKey)
if isNewSegment or isSplit then
  callRedis('SET', directoryKey, directory, 'PX', math.max(expiryLeft, expiry))
elseif expiryLeft < expiry then
  callRedis('PEXPIRE', directoryKey, expiry)
end
return directory
