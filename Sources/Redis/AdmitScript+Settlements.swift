extension AdmitScript {
    /// How an activity's version ended, or that APNs limits the activity, and a token that Apple has declared dead. It changes only
    /// what is there, and never makes an activity. The reply is 1 if the token was retired, else 0.
    ///
    /// Acceptance wins over the other outcomes, whatever the order: a start that one worker has in flight may be settled as unknown by
    /// another that came upon it.
    ///
    /// One 429 counts once, however often it is written down: only if there was a send verdict since the last that counted, unless the
    /// clock was set back.
    ///
    /// A retired token's registration time is raised by one, so that its own registration, delivered again, is stale and does not bring
    /// the dead token back.
    static let settlements: StaticString = """
              if settles then
                reply = 0
                if isNew then break end
                local digestBefore, frees = shown, false
                letter = state
                -- What is to be written anew of the rarer parts; nil: they stay.
                local limit, begun
                if request == 3 then
                  if lifeEnd > 0 then
                    local numbers = ARGV[asks % 256]
                    local spacing, longest, recovery = read('<I3', numbers), read('<I3I3', numbers, 21)
                    local isLimited, doublings, limitedAt = kind % 32 >= 16, 0, 0
                    if isLimited then doublings, limitedAt = read('<BI6', value, limitAt) end
                    if not isLimited or sent > limitedAt or now < limitedAt then
                      doublings = now < limitedAt and 0 or math.max(doublings - math.floor((now - limitedAt) / recovery), 0)
                      if spacing * 2 ^ doublings < longest then doublings = math.min(doublings + 1, 22) end
                      limit = pack('<BI6', doublings, now)
                    end
                  end
                elseif request < 3 then
                  if same then
                    frees = state >= 104 and (state <= 108 or state >= 120)
                    if request == 0 then
                      letter, shown = 115, digest
                    elseif state ~= 115 and state ~= 102 then
                      letter = request == 1 and 102 or 115
                    end
                  end
                  if kind % 64 >= 32 then
                    if sub(value, startAt, startAt + 12) == head then
                      begun = request == 0 and head or head .. 's' .. sub(value, startAt + 14, startAt + 26)
                    end
                  end
                end
                local registeredAt
                if token and form == kind % 8 and sub(value, 51, limitAt - 1) == token then
                  registeredAt = read('<I6', value, 45)
                  if registeredAt < tokenAt then reply = 1 end
                end
                local written
                if limit or begun or frees or reply == 1 then
                  registeredAt = registeredAt or read('<I6', value, 45)
                  if reply == 1 then
                    token, registeredAt, kind = '', math.min(registeredAt + 1, 9999999999999), kind - kind % 8
                  else
                    token = sub(value, 51, limitAt - 1)
                  end
                  if limit and kind % 32 < 16 then kind = kind + 16 end
                  if begun and #begun == 13 then kind = kind - 32 end
                  if not startAt then startAt, heldAt = limitAt, limitAt end
                  limit = limit or sub(value, limitAt, startAt - 1)
                  begun = begun or sub(value, startAt, heldAt - 1)
                  if ended then letter = letter - 32 end
                  if last ~= newest then letter = letter - 64 end
                  if hasDrawn then letter = letter + 128 end
                  value = pack('<I4I2BI6BI6', lifeEnd, #token, kind, shown, letter, sent) .. sub(value, 21, 44) .. pack('<I6', registeredAt)
                    .. token .. limit .. begun .. (frees and '' or sub(value, heldAt))
                  written = call('SET', key, value, 'PX', ACTIVITY_LIFETIME)
                  if written.err then reply = written end
                elseif letter ~= state or shown ~= digestBefore then
                  if ended then letter = letter - 32 end
                  if last ~= newest then letter = letter - 64 end
                  if hasDrawn then letter = letter + 128 end
                  written = call('SETRANGE', key, '7', pack('<I6B', shown, letter))
                  if written ~= #value then reply = tonumber(written) and MALFORMED or written end
                end
                break
              end


        """
}
