import Glibc
import LiveActivity
import Numbers
import Redis

/// Reads the replies of the scripts.
extension StoreSession {
    /// Takes the reply to the `count` oldest calls, which left as one Redis command.
    func handleReply(_ reply: Reply, toCalls count: Int, from reader: ReplyReader, on connection: RedisConnection) {
        let isArray = reply.elementCount > 1 && calls[0].kind.isStateAdmission
        if count > 1 || isArray { return handleBatchReply(reply, callCount: count, from: reader, on: connection) }
        // `completeOldestCall` returns true here: since this reply arrived, nothing could have closed the connection.
        _ = connection.completeOldestCall(from: reader)
        handleSingleReply(reply, on: connection)
    }

    /// Takes the reply to a batch. The reply is an array with these elements:
    /// - one for each call;
    /// - the activity's stored value for each update or end whose element is a number, in the same order;
    /// - the server's clock. It may be missing if no call's element is a stored value.
    private func handleBatchReply(
        _ reply: Reply,
        callCount count: Int,
        from reader: ReplyReader,
        on connection: RedisConnection
    ) {
        var nowMilliseconds: UInt64?
        let hasAllElements = hasAllElements(reply, callCount: count, from: reader, nowMilliseconds: &nowMilliseconds)
        var valueIndex = count
        for index in 0..<count {
            // A handler, an error reply or a reply that does not fit may have closed the connection. Then all
            // remaining calls have failed already.
            guard connection.completeOldestCall(from: reader) else { return }
            guard hasAllElements else {
                endOldestCall(with: .protocolViolation, on: connection)
                continue
            }
            let element = reader.element(index)
            if calls[0].kind.isStateAdmission && element.kind == .integer {
                let verdict = parseSendVerdict(number: element.integer, value: reader.element(valueIndex))
                endOldestCall(with: verdict, on: connection)
                valueIndex += 1
            } else if calls[0].kind.isStateAdmission && element.isStoredActivity, let nowMilliseconds {
                let verdict = parseSendVerdict(asAskedBy: calls[0], value: element.bytes, nowMilliseconds)
                endOldestCall(with: verdict, on: connection)
            } else {
                handleSingleReply(element, on: connection)
            }
        }
    }

    /// Whether the reply has all elements that the calls of the batch need. If it has the clock, sets
    /// `nowMilliseconds` to it.
    private func hasAllElements(
        _ reply: Reply,
        callCount count: Int,
        from reader: ReplyReader,
        nowMilliseconds: inout UInt64?
    ) -> Bool {
        guard case .array(let elements) = reply.kind, elements >= count else { return false }
        var (numberCount, valueCount) = (0, 0)
        for index in 0..<count where calls[index].kind.isStateAdmission {
            let element = reader.element(index)
            if element.kind == .integer { numberCount += 1 } else if element.isStoredActivity { valueCount += 1 }
        }
        guard elements == count + numberCount + 1 else { return elements == count + numberCount && valueCount == 0 }
        let clockElement = reader.element(elements - 1)
        if clockElement.kind == .integer { nowMilliseconds = UInt64(exactly: clockElement.integer) }
        return nowMilliseconds != nil
    }

    /// Takes the reply to the oldest call, which the connection has already completed.
    private func handleSingleReply(_ reply: Reply, on connection: RedisConnection) {
        let kind = calls[0].kind
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

    private enum ParsedReply {
        case reply(StoreReply<Bytes>)
        case failure(RedisError)
        /// The reply fits its call, but it contains a stored value that the scripts did not write.
        case malformedContent
        /// The call cannot have this reply. Later replies might be given to wrong calls too, so the
        /// connection is closed.
        case protocolViolation
    }

    /// Ends the oldest call with its reply or an error.
    private func endOldestCall(with parsed: ParsedReply, on connection: RedisConnection) {
        switch parsed {
        case .reply(let reply):
            guard let call = calls.removeOldest() else { return }
            connection.resetReconnectPause()
            handler?.storeReplied(tag: call.tag, reply)
        case .failure(let error):
            handleFailure(error)
            if error.endsConnection { connection.disconnect(error) }
        case .malformedContent:
            handleFailure(RedisError(.foreignValue))
        case .protocolViolation:
            let error = RedisError(.protocolViolation, "a reply of Redis does not fit its call")
            handleFailure(error)
            connection.disconnect(error)
        }
    }

    private func makeSettledReply(_ reply: Reply) -> ParsedReply { makeSettledReply(reply.integer == 1, nil) }

    private func makeSettledReply(_ hasRetiredToken: Bool, _ departures: Bytes?) -> ParsedReply {
        var result = StoreReply<Bytes>(.settled)
        result.hasRetiredToken = hasRetiredToken
        result.departures = departures
        return .reply(result)
    }

    /// Returns the audiences that the member has left. In a reply, a `=` and these audiences come after the verdict's
    /// word, or after the 0 or 1 of a settlement. Nil if the reply names none, or if they cannot be read.
    ///
    /// - Parameter signPosition: where the `=` is in `reply`.
    private static func readDepartures(at signPosition: Int, in reply: Bytes) -> Bytes? {
        guard reply.count > signPosition, reply[signPosition] == UInt8(ascii: "=") else { return nil }
        let departures = Bytes(rebasing: reply[(signPosition + 1)...])
        return AudienceDepartures(departures) == nil ? nil : departures
    }

    private func parseReply(_ reply: Reply, of kind: StoreCallKind) -> ParsedReply {
        guard reply.kind == .string, let verdict = StoreVerdict(beginning: reply.bytes, among: kind.verdicts) else {
            return .protocolViolation
        }
        var result = StoreReply<Bytes>(verdict)
        var rest = UnsafeRawBufferPointer(rebasing: reply.bytes[verdict.scriptWord.utf8CodeUnitCount...])
        if verdict == .registered, rest.first == UInt8(ascii: "+") {
            result.wasMemberOfAllAudiences = true
            rest = UnsafeRawBufferPointer(rebasing: rest[1...])
        }
        if verdict == .duplicate, kind == .end, rest.first == UInt8(ascii: "-") {
            result.isUnshownDuplicate = true
            rest = UnsafeRawBufferPointer(rebasing: rest[1...])
        }
        switch verdict {
        case .departures,
            .registered where rest.first == UInt8(ascii: "="),
            .stale where rest.count > 0,
            .unregistered where rest.count > 0:
            result.departures = Self.readDepartures(at: 0, in: rest)
            if result.departures == nil { return .protocolViolation }
        case .wait:
            guard let waitMilliseconds = Decimal.parse(rest).flatMap({ Int64(exactly: $0) }), waitMilliseconds > 0
            else { return .protocolViolation }
            result.waitMilliseconds = waitMilliseconds
        case .send:
            guard kind == .start, rest.count == StoredActivity.secondsBytes else { return .protocolViolation }
            result.timestamp = Int64(clamping: LittleEndian.read(rest))
            guard result.timestamp <= Limits.timestampMax else { return .protocolViolation }
        case .tokenFound:
            guard rest.count > StoredTime.digitCount,
                let draw = StoredTime.parseMilliseconds(
                    UnsafeRawBufferPointer(rebasing: rest[..<StoredTime.digitCount])
                )
            else { return .protocolViolation }
            result.drawIdentifier = draw
            let stored = UnsafeRawBufferPointer(rebasing: rest[StoredTime.digitCount...])
            result.registration = readRegistration(ofDevice: stored)
            if result.registration == nil { return .malformedContent }
        case .alertHeld,
            .registered where rest.count > 0:
            guard rest.count > StoredVersion.textByteCount,
                StoredVersion.isText(UnsafeRawBufferPointer(rebasing: rest[..<StoredVersion.textByteCount]))
            else { return .malformedContent }
            result.heldCommand = UnsafeRawBufferPointer(rebasing: rest[StoredVersion.textByteCount...])
        default:
            guard rest.count == 0 else { return .protocolViolation }
        }
        return .reply(result)
    }

    /// Reads a send verdict that is a number: the timestamp, the priority and the pushes that are left in the budget.
    /// Timestamp and priority may differ from those that the command asked for.
    /// - Parameter value: the beginning of the activity's value before the admission, from which the token is read. If
    ///   the command brought a new token, the value has the new token.
    private func parseSendVerdict(number: Int64, value: Reply) -> ParsedReply {
        guard value.kind == .string, value.bytes.count >= StoredActivity.tokenByteOffset, number > 0,
            let priority = SentPriority(rawValue: UInt8(number / PackedNumber.priorityFactor % 4))
        else { return .protocolViolation }
        var result = StoreReply<Bytes>(.send)
        result.timestamp = number / PackedNumber.timestampFactor
        result.budgetLeft = Int(number % PackedNumber.priorityFactor)
        guard result.timestamp <= Limits.timestampMax, result.budgetLeft <= Policy.Bucket.pushesMax else {
            return .protocolViolation
        }
        result.priority = priority == .ten ? 10 : 5
        result.isDemoted = priority == .demoted
        result.registration = readRegistration(ofActivity: value.bytes)
        return result.registration == nil ? .malformedContent : .reply(result)
    }

    /// Reads the short form of a send verdict: the activity's value before the admission. In this form, the verdict has
    /// the timestamp and the priority that the command asked for. The token is in the value. The number of pushes left
    /// in the budget is computed from the value and the server's clock.
    private func parseSendVerdict(
        asAskedBy call: StoreSessionCall,
        value: Bytes,
        _ nowMilliseconds: UInt64
    ) -> ParsedReply {
        var result = StoreReply<Bytes>(.send)
        result.timestamp = call.timestamp
        result.priority = call.requestsHighPriority ? 10 : 5
        let fullAtMilliseconds = LittleEndian.read(
            value[StoredActivity.budgetFullAtByteOffset..<StoredActivity.assignedTimestampByteOffset]
        )
        let isFrequent = value[StoredActivity.flagsByteOffset] & StoredActivity.Flag.allowsFrequentUpdates != 0
        let bucket = isFrequent ? call.frequentBudget : call.budget
        let remainingPushes = StoredBucket.pushesLeft(
            bucket,
            fullAtMilliseconds: fullAtMilliseconds,
            nowMilliseconds: nowMilliseconds
        )
        result.budgetLeft = call.requestsHighPriority ? max(0, remainingPushes - 1) : remainingPushes
        result.registration = readRegistration(ofActivity: value)
        return result.registration == nil ? .malformedContent : .reply(result)
    }

    /// Reads the registration in an activity's value; nil if the scripts did not write the value.
    private func readRegistration(ofActivity value: Bytes) -> TokenRegistration<Bytes>? {
        let registeredAtMilliseconds = LittleEndian.read(
            value[StoredActivity.registrationTimeByteOffset..<StoredActivity.tokenByteOffset]
        )
        let count = Int(
            LittleEndian.read(value[StoredActivity.tokenByteCountByteOffset..<StoredActivity.flagsByteOffset])
        )
        let tokenByteCount = count & ~StoredActivity.countFlags
        let acceptedAlertBytes = count < StoredActivity.acceptedAlertFlag ? 0 : StoredVersion.byteCount
        let stored = UnsafeRawBufferPointer(rebasing: value[StoredActivity.tokenByteOffset...].prefix(tokenByteCount))
        guard registeredAtMilliseconds <= StoredTime.millisecondsMax,
            value.count == StoredActivity.tokenByteOffset + tokenByteCount + acceptedAlertBytes,
            let form = TokenForm(rawValue: value[StoredActivity.flagsByteOffset] & 7),
            let memory = tokenMemory.baseAddress,
            let token = TokenText.decode(form, stored, to: memory)
        else { return nil }
        return TokenRegistration(
            token: UnsafeRawBufferPointer(start: memory, count: token.count),
            environment: token.environment,
            registeredAtMilliseconds: Int64(registeredAtMilliseconds)
        )
    }

    /// Reads a device's registration; nil if the scripts did not write it.
    /// - Parameter stored: the field `t`, which has the registration's time and the beginning of the token, followed by
    ///   the field `u`, which has the rest of the token.
    private func readRegistration(ofDevice stored: Bytes) -> TokenRegistration<Bytes>? {
        guard stored.count > StoredTime.digitCount, let memory = tokenMemory.baseAddress,
            let milliseconds = StoredTime.parseMilliseconds(
                UnsafeRawBufferPointer(rebasing: stored[..<StoredTime.digitCount])
            ),
            let token = TokenText.decode(UnsafeRawBufferPointer(rebasing: stored[StoredTime.digitCount...]), to: memory)
        else { return nil }
        return TokenRegistration(
            token: UnsafeRawBufferPointer(start: memory, count: token.count),
            environment: token.environment,
            registeredAtMilliseconds: milliseconds
        )
    }
}

extension Reply {
    /// Whether the reply is an activity's value, not a verdict in words. Byte 7 shows the difference. In a verdict, it
    /// is a printable character, at least 32. In a value, it is the token's form, below 8, plus 8 if frequent updates
    /// are allowed. A value with other flags is never a reply.
    fileprivate var isStoredActivity: Bool {
        kind == .string && bytes.count >= StoredActivity.tokenByteOffset && bytes[StoredActivity.flagsByteOffset] < 0x10
    }
}

extension StoreVerdict {
    /// The verdict's word in the script.
    var scriptWord: StaticString {
        switch self {
        case .send: "send"
        case .wait: "wait"
        case .noToken: "noToken"
        case .held: "held"
        case .retry: "retry"
        case .duplicate: "duplicate"
        case .superseded: "superseded"
        case .ended: "ended"
        case .unchanged: "unchanged"
        case .unknown: "unknown"
        case .registered: "registered"
        case .stale: "stale"
        case .unregistered: "unregistered"
        case .tokenFound: "tokenFound"
        case .alertAwaitsCarrier: "alertAwaitsCarrier"
        case .alertHeld: "alertHeld"
        case .alertAlreadyAccepted: "alertAlreadyAccepted"
        case .activityOver: "activityOver"
        case .expired: "expired"
        case .full: "full"
        case .settled: "settled"
        case .departures: "departures"
        }
    }

    /// Finds the verdict with which a reply begins. The order of the search does not matter, because no verdict's word
    /// begins with another verdict's word.
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

/// A set of verdicts, one bit for each raw value, so that a reply allocates nothing. Iterates from the lowest raw
/// value, that of the most frequent verdict.
struct VerdictSet: Sequence, IteratorProtocol {
    private var bits: UInt32

    init(_ verdicts: StoreVerdict...) {
        bits = verdicts.reduce(0) { $0 | 1 << UInt32($1.rawValue) }
    }

    mutating func next() -> StoreVerdict? {
        guard bits != 0 else { return nil }
        let verdict = StoreVerdict(rawValue: UInt8(truncatingIfNeeded: bits.trailingZeroBitCount))
        bits &= bits &- 1
        return verdict
    }
}
