import Glibc
import LiveActivity
import Numbers
import Redis

/// Reads the replies of the scripts.
extension StoreSession {
    /// Handles the reply to the oldest `callCount` calls, which were sent as one Redis command.
    func handleReply(_ reply: Reply, toCalls callCount: Int, from reader: ReplyReader, on connection: RedisConnection) {
        let isArray = reply.elementCount > 1 && outstandingCalls[0].kind.isStateAdmission
        if callCount > 1 || isArray {
            return handleBatchReply(reply, callCount: callCount, from: reader, on: connection)
        }
        // The result is not needed: it is false only if the connection was closed, and nothing has closed it since this
        // reply arrived.
        _ = connection.completeOldestCall(from: reader)
        handleSingleReply(reply, on: connection)
    }

    /// Handles the reply to a batch: an array with these elements, in this order:
    /// - `callCount` elements, one for each call, for example a verdict, a number or the activity's stored value;
    /// - for each update or end whose element above is a number, in the order of the calls: the activity's stored
    ///   value, from which the token is read;
    /// - the server's clock, from which the pushes left are computed. It may be missing if no element of an update or
    ///   end is a stored value.
    private func handleBatchReply(
        _ reply: Reply,
        callCount: Int,
        from reader: ReplyReader,
        on connection: RedisConnection
    ) {
        let (isComplete, nowMilliseconds) = readClockIfComplete(reply, callCount: callCount, from: reader)
        var valueIndex = callCount
        for index in 0..<callCount {
            // The previous element may have closed the connection: the handler closed it, or the element was an error
            // or did not fit its call. Then all remaining calls have failed already.
            guard connection.completeOldestCall(from: reader) else { return }
            guard isComplete else {
                endOldestCall(with: .protocolViolation, on: connection)
                continue
            }
            let element = reader.element(index)
            if outstandingCalls[0].kind.isStateAdmission && element.kind == .integer {
                let parsedReply = parseSendVerdict(number: element.integer, value: reader.element(valueIndex))
                endOldestCall(with: parsedReply, on: connection)
                valueIndex += 1
            } else if outstandingCalls[0].kind.isStateAdmission && element.isStoredActivity, let nowMilliseconds {
                let parsedReply = parseSendVerdict(
                    asAskedBy: outstandingCalls[0],
                    value: element.bytes,
                    nowMilliseconds
                )
                endOldestCall(with: parsedReply, on: connection)
            } else {
                handleSingleReply(element, on: connection)
            }
        }
    }

    /// Returns whether the reply to a batch has all elements that its calls need; and the time of the server's clock,
    /// nil if the reply has none or is not complete.
    private func readClockIfComplete(_ reply: Reply, callCount: Int, from reader: ReplyReader)
        -> (isComplete: Bool, nowMilliseconds: UInt64?)
    {
        guard case .array(let elementCount) = reply.kind, elementCount >= callCount else { return (false, nil) }
        var (numberCount, valueCount) = (0, 0)
        for index in 0..<callCount where outstandingCalls[index].kind.isStateAdmission {
            let element = reader.element(index)
            if element.kind == .integer { numberCount += 1 } else if element.isStoredActivity { valueCount += 1 }
        }
        let elementCountWithoutClock = callCount + numberCount
        guard elementCount == elementCountWithoutClock + 1 else {
            return (elementCount == elementCountWithoutClock && valueCount == 0, nil)
        }
        let clockElement = reader.element(elementCount - 1)
        guard clockElement.kind == .integer, let nowMilliseconds = UInt64(exactly: clockElement.integer) else {
            return (false, nil)
        }
        return (true, nowMilliseconds)
    }

    /// Handles the reply to the oldest call. The connection has already removed this call from its own queue.
    private func handleSingleReply(_ reply: Reply, on connection: RedisConnection) {
        let kind = outstandingCalls[0].kind
        if reply.kind == .error {
            endOldestCall(with: .failure(RedisError(reply: reply.bytes)), on: connection)
        } else if kind != .settle {
            endOldestCall(with: parseReply(reply, of: kind), on: connection)
        } else if reply.kind == .integer, reply.integer == 0 || reply.integer == 1 {
            endOldestCall(with: makeSettledReply(reply), on: connection)
        } else if reply.kind == .string, let departures = Self.readDepartures(at: 1, in: reply.bytes) {
            endOldestCall(with: makeSettledReply(reply.bytes[0] == UInt8(ascii: "1"), departures), on: connection)
        } else {
            endOldestCall(with: .protocolViolation, on: connection)
        }
    }

    /// What a reply means for its call.
    private enum ParsedReply {
        case reply(StoreReply<Bytes>)
        case failure(RedisError)
        /// The reply fits its call, but a stored value in it has a form that the scripts never write.
        case malformedContent
        /// The call cannot have this reply, so replies and calls may be out of step. Later replies might go to wrong
        /// calls too, so the connection is closed.
        case protocolViolation
    }

    /// Ends the oldest call: tells the handler the reply or the failure. Closes the connection after some errors.
    private func endOldestCall(with parsed: ParsedReply, on connection: RedisConnection) {
        switch parsed {
        case .reply(let reply):
            guard let call = outstandingCalls.removeOldest() else { return }
            connection.resetReconnectPause()
            handler?.storeReplied(tag: call.tag, reply)
        case .failure(let error):
            handleFailureOfOldestCall(error)
            if error.endsConnection { connection.disconnect(error) }
        case .malformedContent:
            handleFailureOfOldestCall(RedisError(.foreignValue))
        case .protocolViolation:
            let error = RedisError(.protocolViolation, "a reply of Redis does not fit its call")
            handleFailureOfOldestCall(error)
            connection.disconnect(error)
        }
    }

    private func makeSettledReply(_ reply: Reply) -> ParsedReply { makeSettledReply(reply.integer == 1, nil) }

    private func makeSettledReply(_ hasRetiredToken: Bool, _ departures: Bytes?) -> ParsedReply {
        var storeReply = StoreReply<Bytes>(.settled)
        storeReply.hasRetiredToken = hasRetiredToken
        storeReply.departures = departures
        return .reply(storeReply)
    }

    /// Returns the part of a reply after a `=`: the audiences that the member has left (``AudienceDepartures``). Nil if
    /// there is no `=`, or if the bytes after the `=` are no departures.
    ///
    /// - Parameter signPosition: where a `=` would be: after the verdict's word, or after the 0 or 1 of a settlement.
    private static func readDepartures(at signPosition: Int, in reply: Bytes) -> Bytes? {
        guard reply.count > signPosition, reply[signPosition] == UInt8(ascii: "=") else { return nil }
        let departures = Bytes(rebasing: reply[(signPosition + 1)...])
        return AudienceDepartures(departures) == nil ? nil : departures
    }

    /// Reads the reply to a call that is not a settlement: the word of a verdict, and the data that belong to this
    /// verdict.
    private func parseReply(_ reply: Reply, of kind: StoreCallKind) -> ParsedReply {
        guard reply.kind == .string, let verdict = StoreVerdict(beginning: reply.bytes, among: kind.verdicts) else {
            return .protocolViolation
        }
        var storeReply = StoreReply<Bytes>(verdict)
        var rest = UnsafeRawBufferPointer(rebasing: reply.bytes[verdict.scriptWord.utf8CodeUnitCount...])
        if verdict == .registered, rest.first == UInt8(ascii: "+") {
            storeReply.wasMemberOfAllAudiences = true
            rest = UnsafeRawBufferPointer(rebasing: rest[1...])
        }
        if verdict == .duplicate, kind == .end, rest.first == UInt8(ascii: "-") {
            storeReply.isUnshownDuplicate = true
            rest = UnsafeRawBufferPointer(rebasing: rest[1...])
        }
        switch verdict {
        case .departures,
            .registered where rest.first == UInt8(ascii: "="),
            .stale where rest.count > 0,
            .unregistered where rest.count > 0,
            .full where rest.count > 0 && kind == .register:
            storeReply.departures = Self.readDepartures(at: 0, in: rest)
            if storeReply.departures == nil { return .protocolViolation }
        case .wait:
            guard let waitMilliseconds = Decimal.parse(rest).flatMap({ Int64(exactly: $0) }), waitMilliseconds > 0
            else { return .protocolViolation }
            storeReply.waitMilliseconds = waitMilliseconds
        case .send:
            guard kind == .start, rest.count == StoredActivity.secondsBytes else { return .protocolViolation }
            storeReply.timestamp = Int64(clamping: LittleEndian.read(rest))
            guard storeReply.timestamp <= Limits.timestampMax else { return .protocolViolation }
        case .tokenFound:
            guard rest.count > StoredTime.digitCount,
                let draw = StoredTime.parseMilliseconds(
                    UnsafeRawBufferPointer(rebasing: rest[..<StoredTime.digitCount])
                )
            else { return .protocolViolation }
            storeReply.drawIdentifier = draw
            let stored = UnsafeRawBufferPointer(rebasing: rest[StoredTime.digitCount...])
            storeReply.registration = readRegistration(ofDevice: stored)
            if storeReply.registration == nil { return .malformedContent }
        case .alertHeld,
            .registered where rest.count > 0:
            if verdict == .alertHeld {
                guard rest.count > StoredActivity.millisecondsBytes else { return .malformedContent }
                let registeredAt = UnsafeRawBufferPointer(rebasing: rest[..<StoredActivity.millisecondsBytes])
                storeReply.registeredAtMilliseconds = Int64(LittleEndian.read(registeredAt))
                rest = UnsafeRawBufferPointer(rebasing: rest[StoredActivity.millisecondsBytes...])
            }
            guard rest.count > StoredVersion.textByteCount,
                StoredVersion.isVersionText(UnsafeRawBufferPointer(rebasing: rest[..<StoredVersion.textByteCount]))
            else { return .malformedContent }
            storeReply.heldCommand = UnsafeRawBufferPointer(rebasing: rest[StoredVersion.textByteCount...])
        default:
            guard rest.count == 0 else { return .protocolViolation }
        }
        return .reply(storeReply)
    }

    /// Reads a reply that allows a push and is a number: the timestamp, the priority and the pushes left in the budget.
    /// Unlike the activity's value as a reply, a number can grant another timestamp or priority than the command asked
    /// for.
    ///
    /// - Parameter value: the beginning of the activity's value before the admission, from which the token is read. If
    ///   the command brought a new token, these bytes already have it.
    private func parseSendVerdict(number: Int64, value: Reply) -> ParsedReply {
        guard value.kind == .string, value.bytes.count >= StoredActivity.tokenByteOffset, number > 0,
            let priority = GrantedPriority(rawValue: UInt8(number / PackedNumber.priorityFactor % 4))
        else { return .protocolViolation }
        var storeReply = StoreReply<Bytes>(.send)
        storeReply.timestamp = number / PackedNumber.timestampFactor
        storeReply.budgetLeft = Int(number % PackedNumber.priorityFactor)
        guard storeReply.timestamp <= Limits.timestampMax, storeReply.budgetLeft <= Policy.Bucket.pushesMax else {
            return .protocolViolation
        }
        storeReply.priority = priority == .high ? PushPriority.high : PushPriority.low
        storeReply.isDemoted = priority == .demoted
        storeReply.registration = readRegistration(ofActivity: value.bytes)
        return storeReply.registration == nil ? .malformedContent : .reply(storeReply)
    }

    /// Reads a reply that allows a push just as the command asked for it: the reply is only the activity's value before
    /// the admission, with the token. The push gets the timestamp and the priority from the command. The pushes left in
    /// the budget are computed from the value and the server's clock.
    private func parseSendVerdict(
        asAskedBy call: StoreSessionCall,
        value: Bytes,
        _ nowMilliseconds: UInt64
    ) -> ParsedReply {
        var storeReply = StoreReply<Bytes>(.send)
        storeReply.timestamp = call.timestamp
        storeReply.priority = call.requestsHighPriority ? PushPriority.high : PushPriority.low
        let fullAtMilliseconds = LittleEndian.read(
            value[StoredActivity.budgetFullAtByteOffset..<StoredActivity.assignedTimestampByteOffset]
        )
        let allowsFrequentUpdates =
            value[StoredActivity.flagsByteOffset] & StoredActivity.Flag.allowsFrequentUpdatesBit != 0
        let bucket = allowsFrequentUpdates ? call.frequentBudget : call.budget
        let pushesLeftCount = StoredBucket.pushesLeft(
            bucket,
            fullAtMilliseconds: fullAtMilliseconds,
            nowMilliseconds: nowMilliseconds
        )
        storeReply.budgetLeft = call.requestsHighPriority ? max(0, pushesLeftCount - 1) : pushesLeftCount
        storeReply.registration = readRegistration(ofActivity: value)
        return storeReply.registration == nil ? .malformedContent : .reply(storeReply)
    }

    /// Reads the registration in an activity's value; nil if the value has a form that the scripts never write.
    private func readRegistration(ofActivity value: Bytes) -> TokenRegistration<Bytes>? {
        let registeredAtMilliseconds = LittleEndian.read(
            value[StoredActivity.registrationTimeByteOffset..<StoredActivity.tokenByteOffset]
        )
        let tokenByteCountAndFlags = Int(
            LittleEndian.read(value[StoredActivity.tokenByteCountByteOffset..<StoredActivity.flagsByteOffset])
        )
        let tokenByteCount = tokenByteCountAndFlags & ~StoredActivity.followBitsInTokenByteCount
        let acceptedAlertBytes =
            tokenByteCountAndFlags < StoredActivity.acceptedAlertFollowsBit ? 0 : StoredVersion.byteCount
        let stored = UnsafeRawBufferPointer(rebasing: value[StoredActivity.tokenByteOffset...].prefix(tokenByteCount))
        guard registeredAtMilliseconds <= StoredTime.millisecondsMax,
            value.count == StoredActivity.tokenByteOffset + tokenByteCount + acceptedAlertBytes,
            let form = TokenForm(rawValue: value[StoredActivity.flagsByteOffset] & 7),
            let tokenStart = tokenBuffer.baseAddress,
            let token = StoredDeviceToken.decode(form, stored, to: tokenStart)
        else { return nil }
        return TokenRegistration(
            token: UnsafeRawBufferPointer(start: tokenStart, count: token.count),
            environment: token.environment,
            registeredAtMilliseconds: Int64(registeredAtMilliseconds)
        )
    }

    /// Reads a device's registration; nil if it has a form that the scripts never write.
    ///
    /// - Parameter stored: the field `t`, which has the registration's time and the beginning of the token, followed by
    ///   the field `u`, which has the rest of the token.
    private func readRegistration(ofDevice stored: Bytes) -> TokenRegistration<Bytes>? {
        guard stored.count > StoredTime.digitCount, let tokenStart = tokenBuffer.baseAddress,
            let registeredAtMilliseconds = StoredTime.parseMilliseconds(
                UnsafeRawBufferPointer(rebasing: stored[..<StoredTime.digitCount])
            ),
            let token = StoredDeviceToken.decode(
                UnsafeRawBufferPointer(rebasing: stored[StoredTime.digitCount...]),
                to: tokenStart
            )
        else { return nil }
        return TokenRegistration(
            token: UnsafeRawBufferPointer(start: tokenStart, count: token.count),
            environment: token.environment,
            registeredAtMilliseconds: registeredAtMilliseconds
        )
    }
}

extension Reply {
    /// Whether the reply is an activity's value, and not the word of a verdict. Byte 7 shows the difference:
    /// - In a word, byte 7 is a printable character, at least 32.
    /// - In a value, byte 7 has flags. The script replies with a whole value only if it is a plain one
    ///   (admit-batches.lua). The highest flag of a plain value is ``StoredActivity/Flag/allowsFrequentUpdatesBit``
    ///   (8), so byte 7 is below 16.
    fileprivate var isStoredActivity: Bool {
        kind == .string && bytes.count >= StoredActivity.tokenByteOffset && bytes[StoredActivity.flagsByteOffset] < 0x10
    }
}

extension StoreVerdict {
    /// Finds the verdict with which a reply begins. The verdicts may be searched in any order, because no verdict's
    /// word is the beginning of another one.
    init?(beginning reply: UnsafeRawBufferPointer, among verdicts: VerdictSet) {
        for verdict in verdicts {
            let word = verdict.scriptWord
            guard let start = reply.baseAddress, reply.count >= word.utf8CodeUnitCount else { continue }
            if memcmp(start, word.utf8Start, word.utf8CodeUnitCount) == 0 {
                self = verdict
                return
            }
        }
        return nil
    }
}

/// A set of verdicts, as one bit for each raw value, so that reading a reply allocates nothing. A loop over the set
/// begins with the lowest raw value, which is the most common verdict.
struct VerdictSet: Sequence, IteratorProtocol {
    private var bits: UInt32

    init(_ verdicts: StoreVerdict...) {
        bits = verdicts.reduce(0) { $0 | 1 << UInt32($1.rawValue) }
    }

    init(where isIncluded: (StoreVerdict) -> Bool) {
        bits = StoreVerdict.allCases.reduce(0) { isIncluded($1) ? $0 | 1 << UInt32($1.rawValue) : $0 }
    }

    mutating func next() -> StoreVerdict? {
        guard bits != 0 else { return nil }
        let verdict = StoreVerdict(rawValue: UInt8(truncatingIfNeeded: bits.trailingZeroBitCount))
        bits &= bits &- 1
        return verdict
    }
}
