extension AdmitScript {
    /// Updates and ends; beneath the end of the loop stand all operations that come one a call.
    static let admissions: StaticString = """
              local registers, whole, isEnd = false, isNew or state == 110, request >= 8
              if isEnd then request = request - 8 end
              if token and tokenAt >= read('<I6', value, 45) then
                registers, whole = true, true
                value = sub(value, 1, 4) .. pack('<I2B', #token, kind - kind % 8 + form) .. sub(value, 8, 44)
                  .. pack('<I6', tokenAt) .. token .. sub(value, limitAt)
                kind = kind - kind % 8 + form
                limitAt = limitAt + #token - length
                if heldAt then heldAt = heldAt + #token - length end
              end
              local isLimited, isFrequent = false, false
              if kind >= 16 then
                isLimited = kind % 32 >= 16
                kind = kind % 16
              end
              if kind >= 8 then isFrequent, kind = true, kind - 8 end
              local newer = timestamp > newest or state == 110
              if timestamp == newest and not newer and not same then
                local low, high = read('<I4I4', head, 6)
                local newestLow, newestHigh = read('<I4I4', value, 26)
                newer = high > newestHigh or high == newestHigh and low > newestLow
              end
              if ended or isEnd or not newer then
                local settled = state == 115 or state == 102
                if ended then
                  if not isEnd then
                    reply = 'ended'
                  elseif same then
                    if settled then reply = 'duplicate' end
                  elseif not newer or state ~= 102 then
                    reply = 'ended'
                  end
                elseif isEnd then
                  same = false
                elseif same then
                  if settled or state == 98 then reply = 'duplicate' end
                elseif not newer then
                  reply = 'superseded'
                end
                if request >= 4 and reply and not newer and not same and not isEnd and not settled and state ~= 98 then
                  reply = 'overtaken'
                end
                if reply and not registers then break end
              end

              if lifeEnd == 0 then
                lifeEnd = seconds + UPDATES_SECONDS
                value = pack('<I4', lifeEnd) .. sub(value, 5)
              end
              local drops, sends, record, answer, drawn

              if not reply then
                local holds, holdsAlert = false, false
                if state >= 104 and state ~= 115 then
                  holds = state <= 108
                  holdsAlert = state == 105 or state == 108 or state >= 120
                end
                if not isEnd and seconds > lifeEnd then
                  reply = 'tooOld'
                elseif holdsAlert and request < 4 and (kind > 0 or not same or not holds) then
                  local h = sub(value, heldAt)
                  heldBytes = heldBytes + #h
                  reply = heldBytes > HELD_BYTES and heldBytes > #h and 'wait1' or 'alertHeld' .. h
                elseif shown == digest and not isEnd then
                  reply, letter, drops = 'unchanged', 115, holds or holdsAlert
                else
                  drops = holds and not same and not holdsAlert
                  if kind == 0 then
                    reply = 'noToken'
                    if not same then
                      letter = holdsAlert and 120 or 119
                    elseif holds then
                      reply, letter = 'held', holdsAlert and 105 or 104
                    end
                  else
                    local bucket = isFrequent and 11 or 1
                    if numberOfPace ~= paceNumber or bucket ~= paceBucket then
                      paceNumber, paceBucket, pace, usualPace = numberOfPace, bucket, ARGV[numberOfPace], nil
                      leastSpacing, interval, pushes, reserved = read('<I3I3I2I2', pace, bucket)
                    end
                    local since, spacing = now - sent, leastSpacing
                    if isLimited then
                      local doublings, limitedAt = read('<BI6', value, limitAt)
                      local longest, recovery = read('<I3I3', pace, 21)
                      local limited = now - limitedAt
                      doublings = limited < 0 and 0 or doublings - math.floor(limited / recovery)
                      if doublings > 0 then spacing = math.max(spacing, math.min(spacing * 2 ^ doublings, longest)) end
                    end
                    if since >= 0 and since < spacing then
                      reply = 'wait' .. string.format('%.0f', spacing - since)
                      if not same then letter = holdsAlert and 120 or 119 end
                    else
                      letter, sends = 97, true
                      -- The last was not in the same thousand seconds.
                      if sent < thousandBegan or sent >= thousandBegan + 1000000 then whole = true end
                      if holdsAlert then
                        letter = same and holds and 108 or 121
                      elseif holds and same then
                        letter = 107
                      end
                    end
                  end
                end
              end

              if letter then
                if isEnd then letter = letter - 32 end
                if not same then hasDrawn = false end
              end
              if sends then
                local assigned = timestamp
                if same and (state == 97 or state == 107 or state == 108 or state == 121) then
                  assigned = last
                elseif timestamp <= last then
                  assigned = math.min(last + 1, 9999999999)
                end
                local left, priority = pushes, 1
                if full > now then
                  local missing = full - now - 1
                  left = pushes - (missing - missing % interval) / interval - 1
                  if left < 0 then left = 0 end
                end
                if request % 2 == 1 then
                  if hasDrawn then
                    priority = 2
                  elseif left > (request % 4 >= 2 and 0 or reserved) then
                    priority, hasDrawn, left = 2, true, left - 1
                    drawn = pack('<I6', (full > now and full or now) + interval)
                  else
                    priority = 3
                  end
                end
                reply = assigned * 65536 + priority * 16384 + left
                answer = heldAt and sub(value, 1, limitAt - 1) or value
                last = assigned
              elseif letter then
                whole = true
              end
              if letter then
                if last ~= timestamp then
                  letter, drawn = letter - 64, (drawn or sub(value, 34, 39)) .. pack('<I5', last)
                end
                if hasDrawn then letter = letter + 128 end
                record = (sends and sub(sentNow, 1, 6) or sub(value, 8, 13)) .. char(letter)
                  .. (sends and sub(sentNow, 8) or sub(value, 15, 20)) .. head .. (drawn or '')
              end

              if letter or registers then
                local written
                if whole or drops then
                  if record then value = sub(value, 1, 7) .. record .. sub(value, 8 + #record, drops and heldAt - 1 or -1) end
                  if isNew then
                    -- Of what is no string, too, MGET says that it is not there.
                    written = call('SET', key, value, 'PX', ACTIVITY_LIFETIME, 'NX')
                      or {err = 'WRONGTYPE the key holds what is not an activity of Causeway'}
                  else
                    written = call('SET', key, value, 'PX', ACTIVITY_LIFETIME)
                  end
                  if written.err then reply, answer = written, nil end
                else
                  written = call('SETRANGE', key, '7', record)
                  if written ~= #value then reply, answer = tonumber(written) and MALFORMED or written, nil end
                end
                if answer then
                  answers = answers + 1
                  keys[answers] = answer
                end
              end
            until true
            keys[index] = reply
          end
          if sentMax then
            answers = answers + 1
            keys[answers] = now
          end
          if answers == 1 then return keys[1] end
          return keys
        end
        """
}
