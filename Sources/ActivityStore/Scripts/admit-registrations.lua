-- This file is a part of the script `admit` (admit.lua): registrations of activities in batches. A batch may also have
-- confirmations (RegistrationBatch.swift): a worker confirms that each audience that an activity has left has an entry
-- that says so. The reply is an array with a reply for each call; a single call gets its reply without an array.

if isBatch then
  local values, calls, position, replies = callRedis('MGET', unpack(KEYS)), ARGV[2], 1, {}
  if values.err then return values end
  local now, seconds = readServerTime()
  local updatesUntilSeconds = seconds + UPDATE_PERIOD_SECONDS
  -- Parts of UNKNOWN, the value that stands for an activity that Redis does not know: its bytes from the digest to
  -- before the time of the registration, and its version, which is zeros.
  local middleOfUnknown = sub(UNKNOWN, @AT_DIGEST@, @AT_REGISTERED@ - 1)
  local versionOfUnknown = sub(UNKNOWN, @AT_VERSION@, @AT_BUCKET@ - 1)
  for index = 1, #KEYS do
    local key, value = KEYS[index], values[index]
    local bits, form, length, audienceCount = read('<BBI2B', calls, position)
    local timePosition = position + 5
    local audiencesPosition = timePosition + @TIME_BYTES@ + length
    position =
      audienceCount > 0 and audiencesPosition + 2 + @AUDIENCE_DIGEST_BYTES@ * audienceCount or audiencesPosition
    local callEnd = position - 1
    if bits >= @REGISTRATION_MAY_REPEAT_KEY@ then
      bits, value = bits - @REGISTRATION_MAY_REPEAT_KEY@, callRedis('GET', key)
    end
    local shownVersion = ''
    if bits % @VERSION_FOLLOWS_MODULUS@ >= @VERSION_FOLLOWS@ then
      shownVersion, position =
        sub(calls, position, position + (@VERSION_BYTES@ - 1)), position + @VERSION_BYTES@
    end
    local tokenSource, alertsReleasedUntil, writtenAt =
      (bits % @SOURCE_MODULUS@ - bits % @SOURCE_FACTOR@) / @SOURCE_FACTOR@, nil, nil
    if tokenSource == @FROM_REREADING@ then alertsReleasedUntil, writtenAt, position = read('<I6I6', calls, position) end
    local reply
    if value or bits >= @IS_DEPARTURE_CONFIRMATION@ then
      value = value or UNKNOWN
      if value.err then
        reply = value
      elseif bits >= @IS_DEPARTURE_CONFIRMATION@ then
        reply = performOnActivity('confirmDepartures', key, value, read('<I6', calls, timePosition))
      else
        local newFrequentFlag =
          bits % @REGISTRATION_MENTIONS_FREQUENT_MODULUS@ >= @REGISTRATION_MENTIONS_FREQUENT@
          and (bits % @REGISTRATION_ALLOWS_FREQUENT_MODULUS@ >= @REGISTRATION_ALLOWS_FREQUENT@
            and @ALLOWS_FREQUENT@ or 0)
          or nil
        local namedAudiences =
          bits % @MENTIONS_AUDIENCES_MODULUS@ >= @MENTIONS_AUDIENCES@
          and (audienceCount > 0 and sub(calls, audiencesPosition + 2, callEnd) or '') or nil
        reply = performOnActivity('register', key, value,
          read('<I6', calls, timePosition), -- registrationTime
          form, -- newForm
          sub(calls, timePosition + @TIME_BYTES@, audiencesPosition - 1), -- newToken
          shownVersion, newFrequentFlag, tokenSource, namedAudiences, alertsReleasedUntil, writtenAt)
      end
    else
      -- Most activities that register are new to Redis. The end of a new value (time, token and audiences) has the same
      -- bytes as the call, so the script copies them. `middle` has the bytes between the token's form and the time.
      local middle = middleOfUnknown
      if tokenSource == @FROM_REREADING@ or shownVersion ~= '' then
        -- A version that the app shows is the newest one, and settled. The last assigned timestamp is this version's
        -- own, but if the registration is read again, at least the present second.
        local version, phase = versionOfUnknown, @NO_VERSION@
        if shownVersion ~= '' then version, phase = shownVersion, @SETTLED@ end
        local timestamp = read('<I5', version)
        local assigned = tokenSource == @FROM_REREADING@ and math.max(timestamp, seconds) or timestamp
        middle = pack('<I6B', 0, assigned == timestamp and phase or phase - @OWN_TIMESTAMP@)
          .. sub(UNKNOWN, @AT_PHASE@ + 1, @AT_VERSION@ - 1) .. version
          .. sub(UNKNOWN, @AT_BUCKET@, @AT_ASSIGNED@ - 1) .. pack('<I5', assigned)
      end
      -- The activity may get frequent updates if two bits are set: the registration mentions and allows them.
      local lastUpdateSecond = writtenAt and computeLastUpdateSecond(now, writtenAt) or updatesUntilSeconds
      local head = pack('<I4I2B', lastUpdateSecond, audienceCount > 0 and length + @HAS_AUDIENCES@ or length,
        bits % @REGISTRATION_ALLOWS_FREQUENT_MODULUS@
          == @REGISTRATION_MENTIONS_FREQUENT@ + @REGISTRATION_ALLOWS_FREQUENT@
          and form + @ALLOWS_FREQUENT@ or form)
      local written =
        callRedis('SET', key, head .. middle .. sub(calls, timePosition, callEnd), 'PX', ACTIVITY_EXPIRY, 'NX')
      reply = not written and {err = 'WRONGTYPE the key holds what is not an activity of Causeway'}
        or written.err and written or 'registered'
    end
    replies[index] = reply
  end
  return #KEYS > 1 and replies or replies[1]
end
