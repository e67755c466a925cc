-- The script `append`: adds entries to pages of audiences' segments. ARGV are the entries (MemberEntryFormat.swift).
-- KEYS has the page of each entry, in the same order. MemberPage.swift says how a page is stored, PageLimits.swift how
-- long it may be.
--
-- The reply is an array with a number for each entry:
--
--     0    the page does not exist, has other bounds, or takes no more entries: nothing was changed
--     1    the entry was added
--     2    the entry was added, and the page needs the script `arrange`, which rearranges the page or renews its expiry
--
-- The script adds each entry separately. If a Redis command fails, the error is the reply to this entry only. The
-- function `callRedis` runs a Redis command. GETRANGE and SETRANGE count bytes from 0, `read` and `sub` from 1.
--
-- Memory. When a string grows, Redis reserves twice its new length. A page that only grew by APPEND would take nearly
-- twice its bytes. So the script gives each page a capacity. When a page has outgrown its capacity, the script writes
-- the page again with the next capacity, except a page that `arrange` must shorten first. After a SET of the header:
-- 1. A SETRANGE writes one byte, so that the string has half the length of the next capacity. Redis reserves twice this
--    length, which is exactly the capacity.
-- 2. Another SETRANGE writes the entries over this string and beyond its end.
--
-- An example: a page has the capacity 4,090. An entry makes it 4,100 bytes long, so Redis now reserves 8,200. The next
-- capacity is 6,138: together with the @STRING_OVERHEAD_BYTES@ bytes that Redis adds to a string, this is three steps
-- of @SMALL_GROWTH_BYTES@ bytes. After the SET, the string has 16 bytes. The first SETRANGE writes the byte at 3,068,
-- so the string has 3,069 bytes, and Redis reserves 6,138. The second one writes the 4,084 bytes of the entries from
-- byte 16 on. The string has its 4,100 bytes again, and the next 2,038 bytes of entries fit without more memory.
--
-- Speed. Most of an entry's cost is in the Redis commands: two for each entry, and five more for the few entries that
-- make a page outgrow its capacity. Lua hashes each byte of a string that it gets or makes, so the script reads a whole
-- page only if the page has outgrown its capacity.

local callRedis, sub, char = redis.pcall, string.sub, string.char
local read, pack = struct.unpack, struct.pack
local BYTES_BEFORE_ARRANGING, BYTES_BEFORE_FULL, RENEWAL_SECONDS =
  @PAGE_BYTES_BEFORE_ARRANGING@, @PAGE_BYTES_BEFORE_FULL@, @PAGE_RENEWAL_SECONDS@
local seconds = callRedis('TIME')[1] + 0
local replies = {}

-- Writes the page again with the next capacity, if the page fills more than half of it. This loses no entry: a server
-- without free memory refuses a script only at its first write, which was the APPEND of an entry.
local function growPage(key, header, pageBytes)
  local blockBytes = pageBytes + @STRING_OVERHEAD_BYTES@
  local growthBytes = blockBytes <= @SMALL_PAGE_BYTES_MAX@ and @SMALL_GROWTH_BYTES@
    or blockBytes <= @MEDIUM_PAGE_BYTES_MAX@ and @MEDIUM_GROWTH_BYTES@ or @LARGE_GROWTH_BYTES@
  local capacity = math.ceil(blockBytes / growthBytes) * growthBytes - @STRING_OVERHEAD_BYTES@
  local expiryLeft, halfCapacity = callRedis('PTTL', key), capacity / 2
  if type(expiryLeft) ~= 'number' or expiryLeft <= 0 or pageBytes <= halfCapacity then return end
  local entries = callRedis('GETRANGE', key, @PAGE_HEADER_BYTES@, -1)
  if type(entries) ~= 'string' then return end
  callRedis('SET', key, sub(header, 1, 2) .. pack('<I2', capacity) .. sub(header, 5), 'PX', expiryLeft)
  callRedis('SETRANGE', key, halfCapacity - 1, '\0')
  callRedis('SETRANGE', key, @PAGE_HEADER_BYTES@, entries)
end

for index = 1, #KEYS do
  local key, entry, reply = KEYS[index], ARGV[index], 0
  local header = callRedis('GETRANGE', key, '0', '15')
  if header.err then
    reply = header
  elseif #header == 16 then
    local format, flags, capacity, lowerBound, nextLowerBound, renewedAtSeconds = read('<BBI2I4I4I4', header)
    local position, bits = read('<I4B', entry, 3)
    if format ~= 1 then
      reply = {err = 'MALFORMED the value is not a page of Causeway'}
    elseif flags < @PAGE_IS_FULL@ and position >= lowerBound and (position < nextLowerBound or nextLowerBound == 0) then
      local pageBytes = callRedis('APPEND', key, entry)
      if type(pageBytes) ~= 'number' then
        reply = pageBytes
      else
        -- Whether this is the page's first entry of a device. If so, the page must be stored as long as devices are.
        local isFirstDevice = flags == 0 and bits % @ENTRY_IS_DEVICE_MODULUS@ >= @ENTRY_IS_DEVICE@
        reply = (pageBytes > BYTES_BEFORE_ARRANGING or isFirstDevice
          or seconds - renewedAtSeconds >= RENEWAL_SECONDS) and 2 or 1
        if pageBytes > BYTES_BEFORE_FULL then
          callRedis('SETRANGE', key, '1', char(flags + @PAGE_IS_FULL@))
        elseif pageBytes > capacity and pageBytes <= BYTES_BEFORE_ARRANGING then
          growPage(key, header, pageBytes)
        end
      end
    end
  end
  replies[index] = reply
end
return replies
