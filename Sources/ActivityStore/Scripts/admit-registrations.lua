-- This file is a part of the script `admit` (admit.lua): registrations of activities in batches. A batch may also have
-- confirmations (RegistrationBatch.swift): a worker confirms that each audience that an activity has left has an entry
-- about this. The reply is an array with a reply for each call; a single call gets its reply without an array.

if isBatch then
  local values, calls, position, replies = callRedis('MGET', unpack(KEYS)), ARGV[2], 1, {}
  if values.err then return values end
  local _, seconds = readServerTime()
  local updatesUntilSeconds = seconds + UPDATE_PERIOD_SECONDS
  -- The middle of UNKNOWN, the value that stands for an activity that Redis does not know: the bytes between the
  -- token's form and the time of the registration.
  local middleOfUnknown = sub(UNKNOWN, @AT_DIGEST@, @AT_REGISTERED@ - 1)
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
        sub(calls, position, position + (@VERSION_TEXT_BYTES@ - 1)), position + @VERSION_TEXT_BYTES@
    end
    local tokenSource, alertsReleasedUntil = (bits % @SOURCE_MODULUS@ - bits % @SOURCE_FACTOR@) / @SOURCE_FACTOR@, nil
    if tokenSource == @FROM_REREADING@ then alertsReleasedUntil, position = read('<I6', calls, position) end
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
          shownVersion, newFrequentFlag, tokenSource, namedAudiences, alertsReleasedUntil)
      end
    else
      -- Most activities that register are new to Redis. The end of a new value (time, token and audiences) has the same
      -- bytes as the call, so the script copies them. `middle` has the bytes between the token's form and the time.
      local middle = middleOfUnknown
      if tokenSource == @FROM_REREADING@ then
        middle = sub(middleOfUnknown, 1, @AT_PHASE@ - @AT_DIGEST@) .. char(@NO_VERSION@ - @OWN_TIMESTAMP@)
          .. sub(middleOfUnknown, @AT_PHASE@ - @AT_DIGEST@ + 2, @AT_ASSIGNED@ - @AT_DIGEST@) .. pack('<I5', seconds)
      end
      -- The activity may get frequent updates if two bits are set: the registration mentions and allows them.
      local head = pack('<I4I2B', updatesUntilSeconds, audienceCount > 0 and length + @HAS_AUDIENCES@ or length,
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
